# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# What the scripts of this folder share; sourced, never run.

ROOT=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.." && pwd)
MEMSPEC_ENV=${MEMSPEC_ENV:-$ROOT/.memspec-env}
mkdir -p -- "$MEMSPEC_ENV"
MEMSPEC_ENV=$(cd -- "$MEMSPEC_ENV" && pwd)
export MEMSPEC_ENV

# The environment stands alone: a sourced ROS distribution or another environment must not mix
# its modules, libraries and middleware into it. The ROS wheels set LD_LIBRARY_PATH themselves.
unset PYTHONPATH PYTHONHOME LD_LIBRARY_PATH AMENT_PREFIX_PATH CMAKE_PREFIX_PATH \
    COLCON_PREFIX_PATH ROS_DISTRO RMW_IMPLEMENTATION _ROS_WHEELS_BOOTSTRAP_COMPLETE
export PATH="$MEMSPEC_ENV/bin:$PATH" AMENT_PREFIX_PATH=$MEMSPEC_ENV

# Nodes of this machine only are seen, and domains are left to each caller.
export ROS_AUTOMATIC_DISCOVERY_RANGE=LOCALHOST

say() { printf '%s\n' "$*" >&2; }

fail() {
    say "error: $*"
    exit 1
}
