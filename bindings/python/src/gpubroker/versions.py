# SPDX-License-Identifier: Apache-2.0
"""Named tensors as one buffer that is replaced as a whole: publish() and load().

A version is written to a buffer with another name, sealed, and gets its name in one step. A reader has one version or the
other, never parts of two. A version that was replaced is freed when no tensor of it is used any more.
"""

from __future__ import annotations

import contextlib
import functools
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from . import dtypes, safetensors
from ._core import Client, Lease
from .safetensors import Place
from .sharing import client as own_client

_FIRST_READ = 65536  # bytes: most headers are read at once


# ---- a tensor's bytes, by framework ----


def _framework_of(tensor: Any) -> str:
    name = type(tensor).__module__.partition(".")[0]
    return name if name in ("torch", "cupy") else "numpy"


def _dtype_of(tensor: Any) -> str:
    return str(tensor.dtype).removeprefix("torch.")


@functools.lru_cache(maxsize=4096)
def _strides(shape: tuple[int, ...]) -> tuple[int, ...]:
    """In elements, in row-major order."""
    strides, stride = [], 1
    for extent in reversed(shape):
        strides.append(stride)
        stride *= extent
    return tuple(reversed(strides))


def _viewer_torch(base: Any) -> Callable[[Place], Any]:
    import torch

    types: dict[str, Any] = {}

    def view(place: Place) -> Any:
        typed = types.get(place.dtype)
        if typed is None:
            dtype = getattr(torch, place.dtype)
            typed = types[place.dtype] = base[: len(base) - len(base) % dtype.itemsize].view(dtype)
        offset, rest = divmod(place.begin, typed.itemsize)
        if rest:
            raise BufferError(f"PyTorch has no tensor of {place.dtype} at byte {place.begin}: load with framework='numpy'")
        return typed.as_strided(place.shape, _strides(place.shape), offset)

    return view


def _viewer_cupy(base: Any) -> Callable[[Place], Any]:
    import cupy

    return lambda place: cupy.ndarray(place.shape, place.dtype, base.data + place.begin)


def _viewer_numpy(base: Any) -> Callable[[Place], Any]:
    import numpy as np

    return lambda place: np.ndarray(place.shape, dtypes.of_numpy(place.dtype), base, place.begin)


# Each makes a tensor of a place in the buffer, with one call of its framework: models have hundreds of them.
_VIEWERS: dict[str, Callable[[Any], Callable[[Place], Any]]] = {
    "torch": _viewer_torch,
    "cupy": _viewer_cupy,
    "numpy": _viewer_numpy,
}


def _base(lease: Lease, framework: str) -> Any:
    """All bytes of the buffer as an array of the framework."""
    if (lease.dtype, len(lease.shape)) != ("uint8", 1):
        raise safetensors.Damaged(f"it is an array of {lease.dtype} with {len(lease.shape)} dimensions")
    return getattr(lease, framework)()


def _choose(framework: str | None, lease: Lease) -> str:
    if framework is None:
        loaded = [name for name in ("torch", "cupy") if name in sys.modules and (name == "torch" or lease.device >= 0)]
        framework = loaded[0] if loaded else "numpy" if lease.device < 0 else "torch"
    if framework not in _VIEWERS:
        raise ValueError(f"framework is {framework!r}, and 'numpy', 'torch' and 'cupy' are known")
    return framework


# ---- publish ----


def _write_torch(lease: Lease, tensors: Mapping[str, Any], places: dict[str, Place]) -> None:
    import torch

    view = _viewer_torch(_base(lease, "torch"))
    here = [view(places[name]) for name in tensors]
    torch._foreach_copy_(here, [tensor.detach() for tensor in tensors.values()], non_blocking=True)


def _write_cupy(lease: Lease, tensors: Mapping[str, Any], places: dict[str, Place]) -> None:
    view = _viewer_cupy(_base(lease, "cupy"))
    for name, tensor in tensors.items():
        view(places[name])[...] = tensor


def _write_numpy(lease: Lease, tensors: Mapping[str, Any], places: dict[str, Place]) -> None:
    import numpy as np

    if lease.device < 0:
        view = _viewer_numpy(_base(lease, "numpy"))
        for name, tensor in tensors.items():
            view(places[name])[...] = tensor
        return
    for name, tensor in tensors.items():
        contiguous: Any = np.ascontiguousarray(tensor).reshape(-1).view(np.uint8)
        lease.write(contiguous, places[name].begin)


_WRITES = {"torch": _write_torch, "cupy": _write_cupy, "numpy": _write_numpy}


def _write(lease: Lease, tensors: Mapping[str, Any], places: dict[str, Place]) -> None:
    by_framework: dict[str, dict[str, Any]] = {}
    for name, tensor in tensors.items():
        by_framework.setdefault(_framework_of(tensor), {})[name] = tensor
    for framework, its in by_framework.items():
        _WRITES[framework](lease, its, places)


