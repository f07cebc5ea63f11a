# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The prediction engine (Algorithm 1): which draft will do best in a context."""
