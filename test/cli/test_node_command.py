# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""``memspec node``: what it hands to ROS, and what it refuses before any node starts."""

import argparse

from memspec_ros.cli import main, node


def parsed(*words):
    parser = argparse.ArgumentParser()
    node.add_arguments(parser)
    return parser.parse_args(words)


def test_params_file_and_overrides_become_ros_arguments(params_file):
    args = parsed('--params-file', params_file, '--param', 'draft.names=code,math',
                  '--param', 'target.tokenizer=1e5', '--param', 'draft.ngram=true',
                  '--policy', 'memspec', '--ros-args', '-r', '__ns:=/robot', '--log-level',
                  'debug')
    assert node.ros_arguments(args) == [
        '--ros-args', '--params-file', params_file, '-p', 'draft.names:=["code", "math"]',
        '-p', 'target.tokenizer:="1e5"', '-p', 'draft.ngram:=true',
        '-p', 'runtime.policy:="memspec"', '-r', '__ns:=/robot', '--log-level', 'debug']


def test_a_wrong_parameter_ends_it_before_ros_is_imported(params_file, capsys):
    code = main.main(['node', '--params-file', params_file, '--param', 'server.queue=1'])
    assert code == 2
    assert "there is no parameter 'server.queue'" in capsys.readouterr().err
