# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""A ROS domain of its own for each test, whoever else runs tests on this machine."""

import contextlib
import fcntl
import os
import random
import tempfile
import warnings
from pathlib import Path

with warnings.catch_warnings():
    # Imported when the first message is used; its parser imports a deprecated module.
    warnings.simplefilter('ignore')
    import rosidl_generator_py  # noqa: F401

# Above 101 the ports may meet those that the kernel hands out.
DOMAINS = range(1, 102)


@contextlib.contextmanager
def own_domain():
    """Claim a free domain id by a lock that ends with this process at the latest."""
    folder = Path(tempfile.gettempdir()) / 'memspec_ros_domains'
    folder.mkdir(mode=0o777, exist_ok=True)
    for domain in random.sample(DOMAINS, len(DOMAINS)):
        with (folder / str(domain)).open('w') as lock, contextlib.suppress(BlockingIOError):
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            yield domain
            return
    raise RuntimeError(f'all of the domains {DOMAINS} are taken')


@contextlib.contextmanager
def ros_environment(domain):
    """Set what a ROS process of this domain needs, here and in processes that are started."""
    wanted = {'ROS_DOMAIN_ID': str(domain), 'ROS_AUTOMATIC_DISCOVERY_RANGE': 'LOCALHOST'}
    before = {name: os.environ.get(name) for name in wanted}
    os.environ.update(wanted)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
