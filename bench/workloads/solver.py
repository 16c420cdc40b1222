# SPDX-License-Identifier: Apache-2.0
"""solver.py - Warp's fluid example on a grid of 2048 x 1024 runs, and a viewer and a logger read each tenth frame of
its density.

Measured: the time of a step, in turn without readers, with ours, with NumPy arrays pickled through a queue for each
reader, and with Warp's own IPC handles, with a message a frame. Ours and Warp's copy the frame into the next of four
slots of memory that the readers map; nobody waits for a reader. The viewer computes minimum, maximum and mean, the
logger writes a file. Each frame that a reader got is compared with what the solver makes without readers, by its
checksum.
"""

from __future__ import annotations

import multiprocessing
import sys
import tempfile
import zlib
from contextlib import ExitStack
from typing import Any

import workload

GRID = tuple(map(int, sys.argv[1:3])) or (2048, 1024)  # arguments: another grid, as for a trial on the host device
SLOTS = 4
EVERY = 10
STEPS = 200  # of a block, whose samples are one time
BLOCKS = 10
FRAMES = STEPS // EVERY
NAME = "density"
READERS = ("viewer", "logger")


# ---- the solver ----


class Solver:
    """The example as the package has it, but for the size of its grid and its prints."""

    def __init__(self) -> None:
        import warp as wp
        from warp.examples.core import example_fluid

        wp.config.quiet = True
        wp.ScopedTimer.enabled = False
        example_fluid.grid_width, example_fluid.grid_height = (wp.constant(extent) for extent in GRID)
        self.example = example_fluid.Example()

    def run(self, show: Any, first: int) -> None:
        """A block of steps, whose frames are shown with the numbers from first on."""
        import warp as wp

        for step in range(1, STEPS + 1):
            self.example.step()
            if step % EVERY == 0:
                show(first + step // EVERY - 1, self.example.rho0)
        wp.synchronize()

    def rewind(self) -> None:
        """To the state that the example begins with."""
        import warp as wp

        example = self.example
        for array in (example.u0, example.u1, example.rho0, example.rho1, example.p0, example.p1, example.div):
            array.zero_()
        example.sim_time = 0.0
        wp.synchronize()


# ---- ways to show a frame, each with its reader ----


class Alone:
    def show(self, frame: int, field: Any) -> None:
        pass


class Ours:
    def __init__(self) -> None:
        import gpubroker

        self.client = gpubroker.connect()
        self.client.create(NAME, (SLOTS, *GRID), "float32", timeline=True)

    def show(self, frame: int, field: Any) -> None:
        import warp as wp

        with self.client.acquire(NAME, "w", signal=frame) as slots:
            wp.copy(slots.warp()[frame % SLOTS], field)


class OurReader:
    def __init__(self, _given: Any) -> None:
        import gpubroker

        self.client = gpubroker.connect()

    def read(self, number: int, into: Any) -> bool:
        with self.client.acquire(NAME, at=number, timeout=60) as slots:
            slots.read_into(into, number % SLOTS * into.nbytes)
            return bool(slots.timeline < number + SLOTS - 1)  # else the slot may have been written meanwhile


class Pickled:
    def __init__(self, queues: list[Any]) -> None:
        self.queues = queues

    def show(self, frame: int, field: Any) -> None:
        array = field.numpy()
        for its in self.queues:
            its.put((frame, array))


class PickledReader:
    def __init__(self, queue: Any) -> None:
        self.queue = queue

    def read(self, number: int, into: Any) -> bool:
        frame, array = self.queue.get(timeout=60)
        assert frame == number
        into[:] = array
        return True


class WarpIpc:
    """It waits for the copy before it sends the message.

    With an event that the readers' streams wait for it would not have to; but then most frames were not those that a
    reader asked for (bench/README.md).
    """

    def __init__(self, connections: list[Any]) -> None:
        import warp as wp

        with wp.ScopedMempool(wp.get_device(), False):  # which has no IPC handles
            self.slots = wp.zeros((SLOTS, *GRID), dtype=float)
        self.connections = connections
        for connection in connections:
            connection.send(self.slots.ipc_handle())

    def show(self, frame: int, field: Any) -> None:
        import warp as wp

        wp.copy(self.slots[frame % SLOTS], field)
        wp.synchronize_stream()
        for connection in self.connections:
            connection.send(frame)


class WarpIpcReader:
    def __init__(self, connection: Any) -> None:
        import warp as wp

        wp.config.quiet = True
        self.connection = connection
        self.slots = wp.from_ipc_handle(connection.recv(), float, (SLOTS, *GRID), device=wp.get_device())

    def read(self, number: int, into: Any) -> bool:
        if not self.connection.poll(60) or self.connection.recv() != number:
            raise RuntimeError("another frame was expected")
        into[:] = self.slots[number % SLOTS].numpy()
        return True  # as far as it knows


# ---- a reader ----


def look(frame: Any) -> None:
    frame.min(), frame.max(), frame.mean()


def reader(connection: Any, what: str, given: dict[str, Any]) -> None:
    import numpy as np

    frame: Any = np.zeros(GRID, dtype="float32")
    ways: dict[str, Any] = {}
    kinds = {"gpubroker": OurReader, "numpy": PickledReader, "ipc": WarpIpcReader}
    with tempfile.TemporaryFile() as log:
        connection.send("ready")
        for how, first in workload.requests(connection):
            if how not in ways:
                ways[how] = kinds[how](given[how])
                connection.send("prepared")
                continue
            got = []
            for number in range(first, first + FRAMES):
                whole = ways[how].read(number, frame)
                look(frame) if what == "viewer" else (log.seek(0), log.write(frame))
                got.append(zlib.crc32(frame) if whole else None)
            connection.send(got)


# ---- measured ----


class Measured:
    """Blocks of one way to show frames. What the readers got is compared when a block is over."""

    def __init__(self, solver: Solver, way: Any, how: str, connections: list[Any]) -> None:
        self.solver, self.way, self.how, self.connections = solver, way, how, connections
        self.expected: list[int] = []
        self.next = 1
        self.compared = self.wrong = 0

    def block(self) -> float:
        self.solver.rewind()
        for connection in self.connections:
            connection.send((self.how, self.next))
        took = workload.timed(lambda: self.solver.run(self.way.show, self.next)) / STEPS
        for connection in self.connections:
            for checksum, expected in zip(connection.recv(), self.expected, strict=True):
                self.compared += 1
                self.wrong += checksum != expected
        self.next += FRAMES
        return took


def checksums(solver: Solver) -> list[int]:
    made: list[int] = []
    solver.rewind()
    solver.run(lambda _frame, field: made.append(zlib.crc32(field.numpy())), 1)
    return made


def ways_of(solver: Solver, connections: list[Any], queues: list[Any], pipes: list[Any]) -> dict[str, Measured]:
    import warp as wp

    ways: dict[str, Any] = {"gpubroker": Ours(), "numpy": Pickled(queues)}
    if wp.get_device().is_cuda:
        ways["ipc"] = WarpIpc(pipes)
    for how in ways:
        for connection in connections:
            connection.send((how, 0))
            assert connection.recv() == "prepared"
    measured = {how: Measured(solver, way, how, connections) for how, way in ways.items()}
    return {"alone": Measured(solver, Alone(), "alone", []), **measured}


def main() -> None:
    workload.require("warp", "numpy", "torch")
    with ExitStack() as stack:
        spawn = multiprocessing.get_context("spawn")
        queues = [spawn.Queue() for _ in READERS]
        pipes = [workload.pipe() for _ in READERS]
        givens = [{"gpubroker": None, "numpy": queues[i], "ipc": pipes[i][1]} for i in range(len(READERS))]
        connections = workload.processes(stack, reader, list(zip(READERS, givens, strict=True)))
        solver = Solver()
        ways = ways_of(solver, connections, queues, [ours for ours, _ in pipes])
        expected = checksums(solver)
        for way in ways.values():
            way.expected = expected
        samples = workload.in_turn(dict.fromkeys(ways, BLOCKS), {how: way.block for how, way in ways.items()})
    del ways["alone"]
    for how, way in ways.items():
        workload.row(f"workload-solver-{how}", samples[how], "us", samples["alone"])
        workload.row(f"workload-solver-{how}-wrong", [float(way.wrong)], f"of {way.compared} frames")
    assert not ways["gpubroker"].wrong


if __name__ == "__main__":
    main()
