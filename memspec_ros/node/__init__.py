# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The ROS skin: the one place that knows rclpy and messages.

Two threads own everything. The executor thread owns every ROS entity and every goal's status; the
decode thread owns every model and every token, and publishes the feedback of the goal that it
runs. Goals go down through the decode thread's queue, and everything else comes up through the
:class:`~memspec_ros.node.outbox.Outbox`.
"""
