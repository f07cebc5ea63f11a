# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""How fast a device is: what replay's virtual clock charges."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from memspec_ros.errors import DataError

MAX_WIDTH = 16


@dataclass(frozen=True, kw_only=True)
class DeviceProfile:
    """Seconds of everything that an iteration, a switch, a load and a prediction take.

    :param target_s: a target pass by width (index 0 is unused), up to the largest draft + 1.
    :param draft_step_s: one step of a draft, by name; '' is the default.
    :param overhead_s: what an iteration takes beside passes and steps.
    :param catch_up_s: a draft's pass over what it missed: fixed part, and per missed token.
    :param free_catch_up: drafts that have no states to catch up with.
    :param load_s: a load by draft; '' is the default.
    :param prediction_s: a prediction.
    :param load_slowdown: how much longer an iteration takes while a draft loads; 1 is no longer.
    :param awaited_load_share: of a load's time, while decoding stands still for it and leaves it
        the processors.
    """

    name: str
    target_s: tuple[float, ...]
    draft_step_s: Mapping[str, float]
    load_s: Mapping[str, float]
    overhead_s: float = 0.0
    catch_up_s: tuple[float, float] = (0.0, 0.0)
    free_catch_up: tuple[str, ...] = ('ngram',)
    context_tokens: int = 256
    prediction_s: float = 0.0
    load_slowdown: float = 1.0
    awaited_load_share: float = 1.0
    source: str = ''

    def step_s(self, draft: str) -> float:
        """Seconds of one step of a draft."""
        return self.draft_step_s.get(draft, self.draft_step_s[''])

    def load_of(self, draft: str) -> float:
        """Seconds of a load of a draft."""
        return self.load_s.get(draft, self.load_s[''])

    def iteration_s(self, draft: str, num_drafted: int) -> float:
        """Seconds of an iteration without switch."""
        steps_s = num_drafted * self.step_s(draft) if num_drafted else 0.0
        return steps_s + self.target_s[num_drafted + 1] + self.overhead_s

    def missed_s(self, draft: str, num_missed: int) -> float:
        """Seconds of a draft's catch-up over so many missed tokens."""
        if draft in self.free_catch_up:
            return 0.0
        fixed_s, per_token_s = self.catch_up_s
        return fixed_s + per_token_s * min(num_missed, self.context_tokens)

    def save(self, path: Path) -> None:
        """Write the profile as JSON."""
        path.write_text(json.dumps(asdict(self), indent=2) + '\n', encoding='utf-8')

    @classmethod
    def load(cls, path: Path) -> DeviceProfile:
        """Read a profile.

        :raises DataError: the file cannot be read or is no profile.
        """
        try:
            values = json.loads(path.read_text(encoding='utf-8'))
            values['target_s'] = tuple(values['target_s'])
            values['catch_up_s'] = tuple(values['catch_up_s'])
            values['free_catch_up'] = tuple(values['free_catch_up'])
            return cls(**values)
        except (OSError, ValueError, TypeError, KeyError) as error:
            raise DataError(f'device profile {path} cannot be read: {error}') from error


def _flat(seconds: float) -> tuple[float, ...]:
    """A pass bound by reading the weights: as long for any of these widths."""
    return (0.0,) + (seconds,) * MAX_WIDTH


@dataclass(frozen=True, kw_only=True)
class PaperRatios:
    """What the paper and the boards' data sheets fix of a Jetson; the rest follows.

    A 4-bit 7B target (3.9 GB) and a 400M fp16 draft (0.8 GB) are read once per pass, at 75 % of
    the memory bandwidth. A load takes ``load_iterations`` speculative iterations (figure 2).
    """

    bandwidth_gb_s: float
    draft_length: int = 4
    load_iterations: float = 2.7
    target_gb: float = 3.9
    draft_gb: float = 0.8
    efficiency: float = 0.75
    prediction_share: float = 0.039
    scheduling_interval: int = 4

    def profile(self, name: str, source: str) -> DeviceProfile:
        """Return the device profile that follows."""
        per_gb_s = 1.0 / (self.bandwidth_gb_s * self.efficiency)
        target_s, step_s = self.target_gb * per_gb_s, self.draft_gb * per_gb_s
        iteration_s = target_s + self.draft_length * step_s
        return DeviceProfile(
            name=name, source=source, target_s=_flat(target_s), draft_step_s={'': step_s},
            load_s={'': self.load_iterations * iteration_s}, catch_up_s=(step_s, 0.0),
            prediction_s=self.prediction_share * self.scheduling_interval * iteration_s)


ORIN_NANO = PaperRatios(bandwidth_gb_s=102.0).profile(
    'orin_nano', 'table 1 (102 GB/s), figure 2 (a load is 2.7 iterations), 3.9 % prediction')
AGX_ORIN = PaperRatios(bandwidth_gb_s=204.8, load_iterations=3.0).profile(
    'agx_orin', 'data sheet (204.8 GB/s); the load as on Orin Nano at twice the storage rate')
PROFILES: Mapping[str, DeviceProfile] = {profile.name: profile
                                         for profile in (ORIN_NANO, AGX_ORIN)}
