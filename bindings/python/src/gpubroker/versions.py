# SPDX-License-Identifier: Apache-2.0
"""Named tensors as one buffer that is replaced as a whole: publish() and load().

A version is written to a buffer with another name, sealed, and gets its name in one step. A reader has one version or
the other, never parts of two. A version that was replaced is freed when no tensor of it is used any more.
"""

from __future__ import annotations

import contextlib
import functools
import re
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NoReturn

from . import dtypes, frameworks, safetensors
from ._core import Client, Lease
from .fresh import STEM, fresh_buffer
from .safetensors import Place
from .sharing import client as own_client

_FIRST_READ = 65536  # bytes: most headers are read at once
_COPIES = 32  # are queued together: the device copies while the next are gathered


# ---- a tensor's bytes, by framework ----


@functools.lru_cache(maxsize=64)
def _framework_of(module: str) -> str:
    name = module.partition(".")[0]
    return name if name in ("torch", "cupy") else "numpy"


@functools.lru_cache(maxsize=64)
def _dtype_name(dtype: Any) -> str:
    return str(dtype).removeprefix("torch.")


# What DLPack calls the types of the format. PyTorch takes those of 8 bits that are missing as numbers, and gives them
# their type.
_DLPACK = {
    "bool": (6, 8),
    **{f"int{bits}": (0, bits) for bits in (8, 16, 32, 64)},
    **{f"uint{bits}": (1, bits) for bits in (8, 16, 32, 64)},
    **{f"float{bits}": (2, bits) for bits in (16, 32, 64)},
    "bfloat16": (4, 16),
    "complex64": (5, 64),
}


def _check_is_bytes(lease: Lease) -> None:
    if (lease.dtype, len(lease.shape)) != ("uint8", 1):
        raise safetensors.Damaged(f"it is an array of {lease.dtype} with {len(lease.shape)} dimensions")


def _viewer_torch(lease: Lease) -> Callable[[Place], Any]:
    import torch

    if lease.device >= 0:
        lease.wait(torch.cuda.current_stream(lease.device))
    from_dlpack, part, known = torch.from_dlpack, lease._part, _DLPACK.get
    counted = lease._array()  # an export, which the function keeps with it

    def view(place: Place, _kept: Any = counted) -> Any:
        dlpack = known(place.dtype)
        if dlpack:
            return from_dlpack(part(*dlpack, place.shape, place.begin))
        return from_dlpack(part(*_DLPACK["uint8"], place.shape, place.begin)).view(getattr(torch, place.dtype))

    return view


def _viewer_cupy(lease: Lease) -> Callable[[Place], Any]:
    import cupy

    base = lease.cupy()
    return lambda place: cupy.ndarray(place.shape, place.dtype, base.data + place.begin)


def _viewer_numpy(lease: Lease) -> Callable[[Place], Any]:
    import numpy as np

    base = frameworks.numpy_memory(lease)  # it does not end before the version does
    return lambda place: np.ndarray(place.shape, dtypes.of_numpy(place.dtype), base, place.begin)


# Each makes a tensor of a place in the buffer, with as few calls as its framework needs: models have hundreds of them.
_VIEWERS: dict[str, Callable[[Lease], Callable[[Place], Any]]] = {
    "torch": _viewer_torch,
    "cupy": _viewer_cupy,
    "numpy": _viewer_numpy,
}


def _choose(framework: str | None, lease: Lease) -> str:
    if framework is None:
        loaded = [name for name in ("torch", "cupy") if name in sys.modules and (name == "torch" or lease.device >= 0)]
        framework = loaded[0] if loaded else "numpy" if lease.device < 0 else "torch"
    if framework not in _VIEWERS:
        raise ValueError(f"framework is {framework!r}, and 'numpy', 'torch' and 'cupy' are known")
    return framework


# ---- publish ----


def _lies_there(tensor: Any, device: Any) -> bool:
    """Whether its bytes are what a pointer and a size say."""
    import torch

    return (
        type(tensor) is torch.Tensor
        and tensor.device == device
        and tensor.layout is torch.strided
        and tensor.is_contiguous()
        and not (tensor.is_conj() or tensor.is_neg() or tensor._is_zerotensor())
    )


def _source(name: str, tensor: Any, place: Place) -> tuple[int, int, int]:
    """Where its bytes go, where they are, and how many."""
    if tensor.untyped_storage().nbytes() < tensor.storage_offset() * tensor.itemsize + tensor.nbytes:
        raise ValueError(f"the storage of tensor {name!r} is smaller than the tensor")
    return place.begin, tensor.data_ptr(), place.end - place.begin


