# SPDX-License-Identifier: Apache-2.0
"""The header of a buffer in the format of .safetensors files: which tensor lies where.

A buffer is 8 bytes with the size of the header, the header, which is a JSON object, and the tensors' bytes without
gaps. The header is padded with spaces so that the tensors begin at a multiple of 256 bytes. Whoever wrote the buffer
may have written anything: what is read is checked before it is used. Owns nothing; reads and writes no buffer.
"""

from __future__ import annotations

import functools
import json
import math
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

ALIGNMENT = 256
HEADER_MAX = 100_000_000
DIMS_MAX = 64  # as NumPy

# A version has the tensors of the one before, as a rule: so many headers are kept to be used again. Larger ones are
# not: each version may have another one, and they would stay when it is gone.
_KEPT = 4
_KEPT_BYTES = 1 << 19
_KEPT_TENSORS = 5000

_PREFIX = 8
_METADATA = "__metadata__"

# The names of the format, and those that frameworks have.
_NAMES = {
    "BOOL": ("bool", 8),
    "U8": ("uint8", 8),
    "I8": ("int8", 8),
    "F8_E5M2": ("float8_e5m2", 8),
    "F8_E4M3": ("float8_e4m3fn", 8),
    "F8_E8M0": ("float8_e8m0fnu", 8),
    "I16": ("int16", 16),
    "U16": ("uint16", 16),
    "F16": ("float16", 16),
    "BF16": ("bfloat16", 16),
    "I32": ("int32", 32),
    "U32": ("uint32", 32),
    "F32": ("float32", 32),
    "I64": ("int64", 64),
    "U64": ("uint64", 64),
    "F64": ("float64", 64),
    "C64": ("complex64", 64),
}
_CODES = {name: code for code, (name, _) in _NAMES.items()}

# Bits of an element, also of types whose elements are no whole bytes: no framework has a tensor of them.
_BITS = {code: bits for code, (_, bits) in _NAMES.items()} | {"F4": 4, "F6_E2M3": 6, "F6_E3M2": 6}


class Place(NamedTuple):
    """A tensor's element type, as frameworks call it, its shape, and its bytes in the buffer."""

    dtype: str
    shape: tuple[int, ...]
    begin: int
    end: int


def _itemsize(dtype: str) -> int:
    return _NAMES[_CODES[dtype]][1] // 8


def _known(name: str, dtype: str) -> str:
    if dtype not in _CODES:
        raise TypeError(f"tensor {name!r} is of {dtype}, which the safetensors format does not have: convert it")
    return dtype


class Plan(NamedTuple):
    """A buffer's first bytes, where each tensor goes, and the bytes that it needs."""

    header: bytes
    places: dict[str, Place]
    size: int


def _check_text(texts: Iterable[Any]) -> None:
    if not all(isinstance(text, str) for text in texts):
        raise TypeError("names of tensors, and metadata, are strings: convert them with str()")


def _places(tensors: tuple[tuple[str, str, tuple[int, ...]], ...]) -> dict[str, Place]:
    """Without gaps from 0 on. Large elements come first, so each tensor is aligned to its own."""
    places, at = {}, 0
    for name, dtype, shape in sorted(tensors, key=lambda tensor: (-_itemsize(_known(tensor[0], tensor[1])), tensor[0])):
        end = at + math.prod(shape) * _itemsize(dtype)
        places[name] = Place(dtype, shape, at, end)
        at = end
    return places


def plan(tensors: tuple[tuple[str, str, tuple[int, ...]], ...], metadata: Mapping[str, str]) -> Plan:
    """Of tensors' names, types and shapes.

    What it returns is shared by equal calls, since a version has the tensors of the one before: do not change it.
    TypeError: a type that the format does not have; a name, or a piece of metadata, that is no text. ValueError: a
    tensor has the name of the format's metadata.
    """
    _check_text((*metadata, *metadata.values()))
    make = _plan_kept if len(tensors) <= _KEPT_TENSORS else _plan
    return make(tensors, tuple(metadata.items()))


def _plan(tensors: tuple[tuple[str, str, tuple[int, ...]], ...], metadata: tuple[tuple[str, str], ...]) -> Plan:
    _check_text(tensor[0] for tensor in tensors)
    places = _places(tensors)
    if _METADATA in places:
        raise ValueError(
            f"no tensor can be called {_METADATA}, where the format has its metadata: give it another name"
        )
    header: dict[str, Any] = {_METADATA: dict(metadata)} if metadata else {}
    for name, place in places.items():
        header[name] = {"dtype": _CODES[place.dtype], "shape": place.shape, "data_offsets": (place.begin, place.end)}
    text = json.dumps(header, separators=(",", ":")).encode()
    size = -(_PREFIX + len(text)) % ALIGNMENT + len(text)
    if size > HEADER_MAX:
        raise ValueError(f"{len(tensors)} tensors need a header of {size} bytes, and {HEADER_MAX} are the limit")
    begin = _PREFIX + size
    moved = {name: place._replace(begin=begin + place.begin, end=begin + place.end) for name, place in places.items()}
    return Plan(
        size.to_bytes(_PREFIX, "little") + text.ljust(size),
        moved,
        begin + sum(p.end - p.begin for p in places.values()),
    )


