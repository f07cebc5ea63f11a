# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Models: checkpoints, the fast decoder, tokenizers, targets and drafts."""
