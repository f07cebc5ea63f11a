# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""``memspec bench``: the paper's evaluation, single drafts, peers, and all of it in replay."""

from __future__ import annotations

import argparse
import contextlib
import os
import platform
import shutil
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from memspec_ros.cli import machine
from memspec_ros.cli.options import add_settings_arguments, settings_from
from memspec_ros.config import Settings
from memspec_ros.errors import ConfigError

if TYPE_CHECKING:
    from memspec_ros.bench.real_time import RealTimeBench

REAL_TIME, DRAFTS, PEERS, REPLAY = 'regime_e', 'draft_matrix', 'peers', 'replay'
RUNS = {REAL_TIME: 3, DRAFTS: 3, PEERS: 5}
PROMPTS = {REAL_TIME: 100, DRAFTS: 100, PEERS: 5}
UNROLL = 7


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``memspec bench``."""
    modes = parser.add_argument_group(
        'what is measured (default: strategies in real time, with real models and threads)')
    mode = modes.add_mutually_exclusive_group()
    for flag, value, text in (
            ('--drafts', DRAFTS, 'each domain with its specialist, general, n-gram, plain'),
            ('--peers', PEERS, 'ours beside llama.cpp and transformers'),
            ('--replay', REPLAY, 'a trace on a virtual clock: devices, sweeps over K, N, length')):
        mode.add_argument(flag, dest='mode', action='store_const', const=value,
                          default=REAL_TIME, help=text)
    _add_work_arguments(parser.add_argument_group('work'))
    _add_regime_arguments(parser.add_argument_group('strategies, in real time and in replay'))
    _add_replay_arguments(parser.add_argument_group('replay'))
    _add_peer_arguments(parser.add_argument_group('drafts and peers'))
    add_settings_arguments(parser)


def _add_work_arguments(group: argparse._ArgumentGroup) -> None:
    group.add_argument('--workloads', nargs='+', default=[], metavar='SOURCE',
                       help='a folder with a folder of JSONL files per domain, a JSONL file with '
                       'id, domain and prompt, or NAME=FILE')
    group.add_argument('--domains', type=_names, default=[], metavar='A,B',
                       help="which, in this order (default: the paper's five of a folder; with "
                       '--drafts and --peers robot too)')
    group.add_argument('--prompts', type=int, metavar='N',
                       help='of each workload (default: 100; with --peers 5)')
    group.add_argument('--runs', type=int, metavar='N', help='(default: 3; with --peers 5)')
    group.add_argument('--max-tokens', type=int, default=128, metavar='N',
                       help='output tokens per prompt (default: %(default)s)')
    group.add_argument('--seed', type=int, default=0, metavar='N',
                       help='of the order in which prompts are drawn (default: %(default)s)')
    group.add_argument('--output', type=Path, metavar='FOLDER',
                       help='records of the run, which goes on from them when it was broken off '
                       '(default: the result file without .json)')
    group.add_argument('--result', type=Path, metavar='FILE',
                       help='(default: results/regime_e.json, draft_matrix.json, peers.json or '
                       'replay.json)')
    group.add_argument('--restart', action='store_true', help='throw the records away first')


def _add_regime_arguments(group: argparse._ArgumentGroup) -> None:
    group.add_argument('--strategies', type=_names, default=[], metavar='A,B',
                       help='(default: all, with plain and ngram)')
    group.add_argument('--cache-capacity', '-K', type=int, metavar='K')
    group.add_argument('--interval', '-N', type=int, metavar='N',
                       help='iterations between scheduling points')
    group.add_argument('--draft-length', type=int, metavar='GAMMA',
                       help='tokens drafted per iteration (default: 3; with --peers -1, adaptive)')
    group.add_argument('--load-iterations', type=float, default=2.7, metavar='X',
                       help="what a load takes, in iterations, by a bandwidth cap (the paper's "
                       '%(default)s; 0: no cap)')
    group.add_argument('--trace-tokens', type=int, default=0, metavar='N',
                       help='output tokens of the traces, for longer answers in replay '
                       '(default: those of --max-tokens)')
    group.add_argument('--stall', action='store_true',
                       help='measure too whether swaps stall decoding (3 drafts at the least)')
    group.add_argument('--deterministic', action='store_true',
                       help='fixed-width passes: every output must equal plain greedy decoding')


def _add_replay_arguments(group: argparse._ArgumentGroup) -> None:
    group.add_argument('--trace', type=Path, metavar='FILE',
                       help='(default: trace.safetensors of results/regime_e)')
    group.add_argument('--devices', type=_names, default=[], metavar='A,B',
                       help='orin_nano, agx_orin, or profile files (default: profile.json beside '
                       'the trace, then both)')
    group.add_argument('--real', type=Path, metavar='FILE',
                       help='result of the real run, to write replay_vs_real.json')
    group.add_argument('--no-sweeps', action='store_true')


def _add_peer_arguments(group: argparse._ArgumentGroup) -> None:
    group.add_argument('--all-pairs', action='store_true',
                       help='--drafts: every draft on every domain')
    group.add_argument('--peer-python', default='', metavar='PYTHON',
                       help='interpreter that has llama-cpp-python (default: this one)')
    group.add_argument('--transformers-python', default='', metavar='PYTHON',
                       help='interpreter that has transformers (default: this one)')
    group.add_argument('--assistant', default='', metavar='MODEL',
                       help="a smaller model of the target's family, for assisted generation")
    group.add_argument('--llama-lookup-tokens', type=int, default=2, metavar='N',
                       help="of llama.cpp's prompt look-up (default: %(default)s, which its "
                       'documentation advises without a GPU)')
    group.add_argument('--transformers-lookup-tokens', type=int, default=3, metavar='N',
                       help="of transformers' prompt look-up (default: %(default)s)")
    group.add_argument('--rows', type=_names, default=[], metavar='A,B',
                       help='rows of --peers (default: all)')


def run(args: argparse.Namespace) -> int:
    """Measure, print a table and write the result; 1 when the run was broken off."""
    args.result = args.result or Path('results') / f'{args.mode}.json'
    args.output = args.output or args.result.with_suffix('')
    settings = bench_settings(args)
    if args.mode == REPLAY:
        return _replay(args, settings)
    if not args.workloads:
        raise ConfigError('--workloads is missing: name a folder or a JSONL file of prompts')
    if args.restart:
        shutil.rmtree(args.output, ignore_errors=True)
    try:
        with contextlib.closing(_open(args, settings)) as bench:
            {REAL_TIME: _evaluate, DRAFTS: _drafts, PEERS: _peers}[args.mode](
                args, settings, bench)
    except KeyboardInterrupt:
        print('memspec: broken off; the same command goes on from here', file=sys.stderr)
        return 1
    return 0


def bench_settings(args: argparse.Namespace) -> Settings:
    """Return the settings of the params file as the bench changes them.

    :raises ConfigError: a value that is out of its range.
    """
    draft_length = {PEERS: -1}.get(args.mode, 3) if args.draft_length is None \
        else args.draft_length
    changes: dict[str, Any] = {'runtime.draft_length': draft_length,
                               'runtime.reset_per_goal': True}
    if args.cache_capacity is not None:
        changes['runtime.cache_capacity'] = args.cache_capacity
    if args.interval is not None:
        changes['runtime.scheduling_interval'] = args.interval
    if args.deterministic:
        changes['target.deterministic'] = True
    return settings_from(args).replace(changes)


def _open(args: argparse.Namespace, settings: Settings) -> RealTimeBench:
    from memspec_ros.bench.real_time import RealTimeBench
    from memspec_ros.runtime.assembly import assemble
    started_s = time.perf_counter()
    assembly = assemble(settings, lambda line: print(f'memspec: {line}', file=sys.stderr))
    args.opened_s = time.perf_counter() - started_s
    return RealTimeBench(assembly, settings, max_tokens=args.max_tokens,
                         unroll=max(UNROLL, settings.runtime.max_draft_length),
                         trace_tokens=args.trace_tokens)


def _about(args: argparse.Namespace, settings: Settings) -> dict[str, Any]:
    """Return what every result says of the machine and the workloads."""
    return {'machine': machine.device(settings.target.device), 'versions': machine.versions(),
            'num_threads': settings.target.num_threads or len(os.sched_getaffinity(0)),
            'platform': platform.platform(), 'memory_gb': memory_bytes() / 1e9,
            'workloads': list(args.workloads), 'seed': args.seed,
            'opened_s': getattr(args, 'opened_s', None)}


def memory_bytes() -> int:
    """Return the machine's memory."""
    return os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES')


