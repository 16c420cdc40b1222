# SPDX-License-Identifier: Apache-2.0
"""Ctrl-C, and other signals, while a call waits: it ends at once, nothing of it is left, and the client goes on."""

import re
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest
from conftest import Broker

import gpubroker

LARGE = 40 << 20  # of the 64 MiB that the broker has: there is memory for one

CALLS = {
    "create": f"c.create('more', {LARGE}, timeout=None)",
    "create, with a timeout": f"c.create('more', {LARGE}, timeout=60)",
    "resize": f"c.resize('growing', {LARGE}, timeout=None)",
    "publish": f"gpubroker.publish('p', {{'a': np.zeros({LARGE}, 'uint8')}}, timeout=None, client=c)",
    "load": "gpubroker.load('missing', timeout=None, client=c)",
    "acquire": "c.acquire('missing', timeout=None)",
    "acquire, at": "c.acquire('t', at=5)",
    "wait": "c.acquire('t').wait(at=5)",
    "wait, with a timeout": "c.acquire('t').wait(at=5, timeout=60)",
    "wait_newer": "c.wait_newer('t', c.stat('t').generation)",
    "drain": "c.drain('held')",
}

PROGRAM = """
import signal, sys
import numpy as np
import gpubroker
def tell(*_):
    print("a signal, and generation", c.stat("t").generation, flush=True)
signal.signal(signal.SIGUSR1, tell)
with gpubroker.connect(sys.argv[1]) as c:
    try:
        eval(sys.argv[2])
    except KeyboardInterrupt:
        print("interrupted, and generation", c.stat("t").generation, flush=True)
    sys.stdin.read()
"""


@pytest.fixture(scope="module")
def full() -> Iterator[tuple[Broker, gpubroker.Client]]:
    """A broker that has no memory for what the calls ask for, and what they wait for."""
    broker = Broker(GPUB_HOST_MEMORY="64M")
    with broker.connect() as c:
        c.create("big", LARGE)
        c.create("growing", 4096, reserve=64 << 20)
        c.create("t", 1, timeline=True)
        yield broker, c
    broker.end()


def await_that(broker: Broker, pid: int, waits: bool) -> None:
    """The broker says of that process that it waits, or that it does not."""
    deadline = time.monotonic() + 60
    while bool(re.search(rf"\b{pid}\)? waits for", broker.status("--why", str(pid)))) != waits:
        assert time.monotonic() < deadline
        time.sleep(0.02)


def line_of(child: subprocess.Popen) -> str:
    """The next line that it prints; it is killed where none comes."""
    if not select.select([child.stdout], [], [], 60)[0]:
        child.kill()
    return child.stdout.readline()


@pytest.mark.parametrize("call", CALLS)
def test_control_c_ends_each_call_that_waits(full, call):
    broker, c = full
    c.create("held", 4096)
    generation = c.stat("t").generation
    command = [sys.executable, "-W", "ignore", "-c", PROGRAM, broker.address, CALLS[call]]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with c.acquire("held"), subprocess.Popen(command, text=True, **pipes) as child:
        await_that(broker, child.pid, True)
        child.send_signal(signal.SIGUSR1)  # its handler raises nothing: the call waits on
        assert line_of(child) == f"a signal, and generation {generation}\n"
        await_that(broker, child.pid, True)
        child.send_signal(signal.SIGINT)
        said = line_of(child)
        assert said == f"interrupted, and generation {generation}\n", child.stderr.read()
        await_that(broker, child.pid, False)
        assert child.communicate("", timeout=60) == ("", "")
    if "held" in CALLS[call]:
        with pytest.raises(FileNotFoundError):
            c.stat("held")
    else:
        c.unlink("held")
    shown = broker.status("--json")
    assert not [name for name in ("more", "publishing") if name in shown]
    assert '"waiting": 0' in shown


def test_a_create_that_is_interrupted_lets_the_next_one_go_on(full):
    broker, c = full
    command = [sys.executable, "-c", PROGRAM, broker.address]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    first = subprocess.Popen([*command, CALLS["create"]], text=True, **pipes)
    await_that(broker, first.pid, True)
    with subprocess.Popen(
        [*command, "c.create('small', 4096, dedicated=True, timeout=None)"], text=True, **pipes
    ) as second:
        await_that(broker, second.pid, True)
        first.send_signal(signal.SIGINT)
        await_that(broker, second.pid, False)
        assert line_of(first).startswith("interrupted")
        second.communicate("", timeout=60)
    first.communicate("", timeout=60)
    c.unlink("small")


def test_a_wait_has_a_timeout(c, name):
    c.create(name, 1, timeline=True)
    with c.acquire(name, "rw") as u:
        u.signal(2)
        u.wait(at=2)
        u.wait(at=2, timeout=0)
        with pytest.raises(TimeoutError, match=rf"'{name}': the timeline has reached 2, and not 3 within 0\.02 s"):
            u.wait(at=3, timeout=0.02)
        with pytest.raises(ValueError, match="timeout"):
            u.wait(at=3, timeout=-1)
        u.wait(timeout=0)  # for nothing: the lease has no 'at'
