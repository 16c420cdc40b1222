# SPDX-License-Identifier: Apache-2.0
"""PyTorch's tensors of a lease, which its functions refuse when the lease has ended.

The tensor gets another class, whose functions raise ValueError. Its memory stays until the last tensor that shows it is
collected: other tensors, and arrays of NumPy and CuPy, may show it, and kernels of other threads may use it. Owns the
lists of the tensors of each lease.
"""

from __future__ import annotations

import weakref
from typing import Any

import torch


class EndedTensor(torch.Tensor):  # type: ignore[misc]
    """A tensor of a lease that has ended."""

    _label: str

    @classmethod
    def __torch_function__(cls, function: Any, types: Any, arguments: Any = (), more: Any = None) -> Any:
        labels = [argument._label for argument in arguments if type(argument) is cls]
        raise ValueError(
            f"the lease on {labels[0] if labels else 'a buffer'} has ended, by the end of its block or by release(), "
            "and this tensor with it: clone() what you need before"
        )

    def __repr__(self, **_more: Any) -> str:
        return f"<gpubroker.tensors.EndedTensor: the lease on {self._label} has ended>"

    __str__ = __repr__


class Tensors:
    """Those of one lease that live."""

    def __init__(self, label: str) -> None:
        self._label = label  # the buffer, for messages
        self._made: list[weakref.ref[Any]] = []

    def add(self, tensor: Any) -> None:
        self._made = [kept for kept in self._made if kept() is not None]
        self._made.append(weakref.ref(tensor))

    def end(self) -> None:
        for kept in self._made:
            tensor = kept()
            if tensor is not None:
                tensor._label = self._label
                tensor.__class__ = EndedTensor