def _workloads(args: argparse.Namespace) -> list[Any]:
    from memspec_ros.bench.workloads import ALL_DOMAINS, open_workloads
    domains = args.domains
    if not domains and args.mode != REAL_TIME and all(map(os.path.isdir, args.workloads)):
        domains = [name for name in ALL_DOMAINS
                   if any((Path(source) / name).is_dir() for source in args.workloads)]
    return open_workloads(args.workloads, domains=domains, seed=args.seed)


def _counts(args: argparse.Namespace) -> dict[str, Any]:
    return {'folder': args.output, 'result': args.result,
            'num_prompts': PROMPTS[args.mode] if args.prompts is None else args.prompts,
            'num_runs': RUNS[args.mode] if args.runs is None else args.runs}


def _evaluate(args: argparse.Namespace, settings: Settings, bench: RealTimeBench) -> None:
    from memspec_ros.bench.evaluation import Evaluation, EvaluationOptions
    from memspec_ros.bench.strategies import choose_strategies
    Evaluation(bench, settings, _workloads(args), EvaluationOptions(
        **_counts(args), load_iterations=args.load_iterations, stall=args.stall,
        strategies=tuple(choose_strategies(args.strategies))), _about(args, settings)).run()


def _drafts(args: argparse.Namespace, settings: Settings, bench: RealTimeBench) -> None:
    from memspec_ros.bench.drafts import DraftOptions, DraftSpeeds
    DraftSpeeds(bench, settings, _workloads(args), DraftOptions(
        **_counts(args), all_pairs=args.all_pairs), _about(args, settings)).run()


