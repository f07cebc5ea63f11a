# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""``python -m memspec_ros.cli`` is ``memspec``, for trees that are not installed."""

import sys

from memspec_ros.cli.main import main

sys.exit(main())
