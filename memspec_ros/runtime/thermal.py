# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""How hot the machine is, where its kernel says so."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path


def read_temperatures(thermal_folder: str) -> Mapping[str, float]:
    """Return degrees Celsius by zone; empty where the machine shows none.

    A zone that cannot be read now is left out (the GPU's on a Jetson while the GPU sleeps).
    Format: Documentation/driver-api/thermal/sysfs-api.rst of the kernel, temp in thousandths.
    """
    found = {}
    for zone in sorted(Path(thermal_folder).glob('thermal_zone*')):
        try:
            name = (zone / 'type').read_text(encoding='ascii', errors='replace').strip()
            celsius = int((zone / 'temp').read_text(encoding='ascii')) / 1000.0
        except (OSError, ValueError):
            continue
        found[f'{name} ({zone.name})' if name in found else name or zone.name] = celsius
    return found
