# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""What the paper reports in numbers (arXiv 2608.10362), to stand beside ours.

Its figures are drawings; only what its text states is here. Values over General-Static are
geometric means over its five workloads; products of two stated ratios are marked in ``NOTES``.
"""

from __future__ import annotations

Table = dict[str, dict[str, float]]

ACCEPTANCE_OVER_GENERAL = {'general_static': 1.0, 'mab_sync': 1.345, 'oracle_static': 1.403,
                           'oracle_dynamic': 1.403 * 1.257}
THROUGHPUT_OVER_GENERAL = {'general_static': 1.0, 'oracle_static': 1.225,
                           'mab_async': 1.588 / 1.407, 'oracle_dynamic': 1.225 * 1.249,
                           'prediction_only': 1.216, 'memspec': 1.588}
LOAD_ITERATIONS = 2.7
SHARES: Table = {'mab_async': {'fallback': 0.494},
                 'prediction_only': {'fallback': 0.213},
                 'memspec': {'fallback': 0.055, 'prediction': 0.039}}
CAPACITY: Table = {'mab_async': {'2': 1.13, '4': 1.29}, 'memspec': {'2': 1.47, '4': 1.51}}
PREDICTOR: Table = {'prompt': {'top1': 0.319, 'top2': 0.558},
                    'recent': {'top1': 0.571, 'top2': 0.793},
                    'both': {'top1': 0.716, 'top2': 0.957}}
HARDWARE = {'Platform': 'NVIDIA Jetson Orin Nano', 'GPU': 'Ampere, 1024 CUDA cores',
            'CPU': '6-core Arm Cortex-A78AE', 'Memory': '8 GB LPDDR5 (102 GB/s)',
            'Storage': 'Samsung 990 PRO M.2 NVMe SSD'}
END_TO_END = {'general_static': -0.323, 'mab_async': -0.249}
NOTES = {
    'figure 1': 'from the text: 40.3 % and a further 25.7 %',
    'figure 6': 'MAB-Async is 1.588 / 1.407 and Oracle-Dynamic 1.225 x 1.249, from the text',
    'figure 10': 'the text: best at N of 4 to 8, lower at 2 and 16',
    'figure 11': 'the text: gains grow from 64 to 256 tokens',
}
