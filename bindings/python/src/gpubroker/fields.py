# SPDX-License-Identifier: Apache-2.0
"""A buffer of a running simulation, read by its name: its statistics, and a field of two dimensions out of it.

Reads with a read lease, in pieces, and returns the lease before anything is computed: it waits for nobody, and nobody
waits for it. What the simulation writes meanwhile may be seen in part.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from . import dtypes
from ._core import Client, Lease

_PIECE = 32 << 20  # bytes


class Statistics(NamedTuple):
    """Of the elements that are finite numbers; NaN where there are none."""

    elements: int
    minimum: float
    maximum: float
    mean: float
    nans: int
    infinite: int


def _read(lease: Lease, array: Any, offset: int) -> None:
    """Bytes from offset on into the array, piece by piece, so that no copy takes long."""
    flat = memoryview(array).cast("B")
    for at in range(0, len(flat), _PIECE):
        lease.read_into(flat[at : at + _PIECE], offset + at)


def read(client: Client, name: str, first: int = 0, count: int | None = None) -> Any:
    """So many elements from one on, in one dimension; all without count. A vector has several."""
    import numpy as np

    with client.acquire(name) as lease:
        plain, lanes = dtypes.split(lease.dtype)
        dtype = dtypes.of_numpy(plain)
        total = lease.nbytes // dtype.itemsize
        count = total - first * lanes if count is None else count * lanes
        array = np.empty(count, dtype)
        if count:
            _read(lease, array.view("uint8"), first * lanes * dtype.itemsize)
    return array


def statistics(array: Any) -> Statistics:
    import numpy as np

    if array.dtype.kind == "c":
        array = np.abs(array)
    values = array.astype("float64", copy=False)
    numbers = values[np.isfinite(values)]
    nans = int(np.isnan(values).sum())
    if not len(numbers):
        return Statistics(len(values), float("nan"), float("nan"), float("nan"), nans, len(values) - nans)
    low, high, mean = float(numbers.min()), float(numbers.max()), float(numbers.mean())
    return Statistics(len(values), low, high, mean, nans, len(values) - nans - len(numbers))


# ---- a field ----


def parse_slice(text: str | None, shape: tuple[int, ...]) -> list[int | None]:
    """'0,:,:' as [0, None, None]: None is a whole dimension. Without text the last two are whole, and the others at 0.

    ValueError: not one entry for each dimension, an index beyond the end, or more than two whole dimensions.
    """
    if text is None:
        return [0] * (len(shape) - 2) + [None] * min(2, len(shape))
    entries = [entry.strip() for entry in text.split(",")]
    if len(entries) != len(shape):
        raise ValueError(
            f"the slice {text!r} has {len(entries)} entries, and the buffer {len(shape)} dimensions: say '0,:,:'"
        )
    indices = [None if entry == ":" else int(entry) for entry in entries]
    for index, extent in zip(indices, shape, strict=True):
        if index is not None and not -extent <= index < extent:
            raise ValueError(f"the slice {text!r} has the index {index}, and that dimension has {extent}")
    if indices.count(None) not in (1, 2):
        raise ValueError(f"the slice {text!r} leaves {indices.count(None)} dimensions, and a picture has one or two")
    return [index % extent if index is not None else None for index, extent in zip(indices, shape, strict=True)]


def field(client: Client, name: str, which: str | None) -> Any:
    """A field of two dimensions out of a buffer; a line of one row where the buffer, or the slice, has one dimension.

    Only the part between the first and the last element of it is read.
    """
    import numpy as np

    info = client.stat(name)
    shape = info.shape or (1,)
    if dtypes.split(info.dtype)[1] > 1:
        raise ValueError(f"{name!r} has vectors ({info.dtype}): a picture shows numbers")
    indices = parse_slice(which, shape)
    lead = next(at for at, index in enumerate(indices) if index is None)
    rest = shape[lead:]
    size = int(np.prod(rest, dtype="int64"))
    first = 0
    for index, extent in zip(indices[:lead], shape[:lead], strict=True):
        first = first * extent + (index or 0)
    block = read(client, name, first * size, size)
    if len(block) != size:
        raise ValueError(f"{name!r} changed its shape meanwhile: look again")
    picked = block.reshape(rest)[tuple(slice(None) if index is None else index for index in indices[lead:])]
    picked = np.abs(picked) if picked.dtype.kind == "c" else picked.astype("float64")
    return picked if picked.ndim == 2 else picked[None, :]
