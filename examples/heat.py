# SPDX-License-Identifier: Apache-2.0
"""A heat equation whose grid is split by rows over the processes of a job, with NumPy, or with CuPy on GPUs.

    broker-run -n 4 -- python3 heat.py --size 256 --steps 500             one machine, without MPI
    mpirun -n 16 broker-run --join -- python3 heat.py --size 1024x512     one or many machines, with mpi4py

Rank r owns the buffer heat/r, float64[2,rows+2,columns+2]: two fields of its rows, each with an edge of one cell around
it. Step k reads field k-1 and writes field k, which lie in turn in the first and the second one. The edge is 0, the
boundary of the grid, or a row of a neighbour: read from the neighbour's buffer on the same machine, received by MPI
from another one. The timeline of a buffer is the number of fields that are there: 1 with the initial field, k+1 after
step k. Step k begins when both neighbours are at k. Then they have also read what it overwrites. On a GPU the stream
waits and signals, not the processor.

The initial field sin(pi i/(ny+1)) sin(pi j/(nx+1)) is an eigenvector of the step, which multiplies it by a known
factor.
"""

import argparse
import os
import sys
import time
from typing import Any

import numpy as np

import gpubroker

R = 0.2  # diffusion constant, times the time step, by the square of the grid's spacing
AHEAD = 64  # steps that a GPU may have queued
PATIENCE = 20  # seconds to wait for a buffer that another rank is about to create


class Job:
    """Which rank this is, of how many; which ranks share this machine's broker; MPI, if that started them."""

    def __init__(self) -> None:
        self.rank, self.size = int(os.environ.get("GPUBROKER_RANK", "0")), int(os.environ.get("GPUBROKER_SIZE", "1"))
        self.here, self.machines = list(range(self.size)), 1
        self.world: Any = None
        try:
            from mpi4py import MPI
        except (ImportError, RuntimeError):  # it is not installed, or finds no MPI
            if int(os.environ.get("OMPI_COMM_WORLD_SIZE", "0")) > self.size:
                sys.exit("heat.py: this job is on several machines, which needs mpi4py: pip install mpi4py")
            return
        if MPI.COMM_WORLD.size >= self.size:  # otherwise broker-run started the workers, and to MPI each is alone
            self.world = MPI.COMM_WORLD
            self.rank, self.size = self.world.rank, self.world.size

    def meet(self, c: gpubroker.Client) -> None:
        """Finds out who is here: those with the same node have the same broker, and so the same names."""
        if self.world:
            nodes = self.world.allgather(c.node)
            self.here, self.machines = [rank for rank, node in enumerate(nodes) if node == c.node], len(set(nodes))


def wave(count: int) -> Any:
    return np.sin(np.pi * np.arange(1, count + 1) / (count + 1))


def relax(now: Any, out: Any) -> None:
    """One step.

    Each cell takes the same operations in the same order, so every split of the grid gives the same bits.
    """
    here = now[1:-1, 1:-1]
    out[1:-1, 1:-1] = here + R * (now[:-2, 1:-1] + now[2:, 1:-1] + now[1:-1, :-2] + now[1:-1, 2:] - 4 * here)


def swap(world: Any, rank: int, row: Any, edge: Any, pinned: Any) -> None:
    """Sends a row to a rank on another machine, and receives the edge from it, from and to a GPU by pinned memory."""
    if pinned is None:
        world.Sendrecv(row, rank, recvbuf=edge, source=rank)
    else:
        row.get(out=pinned[0])  # waits for the stream
        world.Sendrecv(pinned[0], rank, recvbuf=pinned[1], source=rank)
        edge.set(pinned[1])


def reach(lease: gpubroker.Lease, value: int) -> None:
    """Waits on the processor until the timeline is at the value. OSError: its writer died."""
    while lease.timeline < value:
        time.sleep(50e-6)


def gather(job: Job, leases: dict[int, gpubroker.Lease], fields: dict[int, Any], gathered: int) -> Any:
    """The rows of all ranks, on rank 0.

    Without MPI it reads the others' buffers, which they keep until it is at gathered.
    """

    def host(rank: int) -> Any:
        return fields[rank] if isinstance(fields[rank], np.ndarray) else fields[rank].get()

    if job.world:
        parts = job.world.gather(host(job.rank))
    elif job.rank == 0:
        parts = [host(rank) for rank in range(job.size)]
    else:
        reach(leases[0], gathered)
    if job.rank != 0:
        return None
    whole = np.concatenate(parts)
    leases[0].signal(gathered)
    return whole