_plan_kept = functools.lru_cache(maxsize=_KEPT)(_plan)


# ---- to read one ----


class Damaged(ValueError):
    """Why a buffer does not hold tensors."""


def header_size(prefix: bytes | bytearray, total: int) -> int:
    """The size of the header, without the 8 bytes before it. ValueError: a buffer of that size does not hold it."""
    size = int.from_bytes(prefix[:_PREFIX], "little")
    if len(prefix) < _PREFIX or size > HEADER_MAX or size > total - _PREFIX:
        raise Damaged("it does not begin with the size of a header, or was cut off")
    return size


def _place(name: str, tensor: Any, begin: int, total: int) -> Place:
    try:
        dtype, bits = _NAMES[tensor["dtype"]]
        shape = tuple(tensor["shape"])
        first, end = tensor["data_offsets"]
    except (KeyError, TypeError, ValueError):
        raise Damaged(f"tensor {name!r} has no dtype, shape and data_offsets that are known") from None
    if len(shape) > DIMS_MAX or not all(type(number) is int and number >= 0 for number in (*shape, first, end)):
        raise Damaged(f"tensor {name!r} has an extent or an offset that is no number, or too many")
    if first > end or end > total - begin or math.prod(shape) * bits != (end - first) * 8:
        raise Damaged(f"tensor {name!r} does not fill bytes {first} to {end} of the buffer")
    if math.prod(max(extent, 1) for extent in shape) * bits >= 1 << 63:
        raise Damaged(f"tensor {name!r} has a shape that is too large")
    return Place(dtype, shape, begin + first, begin + end)


def parse(text: bytes, total: int) -> tuple[dict[str, Place], dict[str, str]]:
    """The tensors, in the order of their places, and the metadata of a header, in a buffer of that many bytes.

    What it returns may be shared by equal calls: do not change it. ValueError: it is damaged.
    """
    return (_parse_kept if len(text) <= _KEPT_BYTES else _parse)(text, total)


def _parse(text: bytes, total: int) -> tuple[dict[str, Place], dict[str, str]]:
    try:
        header = json.loads(text)
    except (ValueError, RecursionError):
        raise Damaged("its header is no JSON") from None
    if not isinstance(header, dict):
        raise Damaged("its header is no JSON object")
    metadata = header.pop(_METADATA, {})
    if not isinstance(metadata, dict) or not all(isinstance(value, str) for value in metadata.values()):
        raise Damaged("its metadata are no strings")
    begin = _PREFIX + len(text)
    places = [(name, _place(name, tensor, begin, total)) for name, tensor in header.items()]
    return dict(sorted(places, key=lambda item: item[1].begin)), metadata


_parse_kept = functools.lru_cache(maxsize=_KEPT)(_parse)


# ---- to check a file ----


def _pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """A JSON object in which no key stands twice."""
    made = dict(pairs)
    if len(made) != len(pairs):
        raise Damaged("its header has a key twice")
    return made


def _range(name: str, tensor: Any) -> tuple[int, int]:
    """Where a tensor begins and ends, if its type and shape fill that."""
    try:
        bits, shape = _BITS[tensor["dtype"]], tensor["shape"]
        begin, end = tensor["data_offsets"]
        numbers = [*shape, begin, end]
    except (KeyError, TypeError, ValueError):
        raise Damaged(f"tensor {name!r} has no dtype, shape and data_offsets that are known") from None
    if not all(type(number) is int and number >= 0 for number in numbers):
        raise Damaged(f"tensor {name!r} has an extent or an offset that is no number")
    if math.prod(shape) * bits != (end - begin) * 8:
        raise Damaged(f"tensor {name!r} does not fill bytes {begin} to {end}")
    return begin, end


def check(text: bytes, rest: int) -> None:
    """Checks the header of a file that has `rest` bytes behind it. Damaged: why it is none of such a file.

    As the format has it: the tensors of the header fill these bytes, without gaps and overlaps, and each key stands
    once.
    """
    try:
        header = json.loads(text, object_pairs_hook=_pairs)
    except Damaged:
        raise
    except (ValueError, RecursionError):
        raise Damaged("its header is no JSON") from None
    if not isinstance(header, dict) or text[:1] != b"{":
        raise Damaged("its header is no JSON object")
    metadata = header.pop(_METADATA, {})
    if not isinstance(metadata, dict) or not all(isinstance(value, str) for value in metadata.values()):
        raise Damaged("its metadata are no strings")
    at = 0
    for begin, end, name in sorted((*_range(name, tensor), name) for name, tensor in header.items()):
        if begin != at:
            raise Damaged(
                f"tensor {name!r} begins at {begin}, and the one before it ends at {at}: there are no gaps or overlaps"
            )
        at = end
    if at != rest:
        raise Damaged(
            f"its tensors end at {at}, and {rest} bytes are there: it was cut off, or has something else behind them"
        )
