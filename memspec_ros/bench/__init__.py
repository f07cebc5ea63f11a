# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Measuring strategies on workloads, in real time and in replay, and showing what came out."""
