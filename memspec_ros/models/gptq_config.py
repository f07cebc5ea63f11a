# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""How a folder's GPTQ tensors are to be read: bits, groups, zero points.

The settings lie in ``config.json`` under ``quantization_config``, or in ``quantize_config.json``
(AutoGPTQ 0.7 and gptqmodel write both; older files have the second alone).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from memspec_ros.errors import ModelFormatError, UnsupportedModelError
from memspec_ros.models.tensor_shapes import Shape

BITS = (4, 8)
V1, V2 = 'gptq', 'gptq_v2'
WHOLE_ROW = -1
WORD_BITS = 32
GROUP_STEP = 32  # columns; kernels take groups that are multiples of it


@dataclass(frozen=True, kw_only=True)
class GptqConfig:
    """Settings of a GPTQ checkpoint.

    :param group_size: columns that share a scale, in the order in which they were quantised;
        -1 is the whole row.
    :param symmetric: every zero point is the middle code (checked); a file that does not say
        counts as not.
    :param act_order: columns were quantised by falling activation (``desc_act``); ``g_idx`` says
        which group each is of.
    :param checkpoint_format: ``gptq`` (version 1) stores zero points less one, modulo 2^bits;
        ``gptq_v2`` as they are.
    :raises UnsupportedModelError: bits, a group size or a format that is not read.
    """

    bits: int
    group_size: int
    symmetric: bool = True
    act_order: bool = False
    checkpoint_format: str = V1

    def __post_init__(self) -> None:
        if self.bits not in BITS:
            raise UnsupportedModelError(f'GPTQ bits is {self.bits}; read are '
                                        f'{" and ".join(map(str, BITS))}')
        size = self.group_size
        if size != WHOLE_ROW and (size < GROUP_STEP or size % GROUP_STEP):
            raise UnsupportedModelError(f'GPTQ group_size is {size}; read are {WHOLE_ROW} (whole '
                                        f'rows) and multiples of {GROUP_STEP}')
        if self.checkpoint_format not in (V1, V2):
            raise UnsupportedModelError(f"the GPTQ checkpoint_format is '{self.checkpoint_format}'"
                                        f'; read are {V1} and {V2}')

    @property
    def zero_shift(self) -> int:
        """What is added to a stored zero point."""
        return 1 if self.checkpoint_format == V1 else 0

    @property
    def middle(self) -> int:
        """The zero point of symmetric weights."""
        return 1 << (self.bits - 1)

    def group(self, columns: int) -> int:
        """Columns that share a scale, in a matrix of so many."""
        return columns if self.group_size == WHOLE_ROW else min(self.group_size, columns)

    def num_groups(self, columns: int) -> int:
        """Groups of a row; the last may be shorter."""
        return math.ceil(columns / self.group(columns))

    def tensor_shapes(self, rows: int, columns: int) -> dict[str, Shape]:
        """Return the shapes of a matrix's tensors, by the ends of their names."""
        per_word = WORD_BITS // self.bits
        groups = self.num_groups(columns)
        return {'qweight': (columns // per_word, rows), 'qzeros': (groups, rows // per_word),
                'scales': (groups, rows), 'g_idx': (columns,)}

    @classmethod
    def from_documents(cls, config: Mapping[str, Any], quantize_config: Mapping[str, Any], *,
                       source: str) -> GptqConfig:
        """Read the settings; those in ``config.json`` come first.

        :param source: the folder, for messages.
        :raises ModelFormatError: a setting is missing or of the wrong type.
        :raises UnsupportedModelError: the method is not GPTQ, or as the class says.
        """
        settings = config.get('quantization_config', quantize_config)
        if not isinstance(settings, Mapping):
            raise ModelFormatError(f'{source}: quantization_config is {settings!r:.80}; it must '
                                   'be an object')
        _refuse_others(settings, source)
        try:
            return cls(bits=_typed(settings, 'bits', int, None),
                       group_size=_typed(settings, 'group_size', int, None),
                       symmetric=_typed(settings, 'sym', bool, False),
                       act_order=_typed(settings, 'desc_act', bool, False),
                       checkpoint_format=_format(settings))
        except (ModelFormatError, UnsupportedModelError) as error:
            raise type(error)(f'{source}: {error}') from error


def _format(settings: Mapping[str, Any]) -> str:
    # Newer versions of gptqmodel write "format" beside or in place of "checkpoint_format".
    named = settings.get('checkpoint_format') or settings.get('format') or V1
    return str(named)


def _refuse_others(settings: Mapping[str, Any], source: str) -> None:
    method = settings.get('quant_method', 'gptq')
    if method != 'gptq':
        raise UnsupportedModelError(f"{source}: weights are quantised by '{method}'; read from "
                                    'safetensors are gptq and floats')
    for name in ('dynamic', 'lm_head', 'is_marlin_format'):
        if settings.get(name):
            raise UnsupportedModelError(f'{source}: the GPTQ setting {name} is '
                                        f'{settings[name]!r:.80}; that is not read')
    word = settings.get('pack_dtype') or 'int32'
    if word != 'int32':
        raise UnsupportedModelError(f'{source}: GPTQ pack_dtype is {word!r:.80}; int32 is read')


def _typed(settings: Mapping[str, Any], name: str, kind: type, default: Any) -> Any:
    value = settings.get(name, default)
    if type(value) is not kind:
        wanted = {int: 'an integer', bool: 'true or false'}[kind]
        raise ModelFormatError(f'the GPTQ setting {name} is {value!r:.80}; it must be {wanted}')
    return value
