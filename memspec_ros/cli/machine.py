# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""What this machine has: versions of what matters here, and the device."""

from __future__ import annotations

import importlib.util
import os
import platform
from importlib import metadata
from pathlib import Path
from typing import Any

from memspec_ros import __version__

# Distributions by the name that is shown; the first that is installed counts.
PACKAGES = {
    'torch': ('torch',), 'numpy': ('numpy',), 'tokenizers': ('tokenizers',), 'gguf': ('gguf',),
    'safetensors': ('safetensors',), 'huggingface_hub': ('huggingface_hub',),
    'transformers': ('transformers',), 'rclpy': ('rclpy', 'ros-rclpy'),
}
ABSENT = 'absent'
CPUINFO = Path('/proc/cpuinfo')


def versions() -> dict[str, str]:
    """Return versions by name, 'absent' where there is none; nothing is imported."""
    found = {'memspec_ros': __version__, 'python': platform.python_version()}
    found.update({name: version_of(name, distributions)
                  for name, distributions in PACKAGES.items()})
    if distribution := os.environ.get('ROS_DISTRO'):
        found['ROS_DISTRO'] = distribution
    return found


def version_of(module: str, distributions: tuple[str, ...]) -> str:
    """Return a package's version; one without metadata is 'present'."""
    for name in distributions:
        try:
            return metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return 'present' if importlib.util.find_spec(module) else ABSENT


def device(wanted: str) -> dict[str, Any]:
    """Return the device that ``target.device`` leads to, and what it is."""
    import torch
    has_cuda = torch.cuda.is_available()
    chosen = ('cuda' if has_cuda else 'cpu') if wanted == 'auto' else wanted
    found: dict[str, Any] = {
        'device': chosen, 'available': chosen == 'cpu' or has_cuda, 'cpu': cpu_name(),
        'num_cpus': len(os.sched_getaffinity(0)),
        'cpu_capability': torch.backends.cpu.get_cpu_capability()}
    if has_cuda:
        found['gpu'] = torch.cuda.get_device_name()
    return found


def describe(device: dict[str, Any]) -> str:
    """Return the device in words."""
    if device.get('elsewhere'):
        return f'{device["device"]}, on another machine'
    parts = [device['cpu'], f'{device["num_cpus"]} CPUs', device['cpu_capability']]
    if 'gpu' in device:
        parts.insert(0, device['gpu'])
    there = '' if device['available'] else ', which is not here'
    return f'{device["device"]}{there} ({", ".join(parts)})'


def cpu_name() -> str:
    """Return the processor's name."""
    try:
        lines = CPUINFO.read_text(encoding='utf-8', errors='replace').splitlines()
    except OSError:
        lines = []
    names = [line.partition(':')[2].strip() for line in lines if line.startswith('model name')]
    return names[0] if names else platform.machine()