def _peers(args: argparse.Namespace, settings: Settings, bench: RealTimeBench) -> None:
    from memspec_ros.bench.peers import PeerComparison, PeerOptions
    from memspec_ros.models.model_reference import resolve
    PeerComparison(bench, settings, _workloads(args), PeerOptions(
        **_counts(args), model=str(resolve(settings.target.model)),
        llama_python=args.peer_python, transformers_python=args.transformers_python,
        llama_look_up_tokens=args.llama_lookup_tokens,
        transformers_look_up_tokens=args.transformers_lookup_tokens,
        assistant=str(resolve(args.assistant)) if args.assistant else '',
        rows=tuple(args.rows)), _about(args, settings)).run()


def _replay(args: argparse.Namespace, settings: Settings) -> int:
    from memspec_ros.bench.replay_run import ReplayOptions, run_replay
    from memspec_ros.bench.strategies import choose_strategies
    from memspec_ros.models.model_reference import resolve
    from memspec_ros.models.pool import load_pool
    trace = args.trace or args.result.with_name(REAL_TIME) / 'trace.safetensors'
    measured = trace.with_name('profile.json')
    predictor = resolve(settings.runtime.predictor) if settings.runtime.predictor else \
        load_pool(resolve(settings.draft.pool)).predictor_path if settings.draft.pool else None
    run_replay(settings.runtime, ReplayOptions(
        trace=trace, result=args.result, real=args.real, predictor=predictor,
        devices=tuple(args.devices or [*([str(measured)] if measured.is_file() else []),
                                       'orin_nano', 'agx_orin']),
        max_tokens=args.max_tokens, num_prompts=args.prompts or 0, sweeps=not args.no_sweeps,
        strategies=tuple(choose_strategies(args.strategies))), _about(args, settings))
    return 0


def _names(text: str) -> list[str]:
    return [name for name in text.split(',') if name]