def _write_torch(lease: Lease, tensors: Mapping[str, Any], places: dict[str, Place]) -> None:
    import torch

    view = _viewer_torch(lease)
    device = torch.device("cuda", lease.device) if lease.device >= 0 else torch.device("cpu")
    copies, others = [], []
    for name, tensor in tensors.items():
        if _lies_there(tensor, device):
            copies.append(_source(name, tensor, places[name]))
        else:
            others.append(name)
        if len(copies) == _COPIES:
            lease._gather(copies)
            copies = []
    lease._gather(copies)
    for name in others:
        view(places[name]).copy_(tensors[name])


def _write_cupy(lease: Lease, tensors: Mapping[str, Any], places: dict[str, Place]) -> None:
    view = _viewer_cupy(lease)
    for name, tensor in tensors.items():
        view(places[name])[...] = tensor


def _write_numpy(lease: Lease, tensors: Mapping[str, Any], places: dict[str, Place]) -> None:
    import numpy as np

    if lease.device < 0:
        view = _viewer_numpy(lease)
        for name, tensor in tensors.items():
            view(places[name])[...] = tensor
        return
    for name, tensor in tensors.items():
        contiguous: Any = np.ascontiguousarray(tensor).reshape(-1).view(np.uint8)
        lease.write(contiguous, places[name].begin)


_WRITES = {"torch": _write_torch, "cupy": _write_cupy, "numpy": _write_numpy}


def _of_torch(name: str, tensor: Any) -> Any:
    """As it is now: another thread may give it another type and other memory."""
    import torch

    if tensor.is_meta:
        raise ValueError(f"tensor {name!r} has no memory: it is on PyTorch's device 'meta'")
    if tensor.layout is not torch.strided:
        raise ValueError(f"tensor {name!r} is not dense, but {tensor.layout}: publish what to_dense() makes of it")
    return tensor.detach()


def _of_numpy(name: str, value: Any) -> Any:
    """An array of NumPy's, or what says of itself what it would be as one, as those of JAX do."""
    import numpy as np

    if not (hasattr(value, "dtype") and hasattr(value, "shape")):
        try:
            converted = np.asarray(value)
        except ValueError as error:
            raise TypeError(f"tensor {name!r} is a {type(value).__name__} that is no array: {error}") from None
        if converted.dtype.kind not in "biufc":
            raise TypeError(
                f"tensor {name!r} is a {type(value).__name__}, which is no array: convert it, or leave it out"
            )
        return converted
    if isinstance(value, np.ma.MaskedArray):
        raise TypeError(f"tensor {name!r} is masked, and a version has no masks: publish what filled() makes of it")
    if isinstance(value, np.ndarray) and not value.dtype.isnative:
        return value.astype(value.dtype.newbyteorder("="))
    return value


