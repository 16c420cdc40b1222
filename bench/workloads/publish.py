# SPDX-License-Identifier: Apache-2.0
"""publish.py - a trainer publishes all weights of a model each step, and an engine takes the newest: until one is used.

Beside torch.multiprocessing with one handle a tensor, of copies that the trainer makes; and beside one flat bucket, two
of which are mapped from the beginning and filled in turn, with a message that says which. The engine holds a version
until it has the next. It compares elements of all tensors while the trainer waits: a version that is seen before its
copies are done has values of two steps. At last the trainer publishes without waiting, and the engine compares all
elements of what it gets, which is replaced meanwhile.
"""

from __future__ import annotations

import gc
import time
from typing import Any

import models
import workload

ROUNDS = 30
VERSIONS = 100  # that are published without waiting for the engine
MODEL = "qwen3-1.7b"
NAME = "policy"


def values_of(tensors: dict[str, Any]) -> set[float]:
    import torch

    parts = [tensor.view(-1)[[0, tensor.numel() // 2, -1]] for tensor in tensors.values()]
    return set(torch.cat(parts).tolist())


def check(tensors: dict[str, Any]) -> str:
    values = values_of(tensors)
    return "whole" if len(values) == 1 else f"torn: {sorted(values)}"


def is_torn(tensors: dict[str, Any]) -> bool:
    """By all elements: each step has one value."""
    import torch

    ends = torch.stack([end for tensor in tensors.values() for end in tensor.aminmax()])
    return bool((ends != ends[0]).any())


def read_on(client: Any, last: int) -> list[bool]:
    """Of each version that is read until that of the last step, whether it is torn.

    Versions that come meanwhile are left out.
    """
    import gpubroker

    torn: list[bool] = []
    policy = gpubroker.load(NAME, framework="torch", client=client)
    while True:
        torn.append(is_torn(dict(policy)))
        if next(iter(policy.values())).view(-1)[0].item() == last:
            return torn
        policy = policy.wait_newer(timeout=60)


def views(flat: Any, shapes: dict[str, tuple[int, ...]]) -> dict[str, Any]:
    made, at = {}, 0
    for name, shape in shapes.items():
        size = 1
        for extent in shape:
            size *= extent
        made[name] = flat[at : at + size].view(shape)
        at += size
    return made


def engine(connection: Any) -> None:
    import gpubroker
    import torch
    import torch.multiprocessing

    torch.zeros(1, device="cuda")
    client = gpubroker.connect()
    policy: Any = None
    connection.send("ready")
    buckets = connection.recv()
    for how, what in workload.requests(connection):
        if how == "on":
            policy = None
            connection.send(read_on(client, what))
            continue
        if how == "gpubroker":
            connection.send("waits")
            policy = gpubroker.load(NAME, newer_than=what, timeout=60, framework="torch", client=client)
            following: Any = policy
        else:
            following = buckets[what] if how == "bucket" else what
        next(iter(following.values())).view(-1)[0].item()
        connection.send(policy.generation if how == "gpubroker" else 0)
        made = dict(following)
        connection.send(len(made))
        connection.send(check(made))
        del following, made, what


class Trainer:
    def __init__(self, connection: Any) -> None:
        import torch

        self.torch, self.connection = torch, connection
        self.tensors = models.weights(MODEL)
        self.step, self.generation = 0, 0
        shapes = {name: tuple(tensor.shape) for name, tensor in self.tensors.items()}
        total = sum(tensor.numel() for tensor in self.tensors.values())
        self.buckets = [views(torch.zeros(total, dtype=torch.bfloat16, device="cuda"), shapes) for _ in range(2)]
        connection.send(self.buckets)

    def train(self) -> None:
        """A step whose values a bfloat16 has exactly."""
        self.step = (self.step + 1) % 128
        for tensor in self.tensors.values():
            tensor.fill_(self.step)
        self.torch.cuda.synchronize()

    def taken(self, began: int) -> tuple[float, float]:
        """Until the engine used the first tensor, and until it had all."""
        self.generation = self.connection.recv() or self.generation
        used = time.perf_counter_ns()
        assert self.connection.recv() == len(self.tensors)
        times = (used - began) / 1e3, (time.perf_counter_ns() - began) / 1e3
        said = self.connection.recv()
        assert said == "whole", said
        return times

    def publish(self) -> tuple[float, float]:
        import gpubroker

        self.train()
        self.connection.send(("gpubroker", self.generation))
        assert self.connection.recv() == "waits"

        began = time.perf_counter_ns()
        gpubroker.publish(NAME, self.tensors)
        return self.taken(began)

    def publish_on(self) -> list[float]:
        """1 for each version that the engine found torn, else 0."""
        import gpubroker

        self.connection.send(("on", (self.step + VERSIONS) % 128))
        for _ in range(VERSIONS):
            self.train()
            gpubroker.publish(NAME, self.tensors)
        return [float(torn) for torn in self.connection.recv()]

    def send_tensors(self) -> tuple[float, float]:
        self.train()
        began = time.perf_counter_ns()
        copies = {name: tensor.clone() for name, tensor in self.tensors.items()}
        self.torch.cuda.synchronize()
        self.connection.send(("torch", copies))
        times = self.taken(began)
        del copies
        gc.collect()
        self.torch.cuda.ipc_collect()
        return times

    def send_bucket(self) -> tuple[float, float]:
        self.train()
        which = self.step % 2
        began = time.perf_counter_ns()
        self.torch._foreach_copy_(list(self.buckets[which].values()), list(self.tensors.values()))
        self.torch.cuda.synchronize()
        self.connection.send(("bucket", which))
        return self.taken(began)


def main() -> None:
    workload.require("torch", "transformers")
    with workload.process(engine) as connection:
        import torch.multiprocessing  # teaches pipes to send CUDA tensors

        trainer = Trainer(connection)
        samples = workload.in_turn(
            {"gpubroker": ROUNDS, "torch": ROUNDS, "bucket": ROUNDS},
            {"gpubroker": trainer.publish, "torch": trainer.send_tensors, "bucket": trainer.send_bucket},
        )
        torn = trainer.publish_on()
    workload.row(f"workload-publish-torn, {MODEL}", torn, "share")
    assert not any(torn)
    for at, what in enumerate(("", "-all")):
        ours, torch, bucket = ([times[at] for times in samples[how]] for how in ("gpubroker", "torch", "bucket"))
        workload.row(f"workload-publish{what}-torch, {MODEL}", ours, "us", torch)
        workload.row(f"workload-publish{what}-bucket, {MODEL}", ours, "us", bucket)


if __name__ == "__main__":
    main()
