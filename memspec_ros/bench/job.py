# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""What measurements depend on, so that a folder never mixes those of two jobs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from memspec_ros.bench.real_time import RealTimeBench
from memspec_ros.config import Settings
from memspec_ros.models.model_reference import resolve
from memspec_ros.models.pool import Pool, load_pool
from memspec_ros.models.pool_files import draft_path, file_checksum

SHOWN_DIGITS = 16
HELD = 'held'


def job_of(bench: RealTimeBench, settings: Settings, *, load_iterations: float = 0.0,
           **more: Any) -> dict[str, Any]:
    """Return target, drafts and predictor by their content, and every parameter.

    :param load_iterations: loads are held at; the cap that does it is no part of the job.
    """
    parameters = settings.as_parameters()
    if load_iterations:
        parameters['draft.load_bandwidth_mb_s'] = HELD
    pool = load_pool(resolve(settings.draft.pool)).select(settings.draft.names) \
        if settings.draft.pool else None
    return {'target': bench.assembly.target_checksum,
            'drafts': {name: _draft(pool, name) for name in bench.pool} if pool else {},
            'predictor': _predictor(settings, pool), 'load_iterations': load_iterations,
            'max_tokens': bench.max_tokens, 'parameters': parameters, **more}


def _draft(pool: Pool, name: str) -> str:
    path = draft_path(pool, pool[name])
    return path.name if path.is_dir() else file_checksum(path)[:SHOWN_DIGITS]


def _predictor(settings: Settings, pool: Pool | None) -> str:
    path: Path | None = resolve(settings.runtime.predictor) if settings.runtime.predictor else \
        pool.predictor_path if pool else None
    return file_checksum(path)[:SHOWN_DIGITS] if path else ''
