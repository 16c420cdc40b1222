# SPDX-License-Identifier: Apache-2.0
"""attach.py - the weights of a model in a second process: from the request to the first tensor used, all being there.

Beside torch.multiprocessing, which sends one handle a tensor, and safetensors from /dev/shm. The second process is warm: it
has its CUDA context and its connections, and has read such a header before. Between rounds it drops the tensors and unmaps
the memory, so each round maps it anew.
"""

from __future__ import annotations

import gc
import os
import sys
import tempfile
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


def main() -> None:
    workload.require("torch", "transformers", "safetensors")
    for model in sys.argv[1:] or models.CONFIGS:
        compare(model)
        gc.collect()


if __name__ == "__main__":
    main()
