# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Start the node for the demo: SmolLM2-135M-Instruct on the CPU."""

from pathlib import Path

from launch import LaunchDescription
from launch.actions import DeclareLaunchArgument, IncludeLaunchDescription
from launch.substitutions import LaunchConfiguration

HERE = Path(__file__).parent


def generate_launch_description() -> LaunchDescription:
    """Include generate_node.launch.py with this machine's params file."""
    return LaunchDescription([
        DeclareLaunchArgument('params_file', description="File with the node's parameters.",
                              default_value=str(HERE.parent / 'config' / 'demo.yaml')),
        IncludeLaunchDescription(
            str(HERE / 'generate_node.launch.py'),
            launch_arguments={'params_file': LaunchConfiguration('params_file')}.items()),
    ])
