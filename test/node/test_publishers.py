# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""What is published, and when."""

import dataclasses

from memspec_ros.node.health import check_queue
from memspec_ros.node.publishers import Publishers
from memspec_ros.records import DraftState, DraftStatus, Residency, Throughput

DRAFT = DraftStatus(name='alpha', domain='', state=DraftState.RESIDENT, num_bytes=5, score=0.5)
RESIDENCY = Residency(drafts=(DRAFT,), cache_capacity=2)


def with_draft(**changes):
    return dataclasses.replace(RESIDENCY, drafts=(dataclasses.replace(DRAFT, **changes),))


def test_residency_is_published_at_each_change(node):
    publishers = Publishers(node)
    for residency in (RESIDENCY, RESIDENCY, with_draft(state=DraftState.ACTIVE),
                      with_draft(state=DraftState.ACTIVE, in_working_set=True),
                      dataclasses.replace(RESIDENCY, cache_capacity=1)):
        publishers.residency(residency, with_scores=False)
    assert len(node.published['~/draft_residency']) == 4


def test_scores_alone_are_a_change_only_when_asked(node):
    publishers = Publishers(node)
    publishers.residency(RESIDENCY, with_scores=True)
    publishers.residency(with_draft(score=0.75), with_scores=False)
    assert len(node.published['~/draft_residency']) == 1
    publishers.residency(with_draft(score=0.75), with_scores=True)
    assert node.published['~/draft_residency'][1].drafts[0].score == 0.75


def test_throughput_and_diagnostics(node):
    publishers = Publishers(node)
    publishers.throughput(Throughput(tokens_per_second=3.0), queue_length=4)
    publishers.diagnostics([check_queue(0, 4, 0, 0)])
    assert node.published['~/throughput'][0].queue_length == 4
    assert node.published['/diagnostics'][0].status[0].name == 'memspec: goal queue'
