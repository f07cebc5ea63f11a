# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The native library (memspec_ros/native), found and loaded: its C interface in ctypes.

It is optional. Where it was not built, or for another machine, PyTorch's kernels serve.
"""

from __future__ import annotations

import ctypes
import functools
import logging
from collections.abc import Mapping, Sequence
from ctypes import POINTER, Structure, c_char_p, c_float, c_int32, c_size_t, c_void_p
from pathlib import Path
from typing import Any, ClassVar

import memspec_ros
from memspec_ros.errors import DependencyError, ModelError, UnsupportedModelError

ABI_VERSION = 2
LIBRARY_NAME = 'libmemspec_native.so'

FP32, FP16, BF16, INT8, INT4 = range(5)
NO_OFFSET, MINIMUM, CENTRED = range(3)
_OK, _BAD_ARGUMENT, _UNSUPPORTED, _OUT_OF_MEMORY, _BUSY = range(5)

_logger = logging.getLogger(__name__)


class MatrixStruct(Structure):
    """``MsMatrix``: shape, form and place of a packed matrix."""

    _fields_: ClassVar = [
        ('kind', c_int32), ('rows', c_int32), ('columns', c_int32), ('group', c_int32),
        ('scale_kind', c_int32), ('offset', c_int32), ('data', c_void_p)]


class LayerStruct(Structure):
    """``MsLayer``."""

    _fields_: ClassVar = [
        *((name, c_void_p) for name in ('attention_norm', 'mlp_norm', 'query_bias', 'key_bias',
                                        'value_bias', 'attention_order', 'output_order',
                                        'mlp_order')),
        *((name, MatrixStruct) for name in ('query', 'key', 'value', 'output', 'gate', 'up',
                                            'down'))]


class ConfigStruct(Structure):
    """``MsDecoderConfig``."""

    _fields_: ClassVar = [
        *((name, c_int32) for name in ('num_layers', 'hidden_size', 'intermediate_size',
                                       'num_heads', 'num_kv_heads', 'head_dim', 'context_tokens',
                                       'max_width')),
        ('norm_epsilon', c_float), ('kv_kind', c_int32), ('cosines', c_void_p),
        ('sines', c_void_p), ('final_norm', c_void_p), ('layers', POINTER(LayerStruct)),
        ('embedding', MatrixStruct), ('head', MatrixStruct)]


class PassStruct(Structure):
    """``MsPass``."""

    _fields_: ClassVar = [
        ('token_ids', c_void_p), ('embeddings', c_void_p), ('width', c_int32),
        ('position', c_int32), ('num_logits', c_int32), ('kv_capacity', c_int32),
        ('keys', c_void_p), ('values', c_void_p), ('logits', c_void_p), ('best_ids', c_void_p),
        ('hidden', c_void_p), ('hidden_start', c_int32), ('hidden_capacity', c_int32),
        ('num_slots', c_int32), ('slots', c_void_p), ('positions', c_void_p)]


_PROTOTYPES = {
    'memspec_abi_version': (c_int32, ()),
    'memspec_instruction_set': (c_char_p, ()),
    'memspec_select_instruction_set': (c_int32, (c_char_p,)),
    'memspec_packed_bytes': (c_size_t, (POINTER(MatrixStruct),)),
    'memspec_pack_grouped': (c_int32, (POINTER(MatrixStruct), c_void_p, c_void_p, c_void_p,
                                       c_void_p)),
    'memspec_pack_dense': (c_int32, (POINTER(MatrixStruct), c_void_p, c_void_p)),
    'memspec_unpack_row': (c_int32, (POINTER(MatrixStruct), c_int32, c_void_p)),
    'memspec_pool_create': (c_void_p, (c_int32,)),
    'memspec_pool_destroy': (None, (c_void_p,)),
    'memspec_linear': (c_int32, (c_void_p, POINTER(MatrixStruct), c_void_p, c_void_p, c_int32,
                                 c_void_p)),
    'memspec_decoder_create': (c_int32, (POINTER(ConfigStruct), c_void_p, POINTER(c_void_p))),
    'memspec_decoder_destroy': (None, (c_void_p,)),
    'memspec_decoder_bytes': (c_size_t, (c_void_p,)),
    'memspec_decoder_forward': (c_int32, (c_void_p, POINTER(PassStruct))),
}

# What a library of this version may lack: PyTorch's operations serve in its place.
_FEATURE_PROTOTYPES = {
    'memspec_feature_create': (c_int32, (c_void_p, c_void_p, POINTER(c_void_p))),
    'memspec_feature_destroy': (None, (c_void_p,)),
    'memspec_feature_restart': (None, (c_void_p,)),
    'memspec_feature_rewind': (None, (c_void_p,)),
    'memspec_feature_run': (c_int32, (c_void_p, c_void_p)),
}


def library_paths() -> list[Path]:
    """Return where the library may lie: beside the modules of each place the package is in.

    A source tree finds the library of an installed package, since the package's path has both,
    and what ``python -m memspec_ros.native.build`` left in build/native.
    """
    roots = [Path(entry) for entry in memspec_ros.__path__]
    return [*(root.parent / 'build' / 'native' / LIBRARY_NAME for root in roots),
            *(root / 'native' / LIBRARY_NAME for root in roots)]


@functools.cache
def load() -> ctypes.CDLL:
    """Return the library, loaded once: the first place's that has one of this version.

    :raises DependencyError: it is not installed, cannot be loaded, or is of another version.
    """
    paths = library_paths()
    found = [path for path in paths if path.is_file()]
    problems = []
    for path in found:
        try:
            return _open(path)
        except DependencyError as error:
            problems.append(str(error))
    advice = 'build it with python -m memspec_ros.native.build'
    if found:
        raise DependencyError(f'{"; ".join(problems)}; {advice}')
    raise DependencyError(f'{LIBRARY_NAME} is in none of {", ".join(map(str, paths))}: {advice}')


def _open(path: Path) -> ctypes.CDLL:
    try:
        library = ctypes.CDLL(str(path))
        _declare(library, _PROTOTYPES)
        if hasattr(library, 'memspec_feature_run'):
            _declare(library, _FEATURE_PROTOTYPES)
    except (OSError, AttributeError) as error:
        raise DependencyError(f'{path} cannot be loaded: {error}') from error
    version = library.memspec_abi_version()
    if version != ABI_VERSION:
        raise DependencyError(f'{path} has interface version {version}, expected {ABI_VERSION}')
    return library


def _declare(library: ctypes.CDLL, prototypes: Mapping[str, tuple[Any, Sequence[Any]]]) -> None:
    for name, (result, arguments) in prototypes.items():
        function = getattr(library, name)
        function.restype, function.argtypes = result, list(arguments)


@functools.cache
def is_available() -> bool:
    """Return whether the library can be used; says once in the log which one, or why not."""
    try:
        library = load()
    except DependencyError as error:
        _logger.info('native decoder not used: %s', error)
        return False
    _logger.info('native decoder: kernels for %s', library.memspec_instruction_set().decode())
    return True


def has_feature_drafts() -> bool:
    """Return whether the library can be used, and runs feature-conditioned drafts."""
    return is_available() and hasattr(load(), 'memspec_feature_run')


def check(code: int, what: str) -> None:
    """Raise what an error code of the library stands for.

    :raises UnsupportedModelError: a shape or form that the library has no kernels for.
    :raises ModelError: any other failure.
    """
    if code == _OK:
        return
    if code == _UNSUPPORTED:
        raise UnsupportedModelError(f'the native decoder does not support {what}')
    reasons = {_BAD_ARGUMENT: 'an argument is out of range', _OUT_OF_MEMORY: 'out of memory',
               _BUSY: 'its threads are in use by another call'}
    raise ModelError(f'the native decoder failed on {what}: {reasons.get(code, code)}')
