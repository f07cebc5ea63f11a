# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Corpus from the target, distillation of drafts, and acceptance traces."""
