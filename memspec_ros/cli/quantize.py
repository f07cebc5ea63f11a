# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""``memspec quantize``: writes a model in fewer bits, rounded to nearest.

A target becomes a folder in GPTQ's format, a draft a draft file. For GPTQ's own method, which
needs calibration text and loses less, use gptqmodel: its folders serve as they are.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from memspec_ros.errors import ConfigError

GPTQ = 'gptq'
DRAFT_STORAGES = ('int4', 'int8', 'bf16', 'fp16')
MEGABYTE = 1_000_000


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``memspec quantize``."""
    parser.add_argument('model', metavar='MODEL', help='what to quantise: a GGUF file or a '
                        'folder, in the forms of target.model')
    parser.add_argument('output', metavar='OUTPUT', type=Path,
                        help='folder of the new target, or file of the new draft')
    parser.add_argument('--storage', choices=(GPTQ, *DRAFT_STORAGES), default=GPTQ,
                        help='gptq: a target in 4 bits; the others: a draft file')
    parser.add_argument('--group-size', type=int, default=128, metavar='COLUMNS',
                        help='gptq: columns that share a scale; -1 is the whole row')
    parser.add_argument('--asymmetric', action='store_true',
                        help='gptq: a zero point per group')
    parser.add_argument('--domain', default='', help='draft: what it is for')


def run(args: argparse.Namespace) -> int:
    """Write the model and say how large it is.

    :raises ConfigError, ModelError, DataError: what is wrong with model, option or output.
    """
    from memspec_ros.models.model_reference import resolve
    source = resolve(args.model)
    if args.storage == GPTQ:
        return quantise_target(source, args)
    return quantise_draft(source, args)


def quantise_target(source: Path, args: argparse.Namespace) -> int:
    """Write a GPTQ folder."""
    from memspec_ros.models.checkpoint import open_checkpoint
    from memspec_ros.models.gptq_writer import write_gptq_folder
    file = open_checkpoint(source)
    num_bytes = write_gptq_folder(file, args.output, group_size=args.group_size,
                                  symmetric=not args.asymmetric, report=print)
    print(f'{args.output}: {num_bytes / MEGABYTE:.1f} MB, of {file.num_bytes / MEGABYTE:.1f} MB')
    return 0


def quantise_draft(source: Path, args: argparse.Namespace) -> int:
    """Write a draft file.

    :raises ConfigError: the model is no folder.
    """
    from memspec_ros.models.draft_conversion import convert_checkpoint
    from memspec_ros.models.tokenizer_files import load_tokenizer
    if not source.is_dir():
        raise ConfigError(f'{source} is no folder; a draft is made of one with config.json, '
                          'tokenizer.json and safetensors in floats')
    tokens = load_tokenizer(source)
    convert_checkpoint(source, args.output, storage=args.storage,
                       domain=args.domain or source.name,
                       tokenizer_checksum=tokens.content_checksum())
    print(f'{args.output}: {args.output.stat().st_size / MEGABYTE:.1f} MB; add it to a pool with '
          f'memspec pool add POOL {args.output} --name NAME')
    return 0
