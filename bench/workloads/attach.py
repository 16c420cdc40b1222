# SPDX-License-Identifier: Apache-2.0
"""attach.py - the weights of a model in a second process: from the request to the first tensor used, and to all tensors
there.

Beside torch.multiprocessing, which sends one handle a tensor, and safetensors from /dev/shm. The second process is
warm: it has its CUDA context and its connections, and has read such a header before. Between rounds it drops the
tensors and unmaps the memory, so each round maps it anew.
"""

from __future__ import annotations

import gc
import os
import sys
import tempfile
import time
from typing import Any

import models
import workload

ROUNDS = {"gpubroker": 40, "torch": 20, "safetensors": 3}


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
    for how, what in workload.requests(connection):
        if how == "gpubroker":
            tensors: Any = gpubroker.load(what, client=client, framework="torch")
        elif how == "safetensors":
            tensors = load_file(what, device="cuda:0")
        else:
            tensors = what
        use(tensors)
        connection.send(len(tensors))
        made = dict(tensors)
        connection.send(len(made))
        del tensors, made, what
        gc.collect()
        client.trim()
        torch.cuda.ipc_collect()
        torch.cuda.empty_cache()
        connection.send("clean")


def attach(connection: Any, how: str, what: Any, count: int) -> tuple[float, float]:
    """Until the first is used, and until all are there."""
    began = time.perf_counter_ns()
    connection.send((how, what))
    times = []
    for _ in range(2):
        assert connection.recv() == count
        times.append((time.perf_counter_ns() - began) / 1e3)
    assert connection.recv() == "clean"
    return times[0], times[1]


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
    for at, what in enumerate(("", "-all")):
        ours, torch, files = ([times[at] for times in samples[how]] for how in ("gpubroker", "torch", "safetensors"))
        workload.row(f"workload-attach{what}-torch, {model}", ours, "us", torch)
        workload.row(f"workload-attach{what}-safetensors, {model}", ours, "us", files)


def main() -> None:
    workload.require("torch", "transformers", "safetensors")
    for model in sys.argv[1:] or models.CONFIGS:
        compare(model)
        gc.collect()


if __name__ == "__main__":
    main()
