# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The errors that memspec_ros raises.

::

    MemSpecError
    ├── ConfigError             a parameter, params file or pool description is wrong
    ├── ModelError              a model file cannot serve
    │   ├── ModelNotFoundError      no such file; says how to get it
    │   ├── ModelFormatError        truncated, corrupt, or not of this format
    │   ├── UnsupportedModelError   well formed, but of an architecture that is not served
    │   └── TokenizerMismatchError  target and draft do not share their tokens' content
    ├── BudgetError             the memory sum does not fit
    ├── LoadError               a draft could not be brought into its slot
    ├── DataError               a corpus, trace or checkpoint file is damaged or does not belong
    ├── DependencyError         an optional package is needed for this and not installed
    └── RequestError            a goal cannot be served; carries the action's error code

Every message names what is wrong, the value that was seen, and the limit or the accepted values.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from enum import IntEnum


class ErrorCode(IntEnum):
    """The ``error_code`` constants of ``Generate.action``, by the same numbers."""

    NONE = 0
    INVALID_GOAL = 1
    CONTEXT_EXCEEDED = 2
    UNKNOWN_DRAFT = 3
    UNSUPPORTED = 4
    NOT_ACTIVE = 5
    QUEUE_FULL = 6
    TIMEOUT = 7
    CANCELED = 8
    SHUTTING_DOWN = 9
    CLIENT_LOST = 10
    OUT_OF_MEMORY = 11
    INTERNAL = 12


class MemSpecError(Exception):
    """Base of all errors of this package."""


class ConfigError(MemSpecError, ValueError):
    """A parameter, params file or pool description is wrong."""


class ModelError(MemSpecError):
    """A model file cannot serve."""


class ModelNotFoundError(ModelError, FileNotFoundError):
    """A model file does not exist; the message says how to get it."""


class ModelFormatError(ModelError):
    """A model file is truncated, corrupt, or not of the stated format."""


class UnsupportedModelError(ModelError):
    """A model file is well formed, but nothing here serves its architecture."""


class TokenizerMismatchError(ModelError):
    """A draft's tokens do not have the content of the target's."""


class BudgetError(MemSpecError):
    """The memory sum does not fit into what the machine has."""


class LoadError(MemSpecError):
    """A draft could not be brought into its slot."""


class DataError(MemSpecError):
    """A corpus, trace, table or checkpoint file is damaged or belongs to something else."""


class DependencyError(MemSpecError):
    """An optional package is needed and not installed; the message says how to get it."""


class RequestError(MemSpecError):
    """A goal cannot be served.

    :param code: the action's error code.
    :param message: what is wrong, with the numbers.
    """

    def __init__(self, code: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.code = code


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return ``"; did you mean 'x'?"`` for the known name nearest to ``name``, or ``''``."""
    nearest = difflib.get_close_matches(name, list(known), n=1, cutoff=0.6)
    return f"; did you mean '{nearest[0]}'?" if nearest else ''
