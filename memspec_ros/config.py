# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Settings: one frozen dataclass per group, one field per ROS parameter.

A field's name under its group is the parameter's dotted name (``runtime.cache_capacity``), and
its metadata are the descriptor: the node declares its parameters, the command line reads params
files and the README's table is written from the same fields, so they cannot drift apart.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from memspec_ros.errors import ConfigError, did_you_mean

MAX_PARAMS_FILE_BYTES = 1 << 20
MAX_PARAMETERS = 10_000
POLICIES = ('general_static', 'oracle_static', 'mab_sync', 'mab_async', 'bandit_spec',
            'prediction_only', 'memspec', 'memspec_online')


def _setting(default: Any, description: str, *, low: float | None = None,
             high: float | None = None, choices: tuple[str, ...] = (),
             dynamic: bool = False) -> Any:
    """Declare one parameter; ``dynamic`` ones are applied at the next scheduling point."""
    metadata = {'description': description, 'low': low, 'high': high, 'choices': choices,
                'dynamic': dynamic}
    if isinstance(default, tuple):
        return field(default_factory=lambda: default, metadata=metadata)
    return field(default=default, metadata=metadata)


@dataclass(frozen=True, kw_only=True)
class ParameterSpec:
    """One parameter: its dotted name, default and descriptor."""

    name: str
    default: bool | int | float | str | tuple[str, ...]
    description: str
    low: float | None
    high: float | None
    choices: tuple[str, ...]
    dynamic: bool

    def accept(self, value: Any) -> Any:
        """Return ``value`` as this parameter's type (an int serves for a double).

        :raises ConfigError: naming parameter, value, and the allowed type or range.
        """
        value = self._as_type(value)
        if self.choices and value not in self.choices:
            raise ConfigError(f"{self.name} is '{value}'; it must be one of "
                              f'{", ".join(self.choices)}{did_you_mean(value, self.choices)}')
        outside = (self.low is not None and value < self.low) or \
                  (self.high is not None and value > self.high)
        if outside or (isinstance(value, float) and not math.isfinite(value)):
            raise ConfigError(f'{self.name} is {value}; it must be in '
                              f'[{self.low}, {self.high}]')
        return value

    def _as_type(self, value: Any) -> Any:
        wanted = type(self.default)
        if wanted is float and type(value) is int:
            return float(value)
        if wanted is tuple and isinstance(value, (list, tuple)) \
                and all(isinstance(item, str) for item in value):
            return tuple(value)
        if type(value) is not wanted:
            name = 'list of strings' if wanted is tuple else wanted.__name__
            raise ConfigError(f'{self.name} is {value!r} ({type(value).__name__}); '
                              f'it must be a {name}')
        return value


@dataclass(frozen=True, kw_only=True)
class TargetSettings:
    """The large model."""

    model: str = _setting(
        '', 'Target model: a path, pkg:MODULE/FILE for a file inside an installed Python '
        'package, or hf:ORG/NAME[@REVISION].')
    tokenizer: str = _setting('', 'Tokenizer folder or file; empty takes the one of the model.')
    backend: str = _setting(
        'auto', 'fast: our decoder (Llama and Qwen2 families); transformers: any other '
        'architecture; auto: fast where it can.', choices=('auto', 'fast', 'transformers'))
    dtype: str = _setting(
        'auto', 'Weights in memory; auto keeps 4-bit files 4-bit and others bf16.',
        choices=('auto', 'int4', 'bf16', 'fp32'))
    device: str = _setting('auto', 'auto takes CUDA when there is one.',
                           choices=('auto', 'cpu', 'cuda'))
    context_tokens: int = _setting(
        2048, 'n_ctx: prompt and answer together; the KV cache is allocated for it once.',
        low=64, high=1_048_576)
    prefill_chunk_tokens: int = _setting(
        128, 'Prompt tokens per pass; a cancel waits for one pass at most.', low=1, high=4096)
    num_threads: int = _setting(0, 'CPU threads of a pass; 0 takes all cores.', low=0, high=256)
    deterministic: bool = _setting(
        False, 'Run every pass at one fixed width, so that output does not depend on the draft '
        'even in near-ties (slower).')


