# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""A runtime that says a fixed text, at the facade's boundary."""

import os
import signal

import pytest

from memspec_ros.cli import generate, main
from memspec_ros.errors import ErrorCode, RequestError
from memspec_ros.records import Durations, FinishReason, GoalState, Progress, Result


class SpokenRuntime:
    """Answers with ``words``; two a draft-and-verify iteration, one when it decodes plainly.

    ``interrupt_after`` sends this process a real Ctrl-C after so many words.
    """

    def __init__(self, words=('The ', 'bolt ', 'is ', 'tight.'), *, interrupt_after=None,
                 refusal='', plain_words=None):
        self.words = words
        self.plain_words = plain_words or words
        self.interrupt_after = interrupt_after
        self.refusal = refusal
        self.settings = None
        self.requests = []
        self.closed = False

    def open(self, settings, *, verbose):
        self.verbose = verbose
        self.settings = settings
        return self

    def prepare(self, request):
        if self.refusal:
            raise RequestError(ErrorCode.CONTEXT_EXCEEDED, self.refusal)
        self.requests.append(request)
        return request

    def generate(self, request, *, on_progress, should_stop):
        words = self.words if request.draft_length else self.plain_words
        said = []
        reason = FinishReason.STOP
        for word in words:
            if reason := should_stop():
                break
            said.append(word)
            on_progress(Progress(state=GoalState.DECODE, delta_text=word))
            if len(said) == self.interrupt_after:
                os.kill(os.getpid(), signal.SIGINT)
            reason = FinishReason.STOP
        return self.result(said, reason, 2 if request.draft_length else 1)

    @staticmethod
    def result(said, reason, committed):
        codes = {FinishReason.CANCELED: ErrorCode.CANCELED,
                 FinishReason.TIMEOUT: ErrorCode.TIMEOUT}
        iterations = len(said) // committed
        return Result(
            text=''.join(said), finish_reason=reason, prompt_tokens=5,
            error_code=codes.get(reason, ErrorCode.NONE),
            completion_tokens=len(said), iterations=iterations, drafted=iterations * 3,
            accepted=len(said) - iterations, drafts_used=('ngram',), seed_used=7,
            durations=Durations(prefill_s=0.5, first_token_s=0.5, total_s=1.0,
                                decode_s=0.25 * iterations))

    def close(self):
        self.closed = True


@pytest.fixture
def spoken():
    """The class, for runtimes that are not the default one."""
    return SpokenRuntime


@pytest.fixture
def params_file(tmp_path):
    path = tmp_path / 'robot.yaml'
    path.write_text('/**:\n  ros__parameters:\n    target: {model: some.gguf}\n'
                    '    runtime: {cache_capacity: 3}\n', encoding='utf-8')
    return str(path)


@pytest.fixture
def memspec(monkeypatch, params_file, capsys):
    """Run the command line against a runtime; returns exit code, stdout and stderr."""
    def run(*words, runtime=None):
        runtime = runtime or SpokenRuntime()
        monkeypatch.setattr(generate, 'open_runtime', runtime.open)
        if words[0] == 'generate' and '--params-file' not in words:
            words = (*words, '--params-file', params_file)
        code = main.main(words)
        captured = capsys.readouterr()
        return code, captured.out, captured.err
    return run
