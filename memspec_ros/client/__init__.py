# Copyright 2026 The memspec_ros authors
# SPDX-License-Identifier: Apache-2.0
"""A client of the Generate action that never waits in a callback.

In a node of your own, whose executor you spin::

    client = GenerateClient(node)
    generation = client.send(Request(prompt='Where is the cup?'), on_progress=show)
    result = await generation            # in a coroutine callback, or under asyncio
    generation.cancel()                  # at any time, from any thread

In a script, or anything else that has no executor::

    with connect() as client:
        for text in client.send(Request(prompt='Where is the cup?')).deltas():
            print(text, end='')
"""

from memspec_ros.client.connection import connect
from memspec_ros.client.generate_client import GenerateClient
from memspec_ros.client.generation import Generation, ServerLostError

__all__ = ['GenerateClient', 'Generation', 'ServerLostError', 'connect']
