# SPDX-License-Identifier: Apache-2.0
"""GPU memory shared by name between processes.

A broker (broker-run, or a brokerd) owns all buffers. A process acquires one by its name, and sees it as an array
of NumPy, PyTorch, CuPy, numba, JAX or Warp. Nothing is copied.

    import gpubroker

    with gpubroker.connect() as c:
        c.create("u", (512, 512), "float32", timeline=True)
        with c.acquire("u", "rw", at=0, signal=1) as u:
            u.torch().add_(1)

The lease waits for the buffer's timeline, and signals it, on the stream that the framework uses. A program that works
in steps can hold its leases and arrays over all of them. Here u is this process's buffer and v its neighbour's, which
does the same with both; each has two halves, for even and odd steps:

    mine, theirs = u.torch(), v.torch()
    for k in range(1000):
        v.wait(at=k)
        torch.add(mine[k % 2], theirs[k % 2], out=mine[(k + 1) % 2])
        u.signal(k + 1)

Named tensors go as one buffer, of which a reader has one whole version at any time:

    gpubroker.publish("policy", model.state_dict())  # in the trainer, each step

    policy = gpubroker.load("policy", timeout=None)  # in an engine
    policy = policy.wait_newer()
"""

from ._core import TIMELINE_MAX, Client, Info, Lease, Ticket, __version__
from .versions import Version, load, publish

__all__ = ["TIMELINE_MAX", "Client", "Info", "Lease", "Ticket", "Version", "__version__", "connect", "load", "publish"]


def connect(address: str | None = None) -> Client:
    """Connects to the broker at that address ("unix:PATH"), or with that name.

    None: the environment variable GPUBROKER, which broker-run sets, then the socket of this machine's brokerd.

    ConnectionRefusedError, FileNotFoundError: no broker is there. PermissionError: this user may not open the socket,
    or does not trust it. ChildProcessError: this process was forked from one that was connected. OSError: as
    gpub_connect(3).
    """
    return Client(address)
