# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The C++ library of the native decoder; models/native_library.py loads it."""
