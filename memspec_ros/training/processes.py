# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Training by several processes at once, as torchrun and accelerate start them."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TypeVar

import torch
from torch import distributed

Item = TypeVar('Item')


class Processes:
    """This process among those that train one draft; alone where none were started.

    Every process takes its share of each batch, gradients are averaged, and so all hold the
    same weights; the first one writes.
    """

    def __init__(self) -> None:
        self.count = int(os.environ.get('WORLD_SIZE', '1'))
        self.number = int(os.environ.get('RANK', '0'))
        if self.count > 1 and not distributed.is_initialized():
            distributed.init_process_group('nccl' if torch.cuda.is_available() else 'gloo')

    @property
    def is_first(self) -> bool:
        """Whether this process writes files."""
        return self.number == 0

    def share(self, items: Sequence[Item]) -> list[Item]:
        """This process's items; all of them where there are fewer than processes."""
        if len(items) < self.count:
            return list(items)
        return list(items[self.number::self.count])

    def wait(self) -> None:
        """Wait for all processes, so that none looks for a file before it is written."""
        if self.count > 1:
            distributed.barrier()

    def average(self, gradients: Sequence[torch.Tensor | None]) -> None:
        """Replace gradients by their mean over all processes."""
        if self.count > 1:
            for gradient in gradients:
                if gradient is not None:
                    distributed.all_reduce(gradient)
                    gradient /= self.count
