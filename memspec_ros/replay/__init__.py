# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Replay: the same controller, draft cache and policies on acceptance tables and virtual time."""
