# SPDX-License-Identifier: Apache-2.0
"""The names of element types, and NumPy's types for them. Owns nothing; imports NumPy when it is called."""

from __future__ import annotations

import functools
import re
from typing import Any

# Those of a buffer, and how the library's texts abbreviate them (gpub_layout_parse(3)).
_NAMES = {
    "bool": "b8", "int8": "i8", "int16": "i16", "int32": "i32", "int64": "i64", "uint8": "u8", "uint16": "u16",
    "uint32": "u32", "uint64": "u64", "float16": "f16", "float32": "f32", "float64": "f64", "bfloat16": "bf16",
    "complex64": "c64",
    "complex128": "c128", "float8_e4m3fn": "f8e4m3", "float8_e5m2": "f8e5m2", "float8_e8m0fnu": "f8e8m0",
    "float4_e2m1fn": "f4e2m1",
}  # fmt: skip
_BRIEF = {brief: name for name, brief in _NAMES.items()}

# NumPy's other names of the same types, on Linux with 64 bits. They come first: "i8" is NumPy's int64, not the
# library's int8.
_NUMPY = {
    name: type_
    for type_, names in {
        "bool": "b1 ? bool_ bool8",
        "int8": "i1 b byte",
        "int16": "i2 h short",
        "int32": "i4 i intc",
        "int64": "i8 l q p n int int_ long longlong intp int0",
        "uint8": "u1 B ubyte",
        "uint16": "u2 H ushort",
        "uint32": "u4 I uintc",
        "uint64": "u8 L Q P N uint ulong ulonglong uintp uint0",
        "float16": "f2 e half",
        "float32": "f4 f single",
        "float64": "f8 d double float float_",
        "complex64": "c8 F csingle singlecomplex",
        "complex128": "c16 D cdouble cfloat complex complex_",
    }.items()
    for name in names.split()
}
_NUMPY_ALONE = {"f16", "c32", "g", "G", "longdouble", "clongdouble", "float128", "complex256"}  # of numbers
_BUILTIN = {bool: "bool", int: "int64", float: "float64", complex: "complex128"}


def _no_type(what: object) -> ValueError:
    return ValueError(
        f"{what!r} is no type of a buffer's elements: 'float32', 'float64', 'float16', 'bfloat16', 'int8' to 'int64', "
        "'uint8' to 'uint64', 'bool', 'complex64' and 'complex128' are, NumPy's other names of them, and vectors, as "
        "'float32x4'"
    )


@functools.lru_cache(maxsize=64)
def _of_text(text: str) -> str:
    order, plain = (text[0], text[1:]) if text[:1] in ("<", ">", "=", "|") else ("", text)
    if plain in _NUMPY:
        if order == ">" and _NUMPY[plain] not in ("bool", "int8", "uint8"):
            raise ValueError(f"{text!r} is big-endian, which no device computes with: convert it")
        return _NUMPY[plain]
    if order or text in _NUMPY_ALONE:
        raise _no_type(text)
    name, lanes = split(text)
    name = _BRIEF.get(name, name)
    if name not in _NAMES:
        raise _no_type(text)
    return f"{name}x{lanes}" if lanes > 1 else name


def name_of(dtype: object) -> str:
    """'float32' of that, of "f4", float, numpy.float32, numpy.dtype("float32"), torch.float32, and so on.

    A str is what NumPy says, and what NumPy does not know is what gpub_layout_parse(3) says. ValueError: no such type.
    """
    if isinstance(dtype, str):
        return _of_text(dtype)
    if isinstance(dtype, type):
        return _BUILTIN.get(dtype) or _framework_name(dtype, dtype.__name__)
    if getattr(dtype, "byteorder", "=") == ">":
        raise ValueError(f"{dtype!r} is big-endian, which no device computes with: convert it")
    name = getattr(dtype, "name", None)
    return _framework_name(dtype, name if isinstance(name, str) else str(dtype))


def _framework_name(dtype: object, name: str) -> str:
    """torch.float32 prints itself as "torch.float32"; numpy.dtype and numpy.float32 have a name."""
    name = name.rpartition(".")[2]
    if name not in _NAMES:
        raise _no_type(dtype)
    return name


def split(name: str) -> tuple[str, int]:
    """'float32x4' as ('float32', 4): the type of a number, and how many of them an element has."""
    match = re.fullmatch(r"((?:complex)?.*?)(?:x(\d+))?", name, re.DOTALL)
    assert match
    return match[1], int(match[2] or 1)


def of_numpy(name: str) -> Any:
    """numpy.dtype of a type of numbers. bfloat16 and the like are in the package ml_dtypes.

    BufferError: that is not installed.
    """
    import numpy as np

    try:
        return np.dtype(name)
    except TypeError:
        try:
            import ml_dtypes
        except ImportError as error:
            raise BufferError(f"NumPy has no {name}: install ml_dtypes, or use torch") from error
        return np.dtype(getattr(ml_dtypes, name))
