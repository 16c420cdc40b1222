# SPDX-License-Identifier: Apache-2.0
"""ring.py - eight processes in a ring, each with an array: in a round each adds its two neighbours' to its own, with
one kernel.

Each array has two halves, for even and odd rounds. Beside CuPy's raw CUDA IPC: arrays and events of the neighbours are
opened once; in a round a process records its event, says so to its neighbours, and has its stream wait for theirs. It
says so by messages, or, in rows of their own, by a word for each process in shared memory, which its neighbours read
until it is there. Ours has neither: a process reads the timelines of its neighbours' buffers until they have signalled
the round. At the end the values are compared with NumPy's.
"""

from __future__ import annotations

import os
import time
from contextlib import ExitStack
from functools import partial
from typing import Any

import workload

PROCESSES = 8
ELEMENTS = 1 << 16
BLOCK = 500  # rounds that are timed together
BLOCKS = 20
THIRD = 1 / 3


def first_values(index: int) -> Any:
    import numpy as np

    return np.arange(ELEMENTS, dtype="float32") % 64 + index


def reference(rounds: int) -> list[Any]:
    """The arrays of all processes after so many rounds."""
    import numpy as np

    arrays = np.stack([first_values(index) for index in range(PROCESSES)])
    third = np.float32(THIRD)
    for _ in range(rounds):
        arrays = (np.roll(arrays, 1, 0) + arrays + np.roll(arrays, -1, 0)) * third
    return list(arrays)


class Ours:
    """The leases, and so the arrays, are held over all rounds; the stream is the one that was current when they were
    taken.

    A kernel that is launched after the value was seen comes behind the signal, so nothing has to wait on the device.
    With wait(at=now) instead a round took longer, under MPS the more the more processes there were (bench/README.md).
    """

    def __init__(self, index: int, add: Any) -> None:
        import gpubroker

        client, self.add, self.round = gpubroker.connect(), add, 0
        names = [f"ring/{(index + step) % PROCESSES}" for step in (-1, 0, 1)]
        client.create(names[1], (2, ELEMENTS), "float32", timeline=True)
        self.own = client.acquire(names[1], "rw")
        self.own.write(first_values(index))
        self.left, self.right = (client.acquire(name, timeout=60) for name in (names[0], names[2]))
        arrays = [lease.cupy() for lease in (self.left, self.own, self.right)]
        self.halves = [[array[half] for array in arrays] for half in (0, 1)]

    def step(self) -> None:
        now, half = self.round, self.round % 2
        left, mine, right = self.halves[half]
        while self.left.timeline < now or self.right.timeline < now:
            pass
        self.add(left, mine, right, THIRD, self.halves[1 - half][1])
        self.round += 1
        self.own.signal(self.round)

    def values(self) -> Any:
        return self.halves[self.round % 2][1].get()


class RawIpc:
    def __init__(self, index: int, add: Any, left: Any, right: Any) -> None:
        import cupy
        from cupy.cuda import runtime

        self.add, self.round, self.neighbours, self.runtime = add, 0, (left, right), runtime
        self.stream = cupy.cuda.get_current_stream()
        own = self.array_of(runtime.malloc(2 * 4 * ELEMENTS))
        own[0] = cupy.asarray(first_values(index))
        flags = runtime.eventDisableTiming | runtime.eventInterprocess
        self.events = [runtime.eventCreateWithFlags(flags) for _ in range(2)]
        self.stream.synchronize()
        mine = (runtime.ipcGetMemHandle(own.data.ptr), [runtime.ipcGetEventHandle(event) for event in self.events])
        for neighbour in self.neighbours:
            neighbour.send(mine)
        theirs = [neighbour.recv() for neighbour in self.neighbours]
        arrays = [self.array_of(runtime.ipcOpenMemHandle(memory)) for memory, _ in theirs]
        arrays.insert(1, own)
        self.halves = [[array[half] for array in arrays] for half in (0, 1)]
        self.their_events = [[runtime.ipcOpenEventHandle(events[half]) for _, events in theirs] for half in (0, 1)]

    @staticmethod
    def array_of(pointer: int) -> Any:
        import cupy

        memory = cupy.cuda.UnownedMemory(pointer, 2 * 4 * ELEMENTS, None)
        return cupy.ndarray((2, ELEMENTS), "float32", cupy.cuda.MemoryPointer(memory, 0))

    def step(self) -> None:
        runtime = self.runtime
        now, half, stream = self.round, self.round % 2, self.stream.ptr
        if now:  # the first values are there
            self.await_records()
            for event in self.their_events[half]:
                runtime.streamWaitEvent(stream, event)
        left, mine, right = self.halves[half]
        self.add(left, mine, right, THIRD, self.halves[1 - half][1])
        self.round += 1
        runtime.eventRecord(self.events[1 - half], stream)
        self.tell_record()

    def await_records(self) -> None:
        for neighbour in self.neighbours:
            neighbour.recv_bytes()

    def tell_record(self) -> None:
        for neighbour in self.neighbours:
            neighbour.send_bytes(b"1")

    def values(self) -> Any:
        return self.halves[self.round % 2][1].get()


