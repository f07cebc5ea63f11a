# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""memspec_ros: memory-aware speculative decoding for robots, as a ROS 2 node."""

from pkgutil import extend_path

# A source tree on sys.path would hide the generated memspec_ros.action, .msg and .srv of the
# installed package; joining the two lets both be imported.
__path__ = extend_path(__path__, __name__)

__version__ = '0.1.0'
