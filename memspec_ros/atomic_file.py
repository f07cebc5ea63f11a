# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""Files that are whole or not there: written beside and renamed."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from memspec_ros.errors import DataError


@contextlib.contextmanager
def written_beside(path: Path) -> Iterator[BinaryIO]:
    """Yield a new file beside ``path`` that takes its name when the block ends well.

    An error inside the block, a full disk or a kill leaves what was at ``path`` before. The
    bytes are on the disk before the name changes, so a power cut cannot leave an empty file.

    :raises DataError: the file cannot be written; the message has the system's reason.
    """
    path = Path(path)
    beside = path.with_name(f'.{path.name}.{os.getpid()}.part')
    try:
        with open(beside, 'wb') as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(beside, path)
    except OSError as error:
        raise DataError(f'{path} cannot be written: {error}') from error
    finally:
        beside.unlink(missing_ok=True)
