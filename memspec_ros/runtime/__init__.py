# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Prediction-guided, memory-aware scheduling of drafts: Algorithms 2 and 3 and their policies."""