@dataclass(frozen=True, kw_only=True)
class DraftSettings:
    """The pool of drafts and how they come into memory."""

    pool: str = _setting('', 'Pool description (YAML); empty serves with the n-gram draft only. '
                         'Forms as for target.model.')
    names: tuple[str, ...] = _setting((), 'Drafts of the pool to use; empty takes all.')
    ngram: bool = _setting(True, 'Keep the n-gram draft (prompt look-up), always resident.')
    ngram_max: int = _setting(4, 'Longest n-gram looked up.', low=1, high=16)
    context_tokens: int = _setting(
        256, 'Recent tokens a draft looks at; bounds catch-up time and draft KV.',
        low=16, high=1_048_576)
    dtype: str = _setting(
        'auto', 'Bits of independent drafts in their slots; auto keeps those of their files.',
        choices=('auto', 'bf16', 'int8', 'int4'))
    load_bandwidth_mb_s: float = _setting(
        0.0, 'Cap on reading a draft, MB/s, to be fair to other processes; 0 is none.',
        low=0.0, high=1e6, dynamic=True)


@dataclass(frozen=True, kw_only=True)
class RuntimeSettings:
    """Prediction, residency and control (the paper's symbols in brackets)."""

    policy: str = _setting('memspec_online', 'Which strategy schedules the drafts.',
                           choices=POLICIES, dynamic=True)
    cache_capacity: int = _setting(
        2, '[K] Drafts resident at once, loads in flight included.', low=1, high=64, dynamic=True)
    draft_budget_mb: float = _setting(
        0.0, 'Bytes that the slots may take together, MB; bounds K too. 0 is no bound.',
        low=0.0, high=1e6)
    scheduling_interval: int = _setting(
        4, '[N] Iterations between predictions.', low=1, high=4096, dynamic=True)
    recent_tokens: int = _setting(
        64, '[T] Recent tokens that the predictor sees beside the prompt.',
        low=1, high=4096, dynamic=True)
    draft_length: int = _setting(
        -1, '[gamma] Tokens drafted per iteration; 0 is plain decoding, -1 lets the cost model '
        'choose.', low=-1, high=15, dynamic=True)
    max_draft_length: int = _setting(
        7, 'Largest draft length that the cost model may choose.', low=1, high=15)
    exploration: float = _setting(
        2.0, '[c] Exploration weight of the UCB strategies.', low=0.0, high=100.0, dynamic=True)
    predictor: str = _setting(
        '', 'Predictor file; empty takes the one that the pool names, else a uniform prior.')
    oracle_draft: str = _setting('', 'The draft that oracle_static keeps.')
    reset_per_goal: bool = _setting(
        False, 'Empty the draft cache before each goal, as the paper evaluates.', dynamic=True)
    headroom_mb: float = _setting(
        256.0, 'Memory left free by the budget check, MB.', low=0.0, high=1e6)


@dataclass(frozen=True, kw_only=True)
class ServerSettings:
    """The action server."""

    autostart: bool = _setting(True, 'Configure and activate at start; else wait for lifecycle '
                               'transitions.')
    queue_capacity: int = _setting(16, 'Goals that may wait; one more is refused QUEUE_FULL.',
                                   low=1, high=4096)
    default_max_tokens: int = _setting(256, 'For goals with max_tokens 0.', low=1,
                                       high=1_048_576, dynamic=True)
    default_timeout_s: float = _setting(0.0, 'For goals with timeout 0; 0 is none.',
                                        low=0.0, high=1e6, dynamic=True)
    feedback_rate_hz: float = _setting(20.0, 'Most feedback messages per second and goal.',
                                       low=0.1, high=1000.0, dynamic=True)
    throughput_rate_hz: float = _setting(2.0, 'Rate of ~/throughput while serving.',
                                         low=0.1, high=100.0)
    cancel_on_client_loss: bool = _setting(
        True, 'Cancel a goal whose client has left; else let it run to its end.', dynamic=True)
    log_prompts: bool = _setting(False, 'Write prompts and answers to the log.', dynamic=True)
    preemption: bool = _setting(
        False, 'Interrupt the goal that runs for one of higher priority, between two iterations, '
        'and go on with it afterwards.', dynamic=True)
    model_roots: tuple[str, ...] = _setting(
        (), 'Folders that models, pools, drafts and predictors must lie in, links followed; empty '
        'is anywhere.')