class RawIpcSpinning(RawIpc):
    """An event is recorded anew two rounds later, and by then its readers have told that they wait behind the record
    before.
    """

    def __init__(self, index: int, add: Any, left: Any, right: Any, words: Any) -> None:
        super().__init__(index, add, left, right)
        self.words = words
        self.index, self.left, self.right = index, (index - 1) % PROCESSES, (index + 1) % PROCESSES

    def await_records(self) -> None:
        while self.words[self.left] < self.round or self.words[self.right] < self.round:
            pass

    def tell_record(self) -> None:
        self.words[self.index] = self.round


def member(connection: Any, index: int, left: Any, right: Any, words: Any) -> None:
    import cupy

    add = cupy.ElementwiseKernel(
        "T left, T own, T right, T third", "T out", "out = (left + own + right) * third", "ring_add"
    )
    stream = cupy.cuda.Stream(non_blocking=True)
    stream.use()
    ways: dict[str, Ours | RawIpc] = {
        "gpubroker": Ours(index, add),
        "raw": RawIpc(index, add, left, right),
        "spinning": RawIpcSpinning(index, add, left, right, words),
    }
    connection.send("ready")
    for how, rounds in workload.requests(connection):
        for _ in range(rounds):
            ways[how].step()
        stream.synchronize()
        connection.send(time.perf_counter_ns() if rounds else ways[how].values())


def block(connections: list[Any], how: str, rounds: int) -> float:
    """Microseconds a round, from the first request to the last process's end. The clock is the machine's."""
    began = time.perf_counter_ns()
    for connection in connections:
        connection.send((how, rounds))
    ended = max(connection.recv() for connection in connections)
    return float(ended - began) / rounds / 1e3


def check(connections: list[Any], how: str, rounds: int) -> None:
    import numpy as np

    for connection in connections:
        connection.send((how, 0))
    for index, expected in enumerate(reference(rounds)):
        assert np.allclose(connections[index].recv(), expected, rtol=1e-4), f"{how}: process {index} has other values"


def main() -> None:
    workload.require("cupy", "numpy", "torch")
    with ExitStack() as stack:
        words = workload.shared_words(PROCESSES)
        pipes = [workload.pipe() for _ in range(PROCESSES)]  # pipes[i]: from i to its right neighbour
        connections = workload.processes(
            stack, member, [(i, pipes[i - 1][1], pipes[i][0], words) for i in range(PROCESSES)]
        )
        hows = ("gpubroker", "raw", "spinning")
        samples = workload.in_turn(
            dict.fromkeys(hows, BLOCKS), {how: partial(block, connections, how, BLOCK) for how in hows}
        )
        for how in hows:
            check(connections, how, BLOCK * (BLOCKS + 1))
    mps = ", mps" if "CUDA_MPS_PIPE_DIRECTORY" in os.environ else ""
    workload.row(f"workload-ring{mps}", samples["gpubroker"], "us", samples["raw"])
    workload.row(f"workload-ring-spinning{mps}", samples["gpubroker"], "us", samples["spinning"])


if __name__ == "__main__":
    main()
