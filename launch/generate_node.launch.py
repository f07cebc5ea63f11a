# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Start one node with any params file; the launch files named after machines include this one."""

from launch import LaunchContext, LaunchDescription
from launch.actions import DeclareLaunchArgument, OpaqueFunction
from launch.substitutions import LaunchConfiguration
from launch_ros.actions import Node

RESPAWN_DELAY_S = 2.0


def generate_launch_description() -> LaunchDescription:
    """Declare the arguments and start the node with them."""
    return LaunchDescription([*make_arguments(), OpaqueFunction(function=make_node)])


def make_arguments() -> list[DeclareLaunchArgument]:
    """Return the arguments that all launch files of this package have."""
    return [
        DeclareLaunchArgument('params_file', description="File with the node's parameters."),
        DeclareLaunchArgument('namespace', default_value='',
                              description='Namespace; several nodes live in several.'),
        DeclareLaunchArgument('log_level', default_value='info',
                              choices=['debug', 'info', 'warn', 'error', 'fatal'],
                              description='Least severity that is logged.'),
        DeclareLaunchArgument('autostart', default_value='', choices=['', 'true', 'false'],
                              description='Configure and activate at start, or wait for lifecycle '
                              'transitions; empty follows server.autostart of the params file.'),
        DeclareLaunchArgument('respawn', default_value='false', choices=['true', 'false'],
                              description='Start the node again when its process has ended.'),
    ]


def make_node(context: LaunchContext) -> list[Node]:
    """Return the node; its values must be known, since parameters cannot be optional."""
    value = {name: LaunchConfiguration(name).perform(context) for name in
             ('params_file', 'namespace', 'log_level', 'autostart', 'respawn')}
    parameters = [value['params_file']]
    if value['autostart']:
        parameters.append({'server.autostart': value['autostart'] == 'true'})
    return [Node(package='memspec_ros', executable='generate_node',
                 namespace=value['namespace'], parameters=parameters,
                 ros_arguments=['--log-level', value['log_level']],
                 respawn=value['respawn'] == 'true', respawn_delay=RESPAWN_DELAY_S,
                 output='screen', emulate_tty=True)]
