# SPDX-License-Identifier: Apache-2.0
"""A real broker for the host device, and clients of it.

GPUBROKER_RUN names broker-run; without it the PATH has it.
"""

from __future__ import annotations

import contextlib
import gc
import itertools
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import settings

import gpubroker

# The same examples in each run: what one run finds, all do.
settings.register_profile("gpubroker", derandomize=True, deadline=None, database=None, max_examples=40)
settings.load_profile("gpubroker")


class Broker:
    """broker-run with one worker, which tells its address and lives until end()."""

    def __init__(self, *options: str, **environment: str) -> None:
        program = os.environ.get("GPUBROKER_RUN", "broker-run")
        self.process = subprocess.Popen(
            [program, "--device", "host", *options, "--", "sh", "-c", 'echo "$GPUBROKER"; read end'],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, **environment},
        )
        assert self.process.stdout
        self.address = self.process.stdout.readline().strip()

    def connect(self) -> gpubroker.Client:
        return gpubroker.connect(self.address)

    def status(self, *arguments: str) -> str:
        """What broker-status says of it."""
        program = Path(os.environ.get("GPUBROKER_RUN", "broker-run")).with_name("broker-status")
        command = [str(program), *arguments, f"run-{self.process.pid}"]
        return subprocess.run(command, capture_output=True, text=True).stdout

    def end(self) -> str:
        """What it says at its end: 'account: ... balanced' when it has its memory back."""
        return self.process.communicate("\n", timeout=60)[1]


@pytest.fixture(scope="session")
def broker() -> Iterator[Broker]:
    """The broker of all tests. None of them may leave anything in use."""
    running = Broker()
    yield running
    gc.collect()
    said = running.end()
    assert "balanced" in said, said
    assert running.process.returncode == 0, said


@pytest.fixture
def own_broker() -> Iterator[Callable[..., Broker]]:
    """Starts brokers for one test alone."""
    started: list[Broker] = []

    def start(*options: str, **environment: str) -> Broker:
        started.append(Broker(*options, **environment))
        return started[-1]

    yield start
    for running in started:
        if running.process.returncode is None:
            running.end()


@pytest.fixture
def c(broker: Broker) -> Iterator[gpubroker.Client]:
    """A client whose test must have released everything: else closing it is refused."""
    client = broker.connect()
    yield client
    gc.collect()
    client.close()


_numbers = itertools.count()


@pytest.fixture
def name(c: gpubroker.Client) -> Iterator[str]:
    """A name that no other test has. Its buffer, if there is one, is unlinked."""
    chosen = f"test-{next(_numbers)}"
    yield chosen
    with contextlib.suppress(FileNotFoundError):
        c.unlink(chosen)
