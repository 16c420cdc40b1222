# SPDX-License-Identifier: Apache-2.0
"""A buffer that is filled under a name that nobody waits for, and gets its own name in one step when it is complete."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from typing import Any

from ._core import Client

STEM = 70  # letters of the buffer's name that the other name begins with


@contextlib.contextmanager
def fresh_buffer(
    client: Client, name: str, doing: str, *, seal: bool, replace: bool, **properties: Any
) -> Iterator[str]:
    """Creates a buffer and gives the block its present name: `name`, shortened, `doing` and random digits.

    At the end of the block the buffer is sealed (seal) and gets `name`, from a buffer that has it (replace). If the
    block or this fails, the buffer is unlinked; if the process dies, the broker unlinks it. properties: as of
    Client.create().
    """
    own = f"{name[:STEM]}.{doing}-{os.urandom(4).hex()}"
    client.create(own, ephemeral=True, **properties)
    try:
        yield own
        if seal:
            client.seal(own)
        client.rename(own, name, replace=replace, persist=True)
    except BaseException:
        with contextlib.suppress(OSError):
            client.unlink(own)
        raise
