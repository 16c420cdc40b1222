# SPDX-License-Identifier: Apache-2.0
"""workload.py - what the workloads share: rounds that are taken in turn, JSON lines as the other rows have, a process
to talk to.

A workload runs as the only worker of a broker-run: bench/README.md. Exit status 77: a package that it is about is not
there.
"""

from __future__ import annotations

import ctypes
import json
import multiprocessing
import os
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, TypeVar

T = TypeVar("T")


def require(*packages: str) -> None:
    for package in packages:
        try:
            __import__(package)
        except ImportError:
            print(f"python3 has no {package}", file=sys.stderr)
            sys.exit(77)


def machine() -> dict[str, Any]:
    import torch

    with open("/proc/cpuinfo") as lines:
        cpu = next((line.split(":")[1].strip() for line in lines if line.startswith("model name")), "unknown")
    device = f"1 x {torch.cuda.get_device_name(0)}" if torch.cuda.is_available() else "host"
    return {"cpu": cpu, "cores": os.cpu_count(), "kernel": os.uname().release, "device": device}


def percentile(samples: list[float], share: float) -> float:
    return sorted(samples)[min(len(samples) - 1, int(share * len(samples)))]


def row(name: str, samples: list[float], unit: str, peer: list[float] | None = None) -> None:
    """A line for bench/report: our samples, and the median of the other side's."""
    median = statistics.median(samples)
    other = statistics.median(peer) if peer else None
    line = {
        "name": name,
        "n": len(samples),
        "p50": float(f"{median:.4g}"),
        "p90": float(f"{percentile(samples, 0.9):.4g}"),
        "p99": float(f"{percentile(samples, 0.99):.4g}"),
        "unit": unit,
        "peer": float(f"{other:.4g}") if other else None,
        "ratio": float(f"{median / other:.3g}") if other else None,
        "machine": machine(),
    }
    print(json.dumps(line), flush=True)


def timed(work: Callable[[], Any]) -> float:
    """Microseconds."""
    began = time.perf_counter_ns()
    work()
    return (time.perf_counter_ns() - began) / 1e3


def in_turn(rounds: dict[str, int], works: dict[str, Callable[[], T]]) -> dict[str, list[T]]:
    """What each work returned, taken in turn: all of them meet the same machine.

    A first round of each is not counted.
    """
    samples: dict[str, list[T]] = {name: [] for name in works}
    for name, work in works.items():
        print(f"{name}: {work()}, the first round", file=sys.stderr, flush=True)
    for i in range(max(rounds.values())):
        for name, work in works.items():
            if i < rounds[name]:
                samples[name].append(work())
    return samples


def pipe() -> tuple[Any, Any]:
    return multiprocessing.get_context("spawn").Pipe()


def shared_words(count: int) -> Any:
    """Words of 64 bits, all 0, that processes share to which they are passed as an argument."""
    return multiprocessing.get_context("spawn").RawArray(ctypes.c_uint64, count)


def processes(stack: ExitStack, main: Callable[..., None], arguments: list[tuple[Any, ...]]) -> list[Any]:
    """Spawned processes, main(connection, *arguments of its own), and our ends of their connections, when all are
    ready.

    A process ends when its connection does, at the end of the stack.
    """
    context = multiprocessing.get_context("spawn")
    connections = []
    for its in arguments:
        ours, theirs = context.Pipe()
        child = context.Process(target=main, args=(theirs, *its))
        child.start()
        theirs.close()
        stack.callback(end, child)
        stack.callback(ours.close)
        connections.append(ours)
    for connection in connections:
        assert connection.recv() == "ready"
    return connections


def requests(connection: Any) -> Iterator[Any]:
    """What is asked of a process, until its connection ends. Keeps none of it."""
    while True:
        try:
            yield connection.recv()
        except EOFError:
            return


def end(child: Any) -> None:
    child.join(30)
    if child.is_alive():
        child.kill()


@contextmanager
def process(main: Callable[..., None], *arguments: Any) -> Iterator[Any]:
    """One such process."""
    with ExitStack() as stack:
        yield processes(stack, main, [arguments])[0]
