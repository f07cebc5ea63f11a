# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""The node with the real runtime, whose drafts are read as a file says: faults of disk and memory.

The file named first holds ``ok``, ``stall`` (reading stands still until it says otherwise),
``disk`` (EIO), ``memory`` (out of memory) or ``crash`` (an error that nobody expects).
"""

import errno
import sys
import time
from pathlib import Path

from memspec_ros.models.draft_slot import DraftSlot
from memspec_ros.node.main import main

STALL_POLL_S = 0.01


def run(order_file, ros_args):
    """Run the node until it is told to stop."""
    read_into = DraftSlot.read_into

    def faulty(slot, content, layout, *, should_cancel, throttle, **options):
        order = order_file.read_text(encoding='ascii').strip()
        if order == 'disk':
            raise OSError(errno.EIO, 'Input/output error', str(content.parts[0].path))
        if order == 'memory':
            raise RuntimeError('CUDA out of memory. Tried to allocate 20 MiB')
        if order == 'crash':
            raise ZeroDivisionError('a defect in the reader')
        while order_file.read_text(encoding='ascii').strip() == 'stall':
            time.sleep(STALL_POLL_S)
        return read_into(slot, content, layout, should_cancel=should_cancel, throttle=throttle,
                         **options)

    DraftSlot.read_into = faulty
    return main(ros_args)


if __name__ == '__main__':
    sys.exit(run(Path(sys.argv[1]), sys.argv[2:]))