def publish(
    name: str,
    tensors: Mapping[str, Any],
    *,
    client: Client | None = None,
    metadata: Mapping[str, str] | None = None,
    mode: int = 0o600,
    timeout: float | None = 10,
) -> None:
    """Makes the tensors the next version of that name, which load() finds.

    tensors: a state_dict, or any mapping of names to arrays of PyTorch, CuPy or NumPy; others are converted by NumPy. They are
    copied into one buffer on the current device, in the layout of a .safetensors file: `broker-ctl save NAME
    FILE.safetensors` writes it. metadata: strings that go along. mode: who may load it. timeout: how many seconds to wait for
    memory, which earlier versions may have until their users let go of them; None without limit. client: None is this
    process's own connection.

    A buffer of that name is replaced; whoever uses it goes on with it. If this process dies, or anything fails, nothing is
    left of the version, and the name has what it had. Memory of earlier versions is used again without a call of the driver
    if the broker keeps that much (broker-run --pool SIZE).

    PermissionError: another user's buffer has the name. OSError ENOMEM, EDQUOT: there is no memory for both versions.
    TypeError: a tensor's type is none of the format's; a name, or a piece of metadata, is no string. ValueError: a tensor is
    called __metadata__.
    """
    if client is None:
        client = own_client()
    types = {key: (_dtype_of(value), tuple(value.shape)) for key, value in tensors.items()}
    header, places = safetensors.plan(types, metadata or {})
    size = max([len(header), *(place.end for place in places.values())])
    fresh = f"{name[:70]}.publishing-{os.urandom(4).hex()}"
    client.create(fresh, size, ephemeral=True, mode=mode, timeout=timeout)
    try:
        with client.acquire(fresh, "w") as lease:
            _write(lease, tensors, places)
            lease.write(header)  # last: it comes behind the tensors on their stream, and waits for them
        client.seal(fresh)
        client.rename(fresh, name, replace=True, persist=True)
    except BaseException:
        with contextlib.suppress(OSError):
            client.unlink(fresh)
        raise


# ---- load ----


def _read_header(lease: Lease) -> tuple[dict[str, Place], dict[str, str]]:
    total = lease.nbytes
    first = bytearray(min(_FIRST_READ, total))
    lease.read_into(first)
    size = safetensors.header_size(first, total)
    rest = bytearray(max(0, 8 + size - len(first)))
    if rest:
        lease.read_into(rest, len(first))
    return safetensors.parse(bytes((first + rest)[8 : 8 + size]), total)


class Version(Mapping[str, Any]):
    """The tensors of one version, by name: views of one mapping of its buffer. Do not write them: they are shared.

    They are valid as long as any of them, or this object, is used; the version is then returned to the broker.
    """

    generation: int
    """Greater than that of each earlier version of the name."""
    metadata: dict[str, str]
    """What publish() was given."""

    def __init__(self, client: Client, lease: Lease, framework: str | None) -> None:
        framework = _choose(framework, lease)
        base = _base(lease, framework)
        self._places, metadata = _read_header(lease)
        self._view = _VIEWERS[framework](base)
        self._made: dict[str, Any] = {}
        self.metadata = dict(metadata)
        self._client, self._name, self._framework = client, str(lease.name), framework
        self.generation = lease.generation
        lease._leave()

    def __getitem__(self, name: str) -> Any:
        if name not in self._made:
            self._made[name] = self._view(self._places[name])
        return self._made[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)

    def __repr__(self) -> str:
        return f"<gpubroker.Version {self.generation} of {self._name!r}: {len(self)} tensors>"

    def wait_newer(self, timeout: float | None = None) -> Version:
        """Waits until there is a later version of the name, and loads the newest.

        TimeoutError: none came in that many seconds.
        """
        return load(self._name, newer_than=self.generation, timeout=timeout, framework=self._framework, client=self._client)


def load(
    name: str,
    *,
    newer_than: int | None = None,
    timeout: float | None = 0,
    framework: str | None = None,
    client: Client | None = None,
) -> Version:
    """The newest version of that name, which publish() or `broker-ctl load NAME FILE.safetensors` made: its tensors by name.

    newer_than: only a version of a later generation. timeout: how many seconds to wait for it, None without limit.
    framework: 'torch', 'cupy' or 'numpy' (on the host device); None is one that the program has imported, 'torch' first.
    client: None is this process's own connection.

    FileNotFoundError: there is no such name. TimeoutError. PermissionError. ValueError: the buffer does not hold tensors.
    """
    if client is None:
        client = own_client()
    deadline = None if timeout is None else time.monotonic() + timeout
    if newer_than is not None:
        client.wait_newer(name, newer_than, timeout)
    remaining = None if deadline is None else max(0.0, deadline - time.monotonic())
    lease = client.acquire(name, "r", timeout=remaining)
    try:
        return Version(client, lease, framework)
    except BaseException as error:
        lease._leave()
        if isinstance(error, safetensors.Damaged):
            raise ValueError(f"{name!r} does not hold tensors: {error}") from None
        raise
