# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""``memspec generate --compare``: both figures, on the same prompt, in one run."""

import json


def test_prints_both_figures_in_turn_after_a_warm_up(memspec, spoken):
    runtime = spoken()
    code, out, err = memspec('generate', 'x', '--compare', '2', runtime=runtime)
    assert (code, err) == (0, '')
    assert out.splitlines() == [
        'plain            4.0 tokens/s, 4 tokens, 1.00 committed per iteration, '
        '0/12 draft tokens accepted (ngram)',
        'speculative      8.0 tokens/s, 4 tokens, 2.00 committed per iteration, '
        '2/6 draft tokens accepted (ngram)',
        'speedup 2.00x, medians of 2 rounds; same text']
    lengths = [request.draft_length for request in runtime.requests]
    assert lengths == [-1, 0, -1, 0, -1]
    assert [request.max_tokens for request in runtime.requests] == [16, 0, 0, 0, 0]


def test_json_has_both_sides(memspec):
    code, out, _ = memspec('generate', 'x', '--compare', '--json')
    sides = json.loads(out)
    assert code == 0
    assert (sides['rounds'], sides['speedup'], sides['same_text']) == (3, 2.0, True)
    assert sides['plain']['tokens_per_second'] == 4.0
    assert sides['speculative']['tokens_per_second_of_rounds'] == [8.0, 8.0, 8.0]


def test_says_when_a_greedy_answer_differs(memspec, spoken):
    runtime = spoken(plain_words=('No.', 'No.'))
    _, out, _ = memspec('generate', 'x', '--compare', runtime=runtime)
    assert out.endswith('NOT the same text\n')
    _, out, _ = memspec('generate', 'x', '--compare', '--temperature', '1', runtime=runtime)
    assert out.endswith('medians of 3 rounds\n')


def test_refuses_to_compare_plain_with_plain(memspec):
    code, _, err = memspec('generate', 'x', '--compare', '--draft-length', '0')
    assert (code, err) == (2, 'memspec: --compare 3 with --draft-length 0: it needs at least 1 '
                           'round and a draft length that is not 0\n')


def test_a_goal_that_fails_ends_it(memspec, spoken):
    runtime = spoken(refusal='too long')
    code, out, err = memspec('generate', 'x', '--compare', runtime=runtime)
    assert (code, out, err) == (1, '', 'memspec: CONTEXT_EXCEEDED: too long\n')
