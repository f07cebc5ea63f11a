# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The ``memspec`` command line: one file per subcommand, imported when it is asked for."""
