# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Muon (Jordan et al. 2024): momentum whose matrices are made orthogonal before each step.

Small drafts see little text, so the optimiser that needs the fewest tokens is worth its extra
matrix products. Vectors and tables take Adam's step. Everything is fp32 (PyTorch's own Muon
works in bf16, which is slow on CPUs without such instructions).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import torch

NEWTON_SCHULZ = (3.4445, -4.7750, 2.0315)
NEWTON_SCHULZ_STEPS = 5


class Muon(torch.optim.Optimizer):
    """Muon for matrices, Adam for what is not one.

    :param named: parameters by name; ``tables`` names matrices that are look-up tables.
    :param rate: step of matrices; ``adam_rate`` of the others.
    :param slow: factors on the rate of some matrices, by name. What multiplies long vectors,
        an output head for example, must move less.
    """

    def __init__(self, named: Mapping[str, torch.nn.Parameter], *, rate: float,
                 adam_rate: float, tables: Iterable[str] = (),
                 slow: Mapping[str, float] | None = None, momentum: float = 0.95,
                 weight_decay: float = 0.0) -> None:
        skipped = set(tables)
        factors = slow or {}
        matrices = {name: p for name, p in named.items() if p.dim() == 2 and name not in skipped}
        groups: list[dict[str, Any]] = [
            {'params': [p], 'peak': rate * factors.get(name, 1.0), 'muon': True}
            for name, p in matrices.items()]
        groups.append({'params': [p for name, p in named.items() if name not in matrices],
                       'peak': adam_rate, 'muon': False})
        for group in groups:
            group['lr'] = group['peak']
        super().__init__(groups, {'momentum': momentum, 'weight_decay': weight_decay})

    def scale_rates(self, factor: float) -> None:
        """Set the rates to ``factor`` times their peaks (the schedule)."""
        for group in self.param_groups:
            group['lr'] = group['peak'] * factor

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        """Take one step."""
        del closure
        for group in self.param_groups:
            for parameter in group['params']:
                if parameter.grad is not None:
                    change = self._muon if group['muon'] else self._adam
                    update = change(parameter, parameter.grad, group)
                    parameter.mul_(1.0 - group['lr'] * group['weight_decay'])
                    parameter.add_(update, alpha=-group['lr'])

    def _muon(self, parameter: torch.Tensor, gradient: torch.Tensor,
              group: Mapping[str, Any]) -> torch.Tensor:
        state = self.state[parameter]
        if not state:
            state['momentum'] = torch.zeros_like(parameter)
        momentum: torch.Tensor = state['momentum']
        momentum.lerp_(gradient, 1.0 - group['momentum'])
        update = gradient.lerp(momentum, group['momentum'])
        stretch = float(max(1.0, update.shape[0] / update.shape[1]) ** 0.5)
        return orthogonal(update) * stretch

    def _adam(self, parameter: torch.Tensor, gradient: torch.Tensor,
              group: Mapping[str, Any]) -> torch.Tensor:
        del group
        state = self.state[parameter]
        if not state:
            state.update(step=0, mean=torch.zeros_like(parameter),
                         square=torch.zeros_like(parameter))
        state['step'] += 1
        mean: torch.Tensor = state['mean'].lerp_(gradient, 0.1)
        square: torch.Tensor = state['square'].lerp_(gradient.square(), 0.02)
        mean = mean / (1.0 - 0.9 ** state['step'])
        square = square / (1.0 - 0.98 ** state['step'])
        return torch.div(mean, square.sqrt() + 1e-8)


def orthogonal(matrix: torch.Tensor) -> torch.Tensor:
    """The nearest (semi-)orthogonal matrix, roughly: quintic Newton-Schulz iterations."""
    a, b, c = NEWTON_SCHULZ
    wide = matrix if matrix.shape[0] <= matrix.shape[1] else matrix.T
    x: torch.Tensor = torch.div(wide, wide.norm() + 1e-7)
    for _ in range(NEWTON_SCHULZ_STEPS):
        gram = x @ x.T
        x = torch.addmm(x, b * gram + c * gram @ gram, x, beta=a)
    return x if wide is matrix else x.T
