# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""What the draft cache counts."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(kw_only=True)
class CacheCounters:
    """Counts since the draft cache was made; they only grow.

    A wasted prefetch is a load that was cancelled, or whose draft left without having run.
    """

    num_loads: int = 0
    num_failed_loads: int = 0
    num_cancelled_loads: int = 0
    num_evictions: int = 0
    num_wasted_prefetches: int = 0
