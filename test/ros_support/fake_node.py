# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The node's process with a fake runtime: real ROS, no models."""

import argparse
import sys
import threading

from memspec_ros.node import generate_node
from memspec_ros.node.main import main
from memspec_ros.testing.fake_runtime import FakeScript


def run():
    parser = argparse.ArgumentParser()
    for option in ('--load-s', '--prefill-s', '--iteration-s'):
        parser.add_argument(option, type=float, default=0.0)
    parser.add_argument('--drain-limit-s', type=float, default=generate_node.DRAIN_LIMIT_S)
    parser.add_argument('--stuck-end', action='store_true')
    own, ros_args = parser.parse_known_args()
    if own.stuck_end:
        generate_node.GenerateNode.destroy_node = lambda _: threading.Event().wait()
    generate_node.DRAIN_LIMIT_S = own.drain_limit_s
    script = FakeScript(load_s=own.load_s, prefill_s=own.prefill_s, iteration_s=own.iteration_s)
    return main(ros_args, open_runtime=script.open)


if __name__ == '__main__':
    sys.exit(run())
