# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Fakes that ship beside the real parts, behind the same boundaries."""
