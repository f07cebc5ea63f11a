# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""One draft-and-verify iteration, and what surrounds it: prefill, choice of tokens, text."""
