# SPDX-License-Identifier: Apache-2.0
"""How a lease goes to another process by pickle, as through a queue of multiprocessing: as the name of its buffer.

The other process acquires the buffer with a connection of its own, one for each broker, as often as the pickle is
loaded. So the broker must be reachable there, and the buffer's mode must let it. It gets the same buffer or, if another
one has the name by then, an error.
"""

from __future__ import annotations

import errno
import os
import threading
from typing import Any

from ._core import Client, Lease

_lock = threading.Lock()
_clients: dict[str | None, Client] = {}
# A child that is forked can use none of them, and must not find the lock held.
os.register_at_fork(after_in_child=lambda: globals().update(_lock=threading.Lock(), _clients={}))


def client(address: str | None = None) -> Client:
    """This process's own connection to that broker.

    Where its broker has ended, another one to the broker that runs now.
    """
    with _lock:
        kept = _clients.get(address)
        if kept is None or not kept.connected:
            kept = _clients[address] = Client(address)
        return kept


def reduce_lease(lease: Lease) -> tuple[Any, ...]:
    if lease.name is None:
        raise TypeError(
            "a lease of a redeemed ticket has no name to acquire it by: send a Ticket, by client.ticket(name)"
        )
    if lease.released:
        raise ValueError(f"the lease on {lease.name!r} was released")
    address = lease._address or os.environ.get("GPUBROKER")
    return acquire_lease, (address, lease._node, lease.name, lease.rights, lease.generation)


def acquire_lease(address: str | None, node: str, name: str, rights: str, generation: int) -> Lease:
    """What was pickled: a lease on the same buffer."""
    there = client(address)
    if there.node != node:
        where = address or "the default address"
        raise OSError(errno.ESTALE, f"the lease on {name!r} was of another broker than the one at {where}")
    lease = there.acquire(name, rights)
    if lease.generation == generation:
        return lease
    lease.release()
    raise OSError(
        errno.ESTALE, f"the lease was of an earlier buffer than the one that is called {name!r} now, or it was resized"
    )
