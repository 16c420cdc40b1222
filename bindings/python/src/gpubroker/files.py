# SPDX-License-Identifier: Apache-2.0
"""Files as buffers and buffers as files: .npy, .safetensors, and the bytes of any other file.

A buffer gets its name when it holds all of the file, and a file gets its name when it holds all of the buffer. What a file
says of itself is checked before anything is made of it. Needs no NumPy. Owns nothing between calls.
"""

from __future__ import annotations

import ast
import contextlib
import math
import os
import stat
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO, NamedTuple

from . import dtypes, safetensors
from ._core import Client, Lease
from .fresh import fresh_buffer

_BLOCK = 32 << 20  # bytes that are read and copied at a time

# ---- .npy ----

_NPY_MAGIC = b"\x93NUMPY"
_NPY_HEADER_MAX = 65535
_NPY_TYPES = {
    "bool": "|b1", "int8": "|i1", "uint8": "|u1", "int16": "<i2", "uint16": "<u2", "int32": "<i4", "uint32": "<u4",
    "int64": "<i8", "uint64": "<u8", "float16": "<f2", "float32": "<f4", "float64": "<f8", "complex64": "<c8",
    "complex128": "<c16",
}  # fmt: skip


def _itemsize(name: str) -> int:
    return int(_NPY_TYPES[name][2:])


class Content(NamedTuple):
    """What of a file goes into a buffer: head, and so many bytes of the file from begin on."""

    dtype: str
    shape: tuple[int, ...]
    head: bytes
    begin: int
    rest: int


def _npy_header(text: bytes) -> tuple[str, tuple[int, ...]]:
    """Somebody else's text: a dictionary of literals. ValueError: it is none, or says what no buffer can hold."""
    try:
        header = ast.literal_eval(text.decode("latin-1").strip())
        descr, fortran, shape = header["descr"], header["fortran_order"], header["shape"]
        if len(header) != 3 or not isinstance(descr, str) or not isinstance(fortran, bool):
            raise ValueError
        if not isinstance(shape, tuple) or not all(type(extent) is int and extent >= 0 for extent in shape):
            raise ValueError
    except (ValueError, SyntaxError, TypeError, KeyError, RecursionError, MemoryError):
        raise ValueError("its header is not that of one array of numbers") from None
    if fortran and len(shape) > 1:
        raise ValueError("the array is in column-major (Fortran) order: save numpy.ascontiguousarray() of it")
    name = dtypes.name_of(descr)
    if name not in _NPY_TYPES:
        raise ValueError(f"no buffer has elements of type {descr!r}")
    return name, shape


def _npy_content(file: IO[bytes], total: int) -> Content:
    prefix = file.read(12)
    if len(prefix) < 12 or not prefix.startswith(_NPY_MAGIC) or not 1 <= prefix[6] <= 3:
        raise ValueError("it is no .npy file")
    begin = 10 if prefix[6] == 1 else 12
    size = int.from_bytes(prefix[8:begin], "little")
    if size > _NPY_HEADER_MAX or begin + size > total:
        raise ValueError("its header is too long, or cut")
    file.seek(begin)
    dtype, shape = _npy_header(file.read(size))
    need, have = math.prod(shape) * _itemsize(dtype), total - begin - size
    if need != have:
        raise ValueError(f"it has {have} bytes of elements, and its header says {need}")
    return Content(dtype, shape, b"", begin + size, have)


def _npy_head(dtype: str, shape: tuple[int, ...]) -> bytes:
    """What stands before the elements of such an array. A vector type adds a dimension."""
    name, lanes = dtypes.split(dtype)
    if name not in _NPY_TYPES:
        raise ValueError(f"a .npy file has no elements of type {dtype}: save it as another file")
    shape = (*shape, lanes) if lanes > 1 else shape
    text = f"{{'descr': '{_NPY_TYPES[name]}', 'fortran_order': False, 'shape': {shape!r}, }}"
    text += " " * (-(10 + len(text) + 1) % 64) + "\n"
    return _NPY_MAGIC + b"\x01\x00" + len(text).to_bytes(2, "little") + text.encode()


# ---- .safetensors ----


def _tensors_content(file: IO[bytes], total: int) -> Content:
    """The header is padded so that the tensors begin at a multiple of 256 bytes, as publish() has it."""
    prefix = file.read(8)
    size = safetensors.header_size(prefix, total)
    text = file.read(size)
    safetensors.parse(text, total)
    padded = text.ljust(size + -(8 + size) % safetensors.ALIGNMENT)
    head = len(padded).to_bytes(8, "little") + padded
    rest = total - 8 - size
    return Content("uint8", (len(head) + rest,), head, 8 + size, rest)


def _check_tensors(file: IO[bytes], total: int) -> None:
    """ValueError: whoever wrote the buffer wrote something else."""
    file.seek(0)
    _tensors_content(file, total)


# ---- any file ----


def content_of(file: IO[bytes], path: str) -> Content:
    """What an open file holds, by the ending of its path. ValueError with the path: it does not."""
    total = os.fstat(file.fileno()).st_size
    try:
        if path.endswith(".npy"):
            return _npy_content(file, total)
        if path.endswith(".safetensors"):
            return _tensors_content(file, total)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None
    return Content("uint8", (total,), b"", 0, total)