@dataclass(frozen=True, kw_only=True)
class MachineSettings:
    """What the machine can bear, and where it says so."""

    watch_memory: bool = _setting(
        True, 'Lower K while memory is short, and raise it again when it is not.', dynamic=True)
    shrink_below_mb: float = _setting(
        128.0, 'Available memory below which K shrinks, MB.', low=0.0, high=1e6, dynamic=True)
    grow_above_mb: float = _setting(
        384.0, 'Available memory above which K grows back, MB.', low=0.0, high=1e6, dynamic=True)
    pressure_percent: float = _setting(
        20.0, 'Share of time that tasks stalled on memory (PSI, some, 10 s) from which K shrinks; '
        'it grows back below half of it. 100 is never.', low=1.0, high=100.0, dynamic=True)
    hold_s: float = _setting(
        10.0, 'How long memory must suffice before K grows by one.', low=0.0, high=3600.0,
        dynamic=True)
    warn_celsius: float = _setting(
        85.0, 'Temperature from which diagnostics warn.', low=0.0, high=200.0, dynamic=True)
    error_celsius: float = _setting(
        95.0, 'Temperature from which diagnostics are in error.', low=0.0, high=200.0,
        dynamic=True)
    proc_folder: str = _setting('/proc', "Where the kernel's meminfo and pressure/memory are.")
    thermal_folder: str = _setting('/sys/class/thermal', 'Where thermal zones are.')

    def __post_init__(self) -> None:
        for low, high in (('shrink_below_mb', 'grow_above_mb'), ('warn_celsius', 'error_celsius')):
            if getattr(self, low) > getattr(self, high):
                raise ConfigError(f'machine.{low} is {getattr(self, low)} and machine.{high} '
                                  f'{getattr(self, high)}: the first must not exceed the second')


@dataclass(frozen=True, kw_only=True)
class Settings:
    """All settings of one node or command."""

    target: TargetSettings = field(default_factory=TargetSettings)
    draft: DraftSettings = field(default_factory=DraftSettings)
    runtime: RuntimeSettings = field(default_factory=RuntimeSettings)
    server: ServerSettings = field(default_factory=ServerSettings)
    machine: MachineSettings = field(default_factory=MachineSettings)

    @classmethod
    def from_parameters(cls, parameters: Mapping[str, Any]) -> Settings:
        """Make settings from dotted names; what is absent keeps its default.

        :raises ConfigError: an unknown name (the nearest known one is named), a wrong type, a
            value out of range.
        """
        return cls().replace(parameters)

    def replace(self, parameters: Mapping[str, Any]) -> Settings:
        """Return a copy with some parameters changed; all or none. Raises as above."""
        specs = {spec.name: spec for spec in parameter_specs()}
        changes: dict[str, dict[str, Any]] = {}
        for name, value in parameters.items():
            if name not in specs:
                raise ConfigError(f"there is no parameter '{name}'{did_you_mean(name, specs)}")
            group, _, leaf = name.partition('.')
            changes.setdefault(group, {})[leaf] = specs[name].accept(value)
        return dataclasses.replace(self, **{
            group: dataclasses.replace(getattr(self, group), **leaves)
            for group, leaves in changes.items()})

    def as_parameters(self) -> dict[str, Any]:
        """Return dotted names and values, as :meth:`from_parameters` takes them."""
        return {spec.name: getattr(getattr(self, spec.name.split('.')[0]),
                                   spec.name.split('.')[1]) for spec in parameter_specs()}


def parameter_specs() -> Iterator[ParameterSpec]:
    """Yield every parameter, in the order of the dataclasses."""
    defaults = Settings()
    for group in dataclasses.fields(Settings):
        values = getattr(defaults, group.name)
        for leaf in dataclasses.fields(values):
            yield ParameterSpec(name=f'{group.name}.{leaf.name}',
                                default=getattr(values, leaf.name), **leaf.metadata)


def read_params_file(path: Path) -> dict[str, Any]:
    """Read a ROS 2 params file and return its parameters by dotted name.

    The first node entry is taken, whatever its name (``/**`` in the files that ship).

    :raises ConfigError: no such file, not YAML, too large, nested without end, or no
        ``ros__parameters`` in it.
    """
    try:
        if (size := Path(path).stat().st_size) > MAX_PARAMS_FILE_BYTES:
            raise ConfigError(f'params file {path} has {size} bytes; at most '
                              f'{MAX_PARAMS_FILE_BYTES} are read')
        document = yaml.safe_load(Path(path).read_text(encoding='utf-8'))
        nodes = document.values() if isinstance(document, dict) else ()
        for node in nodes:
            if isinstance(node, dict) and isinstance(node.get('ros__parameters'), dict):
                return dict(itertools.islice(_flatten(node['ros__parameters']), MAX_PARAMETERS))
    except (OSError, ValueError, yaml.YAMLError, RecursionError) as error:
        if isinstance(error, ConfigError):
            raise
        raise ConfigError(f'params file {path} cannot be read: {error}') from error
    raise ConfigError(f'params file {path} has no <node>: ros__parameters: entry')


def _flatten(tree: Mapping[str, Any], prefix: str = '') -> Iterator[tuple[str, Any]]:
    for name, value in tree.items():
        dotted = f'{prefix}{name}'
        if isinstance(value, dict):
            yield from _flatten(value, f'{dotted}.')
        else:
            yield dotted, value
