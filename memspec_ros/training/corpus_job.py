# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Making a corpus that survives being killed: parts, each written once, joined at the end.

Prompts are cut into parts. A part is answered from its beginning to its end by one process, so
its bytes depend on the prompts and options only, and its file appears whole or not at all. After
a kill the parts that exist are kept and the others made: nothing is lost but the part at work,
nothing is done twice, and the joined file is the same whatever the interruptions.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from memspec_ros.errors import ConfigError, DataError
from memspec_ros.training.batch_decode import BatchDecoder, choose_greedy, choose_sampled
from memspec_ros.training.corpus_file import Conversation, read_corpus, write_corpus


@dataclass(frozen=True, kw_only=True)
class CorpusOptions:
    """How prompts are answered.

    :raises ConfigError: an option is out of range.
    """

    max_new_tokens: int = 160
    temperature: float = 0.0
    seed: int = 0
    num_rows: int = 64
    part_prompts: int = 192
    keep_states: bool = False
    form: str = 'fp32'

    def __post_init__(self) -> None:
        for name in ('max_new_tokens', 'num_rows', 'part_prompts'):
            if not 1 <= getattr(self, name) <= 1 << 20:
                raise ConfigError(f'{name} is {getattr(self, name)}; it must be in [1, 1048576]')
        if not 0.0 <= self.temperature <= 10.0:
            raise ConfigError(f'temperature is {self.temperature}; it must be in [0, 10]')


@dataclass(frozen=True, kw_only=True)
class TokenizedPrompt:
    """A prompt under the chat template."""

    id: str
    domain: str
    prompt_ids: tuple[int, ...]


class CorpusJob:
    """One corpus in the making, in the folder ``<output>.parts``.

    :param prompts: in any order; :func:`interleave` makes any beginning cover all domains.
    :param target: fingerprint of the target.
    :raises DataError: there are no prompts, or the folder holds parts of another job.
    """

    def __init__(self, output: Path, prompts: Sequence[TokenizedPrompt],
                 options: CorpusOptions, *, target: str) -> None:
        if not prompts:
            raise DataError('there are no prompts to answer')
        self._output = output
        self._prompts = prompts
        self._options = options
        self._target = target
        self.folder = output.with_name(f'{output.name}.parts')
        self._claim_folder()

    @property
    def num_parts(self) -> int:
        """Parts of the whole job."""
        return -(-len(self._prompts) // self._options.part_prompts)

    def missing(self) -> list[int]:
        """Parts that have no file yet."""
        return [part for part in range(self.num_parts) if not self._part_file(part).exists()]

    def make(self, part: int, decoder: BatchDecoder, end_ids: frozenset[int],
             on_step: Callable[[int], None] | None = None) -> None:
        """Answer one part's prompts and write its file.

        :raises DataError: a prompt does not fit, or the disk refuses the file.
        """
        prompts = self._part(part)
        # Similar lengths share a batch; what a prompt is called does not matter.
        prompts.sort(key=lambda prompt: (-len(prompt.prompt_ids), prompt.id))
        choose = choose_greedy if self._options.temperature == 0.0 else \
            choose_sampled(self._options.temperature, self._options.seed + part)
        answers = decoder.answer([prompt.prompt_ids for prompt in prompts], end_ids=end_ids,
                                 max_new_tokens=self._options.max_new_tokens, choose=choose,
                                 on_step=on_step)
        done = {prompts[answer.index].id: answer for answer in answers}
        write_corpus(self._part_file(part), [
            Conversation(id=prompt.id, domain=prompt.domain, prompt_ids=prompt.prompt_ids,
                         output_ids=tuple(done[prompt.id].output_ids),
                         states=done[prompt.id].states if self._options.keep_states else None)
            for prompt in self._part(part)], target=self._target)

    def finished_answers(self) -> list[Conversation]:
        """All answers so far, in the order of the prompts.

        :raises DataError: a part is damaged (delete it to have it made again).
        """
        return [answer for part in range(self.num_parts) if self._part_file(part).exists()
                for answer in read_corpus(self._part_file(part), target=self._target)]

    def join(self) -> None:
        """Write the corpus file and remove the parts.

        :raises DataError: parts are missing or damaged, or the disk refuses the file.
        """
        if missing := self.missing():
            raise DataError(f'{len(missing)} of {self.num_parts} parts are not made yet')
        write_corpus(self._output, self.finished_answers(), target=self._target)
        shutil.rmtree(self.folder)

    def _part(self, part: int) -> list[TokenizedPrompt]:
        size = self._options.part_prompts
        return list(self._prompts[part * size:(part + 1) * size])

    def _part_file(self, part: int) -> Path:
        return self.folder / f'part-{part:05d}.safetensors'

    def _claim_folder(self) -> None:
        """Write what this job is into its folder, or find that the folder is another job's."""
        prompts = json.dumps([[p.id, p.domain, p.prompt_ids] for p in self._prompts])
        job = json.dumps({'target': self._target, 'options': asdict(self._options),
                          'prompts': hashlib.sha256(prompts.encode()).hexdigest()}, indent=1)
        file = self.folder / 'job.json'
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            if not file.exists():
                beside = file.with_name('.job.json.part')
                beside.write_text(job, encoding='utf-8')
                beside.replace(file)
            found = file.read_text(encoding='utf-8')
        except OSError as error:
            raise DataError(f'{self.folder} cannot be used: {error}') from error
        if found != job:
            raise DataError(f'{self.folder} holds parts of another job (prompts, options or '
                            f'target differ); remove it or choose another output')


def interleave(prompts: Iterable[TokenizedPrompt]) -> list[TokenizedPrompt]:
    """Order prompts so that the domains take turns while they last."""
    by_domain: dict[str, list[TokenizedPrompt]] = {}
    for prompt in prompts:
        by_domain.setdefault(prompt.domain, []).append(prompt)
    turns = [(turn, domain) for domain, items in by_domain.items() for turn in range(len(items))]
    return [by_domain[domain][turn] for turn, domain in sorted(turns)]