class Progress:
    """How far a transfer is, as one line on standard error where that is a terminal; else nothing."""

    def __init__(self, name: str, total: int, quiet: bool = False) -> None:
        self._name, self._total, self._done = name, total, 0
        self._shown = not quiet and sys.stderr.isatty()
        self._began = self._last = time.monotonic()

    def add(self, count: int) -> None:
        self._done += count
        now = time.monotonic()
        if self._shown and (now - self._last > 0.2 or self._done >= self._total):
            self._last = now
            rate = self._done / max(now - self._began, 1e-9) / 1e9
            share = 100 * self._done // max(self._total, 1)
            print(
                f"\r\x1b[K{self._name}: {share} % of {self._total:,} bytes, {rate:.1f} GB/s", end="", file=sys.stderr, flush=True
            )

    def end(self) -> None:
        if self._shown:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)


def _fill(lease: Lease, file: IO[bytes], content: Content, progress: Progress) -> None:
    at = 0
    if content.head:
        lease.write(content.head)
        at = len(content.head)
    file.seek(content.begin)
    block = memoryview(bytearray(min(_BLOCK, max(content.rest, 1))))
    left = content.rest
    while left:
        part = block[: min(left, len(block))]
        got = file.readinto(part)  # type: ignore[attr-defined]
        if not got:
            raise ValueError("the file has become shorter")
        lease.write(part[:got], at)
        at, left = at + got, left - got
        progress.add(got)


def load_file(
    client: Client,
    name: str,
    path: str,
    *,
    mode: int = 0o600,
    replace: bool = False,
    seal: bool = False,
    dedicated: bool = False,
    device: int | None = None,
    timeout: float | None = 0,
    quiet: bool = True,
) -> None:
    """Makes a buffer of that name with what is in the file.

    A .npy file gives an array of its type and shape, a .safetensors file what gpubroker.load() reads, any other file its
    bytes. replace: a buffer of that name is unlinked in the same step. seal: nobody can write it later. timeout: how many
    seconds to wait for memory, None without limit. quiet: no progress on a terminal.

    FileExistsError: the name is taken. ValueError: the file is damaged, or holds what no buffer can; mode refuses its owner
    to write. OSError. If anything fails, nothing is left of the buffer.
    """
    if not mode & 0o200:
        raise ValueError(
            f"mode {mode:04o} refuses its owner to write the buffer: add 0200, and seal it so that nobody writes it later"
        )
    with open(path, "rb", buffering=0) as file:
        content = content_of(file, path)
        if not replace:
            with contextlib.suppress(FileNotFoundError):
                client.stat(name)
                raise FileExistsError(17, f"the name '{name}' is taken: unlink it first, or replace it (--replace)")
        progress = Progress(name, content.rest, quiet)
        try:
            with (
                fresh_buffer(
                    client,
                    name,
                    "loading",
                    seal=seal,
                    replace=replace,
                    shape=content.shape,
                    dtype=content.dtype,
                    mode=mode,
                    dedicated=dedicated,
                    device=device,
                    timeout=timeout,
                ) as own,
                client.acquire(own, "w") as lease,
            ):
                _fill(lease, file, content, progress)
        finally:
            progress.end()


# ---- to a file ----


def _take_access(descriptor: int, path: str) -> None:
    """The group and the mode of the file that is replaced; of a new one, those that open() would give it."""
    umask = os.umask(0o077)
    os.umask(umask)
    mode = 0o666 & ~umask
    with contextlib.suppress(FileNotFoundError):
        there = os.lstat(path)
        if stat.S_ISREG(there.st_mode):
            mode = stat.S_IMODE(there.st_mode)
            with contextlib.suppress(PermissionError):
                os.fchown(descriptor, -1, there.st_gid)
    os.fchmod(descriptor, mode)


@contextlib.contextmanager
def replacing(path: str) -> Iterator[IO[bytes]]:
    """A file that gets that name at the end of the with statement, unless an exception ends it.

    A reader of the file sees the old content or the new one whole. Others may write the folder: nobody knows the name of
    the new file before.
    """
    descriptor, fresh = tempfile.mkstemp(".tmp", f".{Path(path).name}.", Path(path).parent)
    try:
        with open(descriptor, "w+b") as file:
            yield file
            file.flush()
            _take_access(descriptor, path)
        os.replace(fresh, path)
    except BaseException:
        Path(fresh).unlink(missing_ok=True)
        raise


def save_file(client: Client, name: str, path: str, *, quiet: bool = True) -> None:
    """Writes the buffer to a file: as a .npy or .safetensors file by the ending of its name, else its bytes.

    FileNotFoundError: there is no such buffer. ValueError: the buffer does not hold what the file's name says. OSError. If
    anything fails, the file is as it was.
    """
    with client.acquire(name, "r") as lease:
        head, size = b"", lease.nbytes
        if path.endswith(".npy"):
            head = _npy_head(lease.dtype, lease.shape)
            base, lanes = dtypes.split(lease.dtype)
            size = math.prod(lease.shape) * _itemsize(base) * lanes
        progress = Progress(name, size, quiet)
        block = memoryview(bytearray(min(_BLOCK, max(size, 1))))
        try:
            with replacing(path) as file:
                file.write(head)
                for at in range(0, size, len(block)):
                    part = block[: min(len(block), size - at)]
                    lease.read_into(part, at)
                    file.write(part)
                    progress.add(len(part))
                if path.endswith(".safetensors"):
                    file.flush()
                    try:
                        _check_tensors(file, size)
                    except ValueError as error:
                        raise ValueError(f"{name} holds no .safetensors file: {error}") from None
        finally:
            progress.end()
