# SPDX-License-Identifier: Apache-2.0
"""publish.py - a trainer publishes all weights of a model each step, and an engine takes the newest: until one is used.

Beside torch.multiprocessing with one handle a tensor, of copies that the trainer makes; and beside one flat bucket, two of
which are mapped from the beginning and filled in turn, with a message that says which. The engine holds a version until it
has the next. It compares elements of all tensors while the trainer waits: a version that is seen before its copies are done has
values of two steps. Whether one can be replaced under a reader is not tried here.
"""

from __future__ import annotations

import gc
from typing import Any

import models
import workload

ROUNDS = 30
MODEL = "qwen3-1.7b"
NAME = "policy"


def values_of(tensors: dict[str, Any]) -> set[float]:
    import torch

    parts = [tensor.view(-1)[[0, tensor.numel() // 2, -1]] for tensor in tensors.values()]
    return set(torch.cat(parts).tolist())


def check(tensors: dict[str, Any]) -> str:
    values = values_of(tensors)
    return "whole" if len(values) == 1 else f"torn: {sorted(values)}"


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
    while True:
        try:
            how, what = connection.recv()
        except EOFError:
            return
        if how == "gpubroker":
            connection.send("waits")
            policy = gpubroker.load(NAME, newer_than=what, timeout=60, framework="torch", client=client)
            following: Any = dict(policy)
        else:
            following = buckets[what] if how == "bucket" else what
        next(iter(following.values())).view(-1)[0].item()
        connection.send(policy.generation if how == "gpubroker" else 0)
        connection.send(check(following))
        del following, what


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

    def taken(self) -> None:
        self.generation = self.connection.recv() or self.generation

    def checked(self) -> None:
        said = self.connection.recv()
        assert said == "whole", said

    def publish(self) -> float:
        import gpubroker

        self.train()
        self.connection.send(("gpubroker", self.generation))
        assert self.connection.recv() == "waits"

        def work() -> None:
            gpubroker.publish(NAME, self.tensors)
            self.taken()

        took = workload.timed(work)
        self.checked()
        return took

    def send_tensors(self) -> float:
        self.train()

        def work() -> None:
            copies = {name: tensor.clone() for name, tensor in self.tensors.items()}
            self.torch.cuda.synchronize()
            self.connection.send(("torch", copies))
            self.taken()

        took = workload.timed(work)
        self.checked()
        gc.collect()
        self.torch.cuda.ipc_collect()
        return took

    def send_bucket(self) -> float:
        self.train()
        which = self.step % 2

        def work() -> None:
            self.torch._foreach_copy_(list(self.buckets[which].values()), list(self.tensors.values()))
            self.torch.cuda.synchronize()
            self.connection.send(("bucket", which))
            self.taken()

        took = workload.timed(work)
        self.checked()
        return took


def main() -> None:
    workload.require("torch", "transformers")
    with workload.process(engine) as connection:
        import torch.multiprocessing  # noqa: F401 - teaches pipes to send CUDA tensors

        trainer = Trainer(connection)
        samples = workload.in_turn(
            {"gpubroker": ROUNDS, "torch": ROUNDS, "bucket": ROUNDS},
            {"gpubroker": trainer.publish, "torch": trainer.send_tensors, "bucket": trainer.send_bucket},
        )
    workload.row(f"workload-publish-torch, {MODEL}", samples["gpubroker"], "us", samples["torch"])
    workload.row(f"workload-publish-bucket, {MODEL}", samples["gpubroker"], "us", samples["bucket"])


if __name__ == "__main__":
    main()
