# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The picture that memspec monitor draws, from values and without ROS."""

import types

from memspec_ros.cli.dashboard import Dashboard, missing, sparkline
from memspec_ros.records import (
    DraftState,
    DraftStatus,
    Health,
    Residency,
    Throughput,
    TimeShares,
)


def sight(rate=40.0, code=DraftState.RESIDENT, **changes):
    drafts = (DraftStatus(name='general', domain='general', state=DraftState.ACTIVE, num_bytes=1,
                          score=0.75, in_working_set=True),
              DraftStatus(name='code', domain='code', state=code, num_bytes=1,
                          reason='evicted: memory pressure'))
    check = types.SimpleNamespace(name='lifecycle', level=Health.OK, message='active',
                                  values={'state': 'active'})
    values = {'throughput': Throughput(tokens_per_second=rate, acceptance=0.5, num_loads=3,
                                       shares=TimeShares(desired=0.9, load_wait=0.1)),
              'queue_length': 4, 'checks': (check,), 'state': 'active',
              'residency': Residency(drafts=drafts, cache_capacity=2, resident_bytes=2_500_000)}
    return types.SimpleNamespace(**{**values, **changes})


def picture(*sights, width=80, **options):
    dashboard = Dashboard('/memspec', **options)
    for one in sights:
        dashboard.add(one)
    return '\n'.join(dashboard.lines(sights[-1], width))


def test_sparkline():
    assert sparkline([0.0, 0.5, 1.0], top=1.0) == '▁▅█'
    assert sparkline([1.0, 2.0, 4.0]) == '▃▅█'
    assert sparkline([0.0, 0.0]) == '▁▁'
    assert sparkline([]) == ''


def test_every_figure_is_drawn():
    drawn = picture(sight(10.0), sight(20.0), sight(40.0))
    for text in ('/memspec: active', 'tokens/s        40.0  ▃▅█', 'acceptance      0.50  ▅▅▅',
                 'queue              4  ███', '3 loads', 'desired 90 %', 'load wait 10 %', 'K 2',
                 '2.5 MB resident', 'OK    lifecycle: active'):
        assert text in drawn, text


def test_residency_is_a_timeline():
    drawn = picture(sight(code=DraftState.ABSENT), sight(code=DraftState.LOADING), sight())
    general, code = (next(line for line in drawn.splitlines() if line[1:].startswith(name))
                     for name in ('general', 'code'))
    assert general.startswith('*')
    assert general.endswith('  ███')
    assert code.endswith('  ·↑▒')
    assert '    evicted: memory pressure' in drawn


def test_a_message_that_came_before_counts_once():
    one = sight()
    assert picture(one, one, one).count('█') == picture(one).count('█')


def test_no_line_is_wider_than_the_terminal():
    sights = [sight(float(number)) for number in range(300)]
    for width in (10, 40, 200):
        assert max(map(len, picture(*sights, width=width).splitlines())) <= width


def test_colours_only_where_asked_for():
    assert '\x1b[' not in picture(sight())
    assert '\x1b[32mOK' in picture(sight(), colours=True)


def test_before_anything_came():
    nothing = sight(throughput=None, residency=None, checks=(), state='')
    assert picture(nothing) == '/memspec: waiting for news\n'
    assert all(missing(nothing).values())


def test_an_inactive_node_tells_by_diagnostics_alone():
    inactive = sight(throughput=None, residency=None, state='inactive')
    assert not any(missing(inactive).values())
    assert missing(sight(throughput=None))['~/throughput']
