# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Robot prompts of our own writing: templates, and the words to fill them with.

Public robot prompts are few. These cover what operators type: short commands, requests, step
plans, BehaviorTree XML, JSON tool calls, and questions about ROS 2.
"""

from __future__ import annotations

import random
import string
from collections.abc import Iterator

WORDS: dict[str, tuple[str, ...]] = {
    'object': (
        'mug', 'water bottle', 'sponge', 'screwdriver', 'banana', 'orange juice', 'red box',
        'green cylinder', 'blue ball', 'notebook', 'first aid kit', 'towel', 'bowl of soup',
        'snack bar', 'paper cup', 'empty can', 'plate', 'tomato', 'yellow cube', 'wrench',
        'remote control', 'newspaper', 'medicine box', 'tea', 'charger', 'apron', 'toolbox',
        'gear housing', 'pallet', 'parcel', 'battery pack', 'flashlight', 'keys', 'sandwich'),
    'place': (
        'kitchen counter', 'dining table', 'charging dock', 'loading bay', 'workbench',
        'top shelf', 'trash bin', 'sink', 'meeting room', 'conveyor belt', 'left drawer',
        'fridge', 'front desk', 'hallway', 'laundry basket', 'storage rack', 'elevator',
        'bedside table', 'greenhouse', 'garage door', 'assembly station', 'sofa'),
    'person': ('me', 'the nurse', 'my grandmother', 'the operator', 'the guest', 'Maria',
               'the technician in bay two'),
    'robot': ('household robot', 'warehouse robot', 'mobile manipulator', 'delivery robot',
              'quadruped inspection robot', 'robot arm with a parallel gripper', 'hospital robot',
              'agricultural rover', 'drone with a camera', 'TurtleBot with a lidar'),
    'need': ('something to drink', 'something warm to eat', 'a fruit', 'something to clean with',
             'something salty', 'a tool to tighten a bolt', 'something without sugar',
             'something to read', 'a light snack', 'something to dry my hands'),
    'mishap': ('I spilled coffee on the floor', 'I dropped a glass', 'the sink is overflowing',
               'my hands are full', 'the table is dirty', 'I am thirsty after my run',
               'the box fell off the shelf', 'I have a headache', 'the battery is almost empty',
               'guests arrive in ten minutes'),
    'direction': ('left', 'right', 'forward', 'backward', 'north', 'toward the door'),
    'degrees': ('15', '30', '45', '60', '90', '120', '180'),
    'metres': ('0.5', '1', '1.5', '2', '3', '5', '10'),
    'xy': ('(x: 0.4, y: 0.1)', '(x: -0.3, y: 0.5)', '(x: 1.2, y: -2.0)', '(x: 3.5, y: 0.8)',
           '(x: 0.25, y: 0.25)', '(x: -1.5, y: 4.0)'),
    'xyz': ('(0.3, 0.1, 0.2)', '(0.5, -0.2, 0.4)', '(-0.1, 0.6, 0.15)', '(0.0, 0.45, 0.3)'),
    'topic': ('/scan', '/odom', '/camera/image_raw', '/cmd_vel', '/joint_states', '/imu/data',
              '/battery_state', '/map', '/tf', '/goal_pose', '/diagnostics', '/points'),
    'message': ('geometry_msgs/msg/Twist', 'sensor_msgs/msg/LaserScan', 'nav_msgs/msg/Odometry',
                'sensor_msgs/msg/JointState', 'geometry_msgs/msg/PoseStamped',
                'std_msgs/msg/String', 'sensor_msgs/msg/BatteryState'),
    'service': ('/reset_odometry', '/clear_costmap', '/set_camera_info', '/spawn_entity',
                '/get_planning_scene', '/switch_controller', '/save_map', '/set_led_color'),
    'action': ('/navigate_to_pose', '/follow_waypoints', '/dock_robot', '/move_group', '/spin',
               '/follow_joint_trajectory', '/undock_robot', '/backup'),
    'node': ('/planner_server', '/controller_server', '/camera_driver', '/amcl', '/slam_toolbox',
             '/robot_state_publisher', '/teleop_node', '/diagnostic_aggregator'),
    'parameter': ('max_velocity', 'publish_rate', 'use_sim_time', 'inflation_radius',
                  'xy_goal_tolerance', 'exposure', 'frame_id', 'map_resolution'),
    'concept': (
        'lifecycle nodes', 'quality of service policies', 'the tf2 transform tree',
        'action servers', 'parameters', 'launch files', 'node composition', 'costmaps',
        'inverse kinematics', 'odometry', 'SLAM', 'behavior trees', 'executors',
        'callback groups', 'rosbag recording', 'URDF', 'ros2_control', 'path planning',
        'PID control', 'sensor fusion', 'the costmap inflation layer', 'namespaces'),
    'task': (
        'make a cup of tea', 'water the plants', 'set the table for two', 'load the dishwasher',
        'sort the recycling', 'pack the parcels', 'inspect the pipes', 'clean the bathroom floor',
        'restock the shelf', 'fold the laundry', 'prepare breakfast', 'deliver the mail',
        'change a light bulb', 'feed the cat', 'take out the trash', 'tidy the living room',
        'scan all barcodes', 'wipe the window', 'replace the filter', 'find the lost phone',
        'patrol the ground floor', 'weigh the samples', 'tighten all bolts', 'mop the hallway'),
    'skills': (
        'find(object), pick(object), place(object, location), go_to(location), done()',
        'move_forward(metres), turn(degrees), take_picture(), report(text)',
        'open_gripper(), close_gripper(), move_to(x, y, z), wait(seconds)',
        'navigate(room), grasp(item), release(), open(door), close(door), say(text)'),
    'behavior': (
        'drives to a goal and spins when it is stuck', 'patrols three waypoints forever',
        'docks when the battery falls below 20 percent', 'picks an object and brings it back',
        'retries the grasp three times and then asks for help',
        'replans the path whenever the goal changes', 'backs up when the bumper is pressed',
        'opens a door before it drives through', 'searches each room until it sees a person',
        'follows a person and stops when closer than one metre'),
}

TEMPLATES: tuple[str, ...] = (
    'Bring {person} the {object}.',
    'Please bring {person} {need} from the {place}.',
    'Could you fetch the {object} from the {place}?',
    'How would you bring {person} the {object} and a {object}?',
    'How would you put the {object} on the {place}?',
    'How would you throw away the {object}?',
    '{Mishap}. Can you help?',
    '{Mishap}, how would you help?',
    'I would like {need}. What do you do?',
    'Can you get me {need} that is not a {object}?',
    'Take the {object} from the {place} and put it in the {place}.',
    'Move the {object} from the {place} to the {place}, then move the {object} next to it.',
    'Pick up the {object} and place it at the coordinates {xy}.',
    'Place each {object} at {xy} and leave the {object} where it is.',
    'Stack the {object} on top of the {object}.',
    'Arrange the {object}, the {object} and the {object} in a line.',
    'Swap the {object} and the {object} on the {place}.',
    'Push the {object} to the {direction}.',
    'Rotate the {object} {degrees} degrees to the {direction}.',
    'turn {direction} {degrees} degrees',
    'move {direction} {metres} metres',
    'move {direction} {metres} metres, then turn {degrees} degrees and take a photo',
    'go to the {place} and send a picture',
    'drive to the {place} and wait there',
    'stop at the {place} and tell me what you see',
    'Drive to {xy} and then return to the {place}.',
    'You are a {robot}. Give the numbered steps for this task: {task}',
    'You are a {robot}. Give a short plan to {task}.',
    'You are a {robot}. {Mishap}. List your actions, one a line.',
    'You are a {robot} and can use only these functions: {skills}. Write the calls to bring the '
    '{object} to the {place}.',
    'You are a {robot} and can use only these functions: {skills}. Write the calls to {task}.',
    'Available skills: {skills}. Task: {task}. Answer with one skill per line.',
    'Plan: how does a {robot} {task}? Number the steps and finish with "done".',
    'Write a BehaviorTree.CPP v4 XML tree that {behavior}.',
    'Write a Nav2 behavior tree in XML that {behavior}.',
    'Give me a behavior tree for a {robot} that {behavior}. Answer with XML only.',
    'Answer with a JSON tool call {{"tool": ..., "arguments": ...}} to move the {object} to '
    '{xyz}.',
    'Reply in JSON with the fields "action", "object" and "location": take the {object} to the '
    '{place}.',
    'Tools: get_topics(), publish(topic, type, message), call_service(name, type, request). '
    'Which call, as JSON, makes the robot drive forward at {metres} m/s?',
    'Convert this command into a JSON list of steps: go to the {place}, pick up the {object}, '
    'bring it to {person}.',
    'List the topics of the robot and tell me the type of {topic}.',
    'What is published on {topic}, and how often?',
    'Get one message from {topic} and describe it.',
    'Publish a {message} message to {topic} with sensible values.',
    'Write the fields of {message} as JSON with example values.',
    'Call the service {service} with default values.',
    'Send a goal to the action {action} for position {xy}.',
    'Start the action {action} and cancel it after {metres} seconds.',
    'Which nodes publish to {topic}?',
    'Set the parameter {parameter} of {node} to {metres}.',
    'What does the parameter {parameter} of {node} do?',
    'List all parameters of {node} and the value of {parameter}.',
    'Get the transform from base_link to the {object} and move the arm above it.',
    'Where is the {object}? Look around and give its position.',
    'Is there a {object} on the {place}? Answer yes or no and say why.',
    'How many objects are on the {place}? Take an image and count.',
    'Explain {concept} in ROS 2.',
    'How do I use {concept} in a ROS 2 package?',
    'What goes wrong with {concept} on a {robot}, and how do I fix it?',
    'Write a ROS 2 Python node that subscribes to {topic} and stops the robot when needed.',
    'Write a ROS 2 Python node that publishes {message} on {topic} at 10 Hz.',
    'Show the command line to echo {topic} and to call {service}.',
    'The robot reports an error from {node}. What should the operator check?',
    'Describe in two sentences what a {robot} does when it must {task}.',
)


def robot_prompts(count: int, *, seed: int = 0) -> Iterator[dict[str, str]]:
    """Yield ``count`` different prompts, as the corpus tool reads them: id, domain, prompt.

    Templates take turns, so that any beginning covers all kinds.
    """
    choose = random.Random(seed)
    seen: set[str] = set()
    while len(seen) < count:
        for template in choose.sample(TEMPLATES, len(TEMPLATES)):
            prompt = _fill(template, choose)
            if prompt not in seen and len(seen) < count:
                seen.add(prompt)
                yield {'id': f'memspec-robot-{len(seen)}', 'domain': 'robot', 'prompt': prompt}


def _fill(template: str, choose: random.Random) -> str:
    parts = []
    for text, name, _, _ in string.Formatter().parse(template):
        parts.append(text)
        if name:
            word = choose.choice(WORDS[name.lower()])
            parts.append(word[0].upper() + word[1:] if name[0].isupper() else word)
    return ''.join(parts)
