# SPDX-License-Identifier: Apache-2.0
"""How a lease goes to another process by pickle, as through a queue of multiprocessing: as a ticket.

The other process redeems the ticket with a connection of its own, one for each broker. So only the buffer's owner can
pickle a lease, and the broker must be reachable there.
"""

from __future__ import annotations

import errno
import os
import threading
from typing import Any

from ._core import Client, Lease, Ticket

_lock = threading.Lock()
_clients: dict[str | None, Client] = {}
# A child that is forked can use none of them, and must not find the lock held.
os.register_at_fork(after_in_child=lambda: globals().update(_lock=threading.Lock(), _clients={}))


def client(address: str | None = None) -> Client:
    """This process's own connection to that broker. Where its broker has ended, another one to the broker that runs now."""
    with _lock:
        kept = _clients.get(address)
        if kept is None or not kept.connected:
            kept = _clients[address] = Client(address)
        return kept


def reduce_lease(lease: Lease) -> tuple[Any, ...]:
    if lease.name is None:
        raise TypeError("a lease of a redeemed ticket cannot be pickled: only the buffer's owner issues tickets, by its name")
    if lease.released:
        raise ValueError("the lease was released")
    address = lease._address or os.environ.get("GPUBROKER")
    ticket = client(address).ticket(lease.name, lease.rights, user=os.getuid())
    return redeem_lease, (address, ticket, lease.generation)


def redeem_lease(address: str | None, ticket: Ticket, generation: int) -> Lease:
    lease = client(address).redeem(ticket)
    if lease.generation == generation:
        return lease
    lease.release()
    raise OSError(errno.ESTALE, "the lease was of an earlier buffer of that name, for which there are no tickets any more")
