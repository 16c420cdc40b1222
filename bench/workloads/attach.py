# SPDX-License-Identifier: Apache-2.0
"""attach.py - the weights of a model in a second process: from the request to the first tensor used, all being there.

Beside torch.multiprocessing, which sends one handle a tensor, and safetensors from /dev/shm. The second process is warm: it
has its CUDA context and its connections, and has read such a header before. Between rounds it drops the tensors and unmaps
the memory, so each round maps it anew.

Then 100 processes map the weights, each makes a buffer of its own, and is killed: until the broker has the buffer's memory
back, while another process goes on with the weights. And what torch.multiprocessing has not given back when such processes
are killed.
"""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import models
import workload

ROUNDS = {"gpubroker": 40, "torch": 20, "safetensors": 4}
KILLED = 100
KILLED_PEER = 4


def use(tensors: dict[str, Any]) -> None:
    next(iter(tensors.values())).view(-1)[0].item()


def consumer(connection: Any) -> None:
    import gpubroker
    import torch
    import torch.multiprocessing
    from safetensors.torch import load_file

    torch.zeros(1, device="cuda")
    client = gpubroker.connect()
    connection.send("ready")
    while True:
        try:
            how, what = connection.recv()
        except EOFError:
            return
        if how == "gpubroker":
            tensors: Any = dict(gpubroker.load(what, client=client, framework="torch"))
        elif how == "safetensors":
            tensors = load_file(what, device="cuda:0")
        else:
            tensors = what
        use(tensors)
        connection.send(len(tensors))
        del tensors, what
        gc.collect()
        client.trim()
        torch.cuda.ipc_collect()
        torch.cuda.empty_cache()
        connection.send("clean")


def attach(connection: Any, how: str, what: Any, count: int) -> float:
    def round_trip() -> None:
        connection.send((how, what))
        assert connection.recv() == count

    took = workload.timed(round_trip)
    assert connection.recv() == "clean"
    return took


def compare(model: str) -> None:
    import gpubroker
    from safetensors.torch import save_file

    tensors = models.weights(model)
    gpubroker.publish(model, tensors)
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder, workload.process(consumer) as connection:
        path = os.path.join(folder, "weights.safetensors")
        save_file({name: tensor.cpu() for name, tensor in tensors.items()}, path)
        count = len(tensors)
        samples = workload.in_turn(
            ROUNDS,
            {
                "gpubroker": lambda: attach(connection, "gpubroker", model, count),
                "torch": lambda: attach(connection, "torch", tensors, count),
                "safetensors": lambda: attach(connection, "safetensors", path, count),
            },
        )
    workload.row(f"workload-attach-torch, {model}", samples["gpubroker"], "us", samples["torch"])
    workload.row(f"workload-attach-safetensors, {model}", samples["gpubroker"], "us", samples["safetensors"])
    samples.clear()


# ---- killed ----

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


def kill_one(client: Any, model: str, number: int) -> float:
    name = f"victim/{number}"
    child = subprocess.Popen([sys.executable, "-c", VICTIM, model, name], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert child.stdout and child.stdout.readline() == b"holds True\n"
    began = time.perf_counter_ns()
    child.kill()
    while True:
        try:
            client.stat(name)
        except FileNotFoundError:
            break
        time.sleep(0.0002)
    took = (time.perf_counter_ns() - began) / 1e3
    child.communicate()
    return took


def killed(model: str) -> None:
    import gpubroker
    import torch

    client = gpubroker.connect()
    policy = gpubroker.load(model, client=client, framework="torch")
    first = next(iter(policy))
    before = policy[first].float().sum().item()
    with ThreadPoolExecutor(8) as threads:
        samples = list(threads.map(lambda number: kill_one(client, model, number), range(KILLED)))
    assert policy[first].float().sum().item() == before
    workload.row("workload-killed", samples, "us")
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


def left_by_torch(model: str) -> None:
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
    workload.require("torch", "transformers", "safetensors")
    for model in sys.argv[1:] or models.CONFIGS:
        compare(model)
        gc.collect()
    killed("qwen3-1.7b")
    left_by_torch("qwen3-1.7b")


if __name__ == "__main__":
    main()
