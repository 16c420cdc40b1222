# SPDX-License-Identifier: Apache-2.0
"""killed.py - 100 processes map a model's weights, each makes a buffer of its own, and is killed with SIGKILL.

Measured: from the signal until the broker has the memory of that buffer back, eight processes at a time; and how much
of that is left when the kernel has ended the process. Another process goes on with the weights meanwhile, and sees the
same values. And how much memory torch.multiprocessing has not given back when its consumers were killed and the tensors
were dropped.
"""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import models
import workload

MODEL = "qwen3-1.7b"
KILLED = 100
KILLED_PEER = 4

VICTIM = """
import sys
import gpubroker
c = gpubroker.connect()
lease = c.acquire(sys.argv[1])
c.create(sys.argv[2], 256 << 20, ephemeral=True)
own = c.acquire(sys.argv[2], "rw")
print("holds", lease.ptr != 0 and own.ptr != 0, flush=True)
sys.stdin.read()
"""


def has_ended(pid: int) -> bool:
    return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def is_back(client: Any, name: str) -> bool:
    try:
        client.stat(name)
    except FileNotFoundError:
        return True
    return False


def kill_one(client: Any, model: str, number: int) -> tuple[float, float]:
    name = f"victim/{number}"
    child = subprocess.Popen([sys.executable, "-c", VICTIM, model, name], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert child.stdout and child.stdout.readline() == b"holds True\n"
    began = time.perf_counter_ns()
    child.kill()
    ended = back = 0
    while not ended or not back:
        time.sleep(0.0002)
        ended = ended or (time.perf_counter_ns() if has_ended(child.pid) else 0)
        back = back or (time.perf_counter_ns() if is_back(client, name) else 0)
    child.communicate()
    return (back - began) / 1e3, (back - ended) / 1e3


def killed(model: str) -> None:
    import gpubroker
    import torch

    client = gpubroker.connect()
    gpubroker.publish(model, models.weights(model), client=client)
    policy = gpubroker.load(model, client=client, framework="torch")
    first = next(iter(policy))
    before = policy[first].float().sum().item()
    with ThreadPoolExecutor(8) as threads:
        samples = list(threads.map(lambda number: kill_one(client, model, number), range(KILLED)))
    assert policy[first].float().sum().item() == before
    workload.row("workload-killed", [whole for whole, _ in samples], "us")
    workload.row("workload-killed-after-its-end", [after for _, after in samples], "us")
    del policy
    gc.collect()
    torch.cuda.synchronize()


def hold(connection: Any) -> None:
    import torch
    import torch.multiprocessing

    torch.zeros(1, device="cuda")
    connection.send("ready")
    tensors = connection.recv()
    connection.send(len(tensors))
    connection.recv()
    os.kill(os.getpid(), 9)


def left_by_torch() -> None:
    """Bytes that stay allocated when the tensors are dropped, after their users were killed."""
    import torch
    import torch.multiprocessing

    gc.collect()
    samples = []
    for _ in range(KILLED_PEER):
        before = torch.cuda.memory_allocated()
        tensors = {"flat": torch.zeros(256 << 20, dtype=torch.uint8, device="cuda")}
        with workload.process(hold) as connection:
            connection.send(tensors)
            assert connection.recv() == 1
            connection.send("die")
        del tensors
        gc.collect()
        torch.cuda.ipc_collect()
        samples.append(float(torch.cuda.memory_allocated() - before))
    workload.row("workload-killed-left-torch", samples, "bytes")


def main() -> None:
    workload.require("torch", "transformers")
    killed(MODEL)
    left_by_torch()


if __name__ == "__main__":
    main()