def _by_framework(tensors: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """The tensors, converted where that is needed. TypeError, ValueError: it cannot be."""
    if not hasattr(tensors, "items"):
        raise TypeError(
            f"tensors is a mapping of names to tensors, as a state_dict is, and not a {type(tensors).__name__}: "
            "dict() makes one of pairs"
        )
    parts: dict[str, dict[str, Any]] = {}
    for name, tensor in tensors.items():
        framework = _framework_of(type(tensor).__module__)
        if framework == "torch" and hasattr(tensor, "detach"):
            parts.setdefault("torch", {})[name] = _of_torch(name, tensor)
        elif framework == "cupy" and hasattr(tensor, "dtype"):
            parts.setdefault("cupy", {})[name] = tensor
        else:
            parts.setdefault("numpy", {})[name] = _of_numpy(name, tensor)
    return parts


def _types_of(parts: dict[str, dict[str, Any]]) -> tuple[tuple[str, str, tuple[int, ...]], ...]:
    tensors = [item for its in parts.values() for item in its.items()]
    return tuple(
        (name, _dtype_name(t.dtype), t.shape if isinstance(t.shape, tuple) else tuple(t.shape)) for name, t in tensors
    )


def _check_name(client: Client, name: str) -> None:
    """OSError: no buffer can have it.

    The library says so, before anything is made; short and plain names are not asked about.
    """
    if not re.fullmatch(rf"[\w.-][\w./-]{{,{STEM - 1}}}", name, re.ASCII):
        with contextlib.suppress(FileNotFoundError):
            client.stat(name)


def publish(
    name: str,
    tensors: Mapping[str, Any],
    *,
    client: Client | None = None,
    metadata: Mapping[str, str] | None = None,
    mode: int = 0o600,
    timeout: float | None = 10,
) -> int:
    """Makes the tensors the next version of that name, which load() finds. Returns the generation that the name has
    then.

    tensors: a state_dict, or any mapping of names to arrays of PyTorch, CuPy or NumPy; numbers, lists and others are
    converted by NumPy. They are copied into one buffer on the current device, in the layout of a .safetensors file:
    `python -m gpubroker save NAME FILE.safetensors` writes it. metadata: strings that go along. mode: who may load it.
    timeout: how many seconds to wait for memory, which earlier versions may have until their users let go of them; None
    without limit. client: None is this process's own connection. Where its broker has ended, the next call connects to
    the one that runs then.

    A buffer of that name is replaced; whoever uses it goes on with it. If this process dies, or anything fails, nothing
    is left of the version, and the name has what it had. Memory of earlier versions is used again without a call of the
    driver if the broker keeps that much (broker-run --pool SIZE).

    PermissionError: another user's buffer has the name. OSError ENOMEM, EDQUOT: there is no memory for both versions.
    TypeError: a tensor is no array, or its type is none of the format's; a name, or a piece of metadata, is no string.
    ValueError: a tensor is called __metadata__, or has less memory than its shape says, or none. These come before
    anything is made, and name the tensor. FileNotFoundError: somebody has unlinked the version at once.
    """
    if client is None:
        client = own_client()
    parts = _by_framework(tensors)
    header, places, size = safetensors.plan(_types_of(parts), metadata or {})
    _check_name(client, name)
    with fresh_buffer(
        client, name, "publishing", seal=True, replace=True, shape=size, mode=mode, timeout=timeout
    ) as own:
        for framework, its in parts.items() or [("numpy", {})]:
            with client.acquire(own, "w") as lease:  # one for each: they are on different streams
                _WRITES[framework](lease, its, places)
                lease.write(header)  # last: it comes behind the tensors on their stream, and waits for them
    return client.stat(name).generation


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
    A version cannot be pickled: another process loads it by its name.
    """

    generation: int
    """Greater than that of each earlier version of the name."""
    metadata: dict[str, str]
    """What publish() was given."""

    _client: Client | None = None  # that load() was given

    def __init__(self, client: Client, lease: Lease, framework: str | None) -> None:
        framework = _choose(framework, lease)
        _check_is_bytes(lease)
        self._view = _VIEWERS[framework](lease)
        self._places, metadata = _read_header(lease)
        self._made: dict[str, Any] = {}
        self.metadata = dict(metadata)
        self._name, self._node, self._framework = str(lease.name), client.node, framework
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

    def __reduce__(self) -> NoReturn:
        raise TypeError(f"a version cannot be pickled: send the name {self._name!r}, which the other process loads")

    def wait_newer(self, timeout: float | None = None) -> Version:
        """Waits until there is a later version of the name, and loads the newest.

        A broker that was started anew has later versions alone. TimeoutError: none came in that many seconds.
        ConnectionResetError: the broker ended meanwhile; call it again.
        """
        return load(self._name, newer_than=self, timeout=timeout, framework=self._framework, client=self._client)


def _generation_of(version: Version | int, client: Client) -> int:
    """Another broker counts its generations anew."""
    if isinstance(version, int):
        return version
    return version.generation if version._node == client.node else 0


def load(
    name: str,
    *,
    newer_than: Version | int | None = None,
    timeout: float | None = 0,
    framework: str | None = None,
    client: Client | None = None,
) -> Version:
    """The newest version of that name, from publish() or `python -m gpubroker load NAME FILE.safetensors`: its tensors
    by name.

    newer_than: only a version later than that one, or than that generation. timeout: how many seconds to wait for it,
    None without limit.
    framework: 'torch', 'cupy' or 'numpy' (on the host device); None is one that the program has imported, 'torch'
    first. client: None is this process's own connection. Where its broker has ended, the next call connects to the one
    that runs then.

    FileNotFoundError: there is no such name. TimeoutError. PermissionError. ValueError: the buffer does not hold
    tensors. ConnectionResetError: the broker ended during the call.
    """
    if timeout is not None and not timeout >= 0:
        raise ValueError("a timeout is seconds from 0 on, or None to wait without limit")
    given, client = client, client or own_client()
    deadline = None if timeout is None else time.monotonic() + timeout
    if newer_than is not None:
        client.wait_newer(name, _generation_of(newer_than, client), timeout)
    remaining = None if deadline is None else max(0.0, deadline - time.monotonic())
    lease = client.acquire(name, "r", timeout=remaining)
    try:
        version = Version(client, lease, framework)
        version._client = given
        return version
    except BaseException as error:
        lease._leave()
        if isinstance(error, safetensors.Damaged):
            raise ValueError(f"{name!r} does not hold tensors: {error}") from None
        raise