def solve(job: Job, leases: dict[int, gpubroker.Lease], initial: Any, steps: int) -> Any:
    """All steps of this rank, from the initial field of its rows. Returns the last field of all ranks, on rank 0."""
    own, pinned = leases[job.rank], None
    if own.device < 0:
        fields = {rank: lease.numpy() for rank, lease in leases.items()}
    else:
        import cupy
        import cupyx

        cupy.cuda.Device(own.device).use()
        fields = {rank: lease.cupy() for rank, lease in leases.items()}
        initial, pinned = cupy.asarray(initial), cupyx.empty_pinned((2, initial.shape[1] + 2))
    mine = fields[job.rank]
    mine[0, 1:-1, 1:-1] = initial
    own.signal(1)  # this rank holds all its leases now, so the others may go on, and end
    # of each neighbour: its rank, the row of it that is an edge here, the row that is an edge there, the edge here
    sides = [side for side in ((job.rank - 1, -2, 1, 0), (job.rank + 1, 1, -2, -1)) if 0 <= side[0] < job.size]
    for k in range(1, steps + 1):
        now, out = mine[(k - 1) % 2], mine[k % 2]
        for rank, theirs, row, edge in sides:
            if rank in leases:
                leases[rank].wait(at=k)
                now[edge] = fields[rank][(k - 1) % 2, theirs]
            else:
                swap(job.world, rank, now[row], now[edge], pinned)
        relax(now, out)
        own.signal(k + 1)
        for lease in leases.values():  # the death of a rank ends a stream's wait, too: here it is an error
            reach(lease, k + 1 - AHEAD)
    for lease in leases.values():
        reach(lease, steps + 1)
    return gather(job, leases, {rank: field[steps % 2, 1:-1, 1:-1] for rank, field in fields.items()}, steps + 2)


def run(job: Job, c: gpubroker.Client, down: Any, across: Any, steps: int) -> Any:
    """Creates this rank's buffer and acquires those that it reads.

    The initial field is the product of the two waves.
    """
    job.meet(c)
    first = [rank * len(down) // job.size for rank in range(job.size + 1)]  # row of each rank
    needed = {job.rank - 1, job.rank, job.rank + 1} & set(job.here)
    if not job.world:  # gather() reads them
        needed |= {0} if job.rank else set(job.here)
    shapes = {rank: (2, first[rank + 1] - first[rank] + 2, len(across) + 2) for rank in needed}
    c.set_device(int(os.environ.get("GPUBROKER_DEVICE", "0")))
    c.create(f"heat/{job.rank}", shapes[job.rank], "float64", timeline=True, ephemeral=True)
    leases = {
        rank: c.acquire(f"heat/{rank}", "rw" if rank == job.rank else "r", timeout=PATIENCE, shape=shape)
        for rank, shape in shapes.items()
    }
    field = solve(job, leases, np.outer(down[first[job.rank] : first[job.rank + 1]], across), steps)
    for lease in leases.values():
        lease.release()
    return field


def grid(text: str) -> tuple[int, int]:
    ny, _, nx = text.partition("x")
    return int(ny), int(nx or ny)


def main() -> int:
    parser = argparse.ArgumentParser(description="A heat equation; broker-run starts it.")
    parser.add_argument(
        "--size", type=grid, default=(256, 256), metavar="NY[xNX]", help="rows and columns of the grid (256)"
    )
    parser.add_argument("--steps", type=int, default=500, metavar="N", help="time steps (500)")
    parser.add_argument("--save", metavar="FILE.npy", help="where the last field goes")
    options, job = parser.parse_args(), Job()
    (ny, nx), steps = options.size, options.steps
    if ny < job.size or nx < 1 or steps < 0:
        parser.error("each rank needs a row")
    down, across = wave(ny), wave(nx)
    try:
        c = gpubroker.connect()
        field = run(job, c, down, across, steps)
    except BaseException as error:
        print(f"heat.py: rank {job.rank}: {type(error).__name__}: {error}", file=sys.stderr, flush=True)
        if job.world:
            job.world.Abort(1)
        # without close(), after which this rank would not count as dead: so the others learn of it, and end
        os._exit(1)
    c.close()
    if job.rank != 0:
        return 0
    factor = 1 - 4 * R * sum(np.sin(np.pi / (2 * (count + 1))) ** 2 for count in (ny, nx))
    worst, bound = np.abs(field - factor**steps * np.outer(down, across)).max(), 1e-15 * (steps + 10)
    print(f"heat.py: {ny} x {nx}, {steps} steps, ranks: {job.size}, machines: {job.machines}")
    print(f"largest error: {worst:.2e} against the closed form (rounding allows {bound:.2e})")
    if options.save:
        np.save(options.save, field)
    return 0 if worst <= bound else 1  # also if it is no number


if __name__ == "__main__":
    sys.exit(main())
