# SPDX-License-Identifier: Apache-2.0
"""Files as buffers and buffers as files: .npy, .safetensors, and the bytes of any other file.

A buffer gets its name when it holds all of the file, and a file gets its name when it holds all of the buffer. The
header of a file is checked before a buffer is created. The path "-" is standard input or output, as plain bytes. Needs
no NumPy. Owns nothing between calls.
"""

from __future__ import annotations

import ast
import contextlib
import errno
import math
import os
import re
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
        plain = re.sub(r"(\d)L\b", r"\1", text.decode("latin-1").strip())  # Python 2 wrote an L behind some numbers
        header = ast.literal_eval(plain)
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
    if len(prefix) < 12 or not prefix.startswith(_NPY_MAGIC) or not 1 <= prefix[6] <= 3 or prefix[7]:
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
    safetensors.check(text, total - 8 - size)
    padded = text.ljust(size + -(8 + size) % safetensors.ALIGNMENT)
    head = len(padded).to_bytes(8, "little") + padded
    rest = total - 8 - size
    return Content("uint8", (len(head) + rest,), head, 8 + size, rest)


def _check_tensors(file: IO[bytes], total: int) -> None:
    """ValueError: whoever wrote the buffer wrote something else."""
    file.seek(0)
    _tensors_content(file, total)


# ---- any file ----


def format_of(path: str) -> str:
    """'.npy' or '.safetensors' by the ending of a path, in letters of either case; '' for any other file."""
    ending = Path(path).suffix.lower()
    return ending if ending in (".npy", ".safetensors") else ""


def _content(file: IO[bytes], path: str) -> Content:
    there = os.fstat(file.fileno())
    if not stat.S_ISREG(there.st_mode):
        raise ValueError("it is no regular file, so its size is not known: write it into one first")
    kind = format_of(path)
    if path != "-" and not kind:
        kind = ".npy" if file.read(len(_NPY_MAGIC)) == _NPY_MAGIC else ""
    file.seek(0)
    if kind == ".npy":
        return _npy_content(file, there.st_size)
    if kind == ".safetensors":
        return _tensors_content(file, there.st_size)
    if not there.st_size:
        raise ValueError("it is empty, and a buffer has at least 1 byte")
    return Content("uint8", (there.st_size,), b"", 0, there.st_size)


def content_of(file: IO[bytes], path: str) -> Content:
    """What an open file holds, by the ending of its path, or NumPy's magic. ValueError with the path: it does not."""
    try:
        return _content(file, path)
    except ValueError as error:
        raise ValueError(f"{'standard input' if path == '-' else path}: {error}") from None


def _open(path: str) -> IO[bytes]:
    if path == "-":
        return open(os.dup(0), "rb", buffering=0)
    # O_NONBLOCK: open() of a FIFO without a writer would not return
    return open(path, "rb", buffering=0, opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK | os.O_NOCTTY))


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
                f"\r\x1b[K{self._name}: {share} % of {self._total:,} bytes, {rate:.1f} GB/s",
                end="",
                file=sys.stderr,
                flush=True,
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
    same_address: bool = False,
    reserve: int = 0,
    device: int | None = None,
    timeout: float | None = 0,
    quiet: bool = True,
) -> None:
    """Makes a buffer of that name with what is in the file.

    A .npy file gives an array of its type and shape, a .safetensors file what gpubroker.load() reads, any other file
    its bytes. path: "-" is standard input, of which the bytes are loaded as they are. replace: a buffer of that name is
    unlinked in the same step. seal: nobody can write it later. timeout: how many seconds to wait for memory, None
    without limit. quiet: no progress on a terminal.

    FileExistsError: the name is taken. ValueError: the file is damaged, or holds what no buffer can; mode refuses its
    owner to write. OSError. If anything fails, nothing is left of the buffer.
    """
    if not mode & 0o200:
        raise ValueError(
            f"mode {mode:04o} refuses its owner to write the buffer: add 0200, and seal it so that nobody writes it "
            "later"
        )
    with _open(path) as file:
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
                    same_address=same_address,
                    reserve=reserve,
                    device=device,
                    timeout=timeout,
                ) as own,
                client.acquire(own, "w") as lease,
            ):
                _fill(lease, file, content, progress)
        finally:
            progress.end()


# ---- to a file ----


_ACL = "system.posix_acl_access"


def _take_list(descriptor: int, path: str) -> bool:
    """Gives a new file the access control list of the old one, or none if that has none. False: it cannot."""
    try:
        try:
            os.setxattr(descriptor, _ACL, os.getxattr(path, _ACL))
        except OSError as error:
            if error.errno not in (errno.ENODATA, errno.ENOTSUP):
                raise
            os.removexattr(descriptor, _ACL)  # the folder may have given the new file one
    except OSError as error:
        return error.errno in (errno.ENODATA, errno.ENOTSUP)
    return True


def _given(descriptor: int, owner: int, group: int) -> bool:
    try:
        os.fchown(descriptor, owner, group)
    except OSError:
        return False
    return True


def _take_access(descriptor: int, path: str) -> None:
    """Gives a new file the owner, group, mode and access control list of the file that it replaces.

    Where one of these cannot be given, the mode is reduced, so that nobody but the new owner may do more than before. A
    file that replaces none has the mode that open() would give it.
    """
    umask = os.umask(0o077)
    os.umask(umask)
    mode = 0o666 & ~umask
    with contextlib.suppress(FileNotFoundError):
        old = os.lstat(path)
        if not stat.S_ISREG(old.st_mode):
            os.fchmod(descriptor, mode)
            return
        mode = old.st_mode & 0o777
        if not _given(descriptor, old.st_uid, -1):
            mode = 0o666 & ~umask & (mode | 0o700)
        has_group = _given(descriptor, -1, old.st_gid)
        if not _take_list(descriptor, path) or not has_group:
            both = mode >> 3 & mode & 0o7
            mode = mode & 0o700 | both << 3 | both
    os.fchmod(descriptor, mode)


@contextlib.contextmanager
def replacing(path: str) -> Iterator[IO[bytes]]:
    """A file that gets that name at the end of the with statement, unless an exception ends it.

    A reader of the file sees the old content or the new one whole. Others may write the folder: nobody knows the name
    of the new file before, and a symbolic link is replaced, not the file behind it.
    """
    descriptor, fresh = tempfile.mkstemp(".tmp", f".{Path(path).name[:200]}.", Path(path).parent)
    try:
        with open(descriptor, "w+b") as file:
            yield file
            file.flush()
            _take_access(descriptor, path)
        os.replace(fresh, path)
    except BaseException:
        Path(fresh).unlink(missing_ok=True)
        raise


def _output(path: str) -> contextlib.AbstractContextManager[IO[bytes]]:
    """As replacing(), but the file behind a symbolic link is replaced. ValueError: what has that name is no file."""
    if path == "-":
        return open(os.dup(1), "wb", buffering=0)
    if not os.path.exists(path):
        return replacing(path)
    if not os.path.isfile(path):
        raise ValueError(f"{path}: it is no regular file: write to - and redirect that")
    return replacing(os.path.realpath(path))


def _write_whole(file: IO[bytes], data: memoryview) -> None:
    """A pipe may take less than is written."""
    while data:
        data = data[file.write(data) :]


def save_file(client: Client, name: str, path: str, *, quiet: bool = True) -> None:
    """Writes the buffer to a file: as a .npy or .safetensors file by the ending of its name, else its bytes.

    path: "-" is standard output, to which the bytes are written as they are.

    FileNotFoundError: there is no such buffer. ValueError: the buffer does not hold what the file's name says. OSError.
    If anything fails, the file is as it was.
    """
    with client.acquire(name, "r") as lease:
        head, size = b"", lease.nbytes
        kind = format_of(path)
        if kind == ".npy":
            head = _npy_head(lease.dtype, lease.shape)
            base, lanes = dtypes.split(lease.dtype)
            size = math.prod(lease.shape) * _itemsize(base) * lanes
        progress = Progress(name, size, quiet)
        block = memoryview(bytearray(min(_BLOCK, max(size, 1))))
        try:
            with _output(path) as file:
                file.write(head)
                for at in range(0, size, len(block)):
                    part = block[: min(len(block), size - at)]
                    lease.read_into(part, at)
                    _write_whole(file, part)
                    progress.add(len(part))
                if path != "-":
                    file.flush()
                    os.fsync(file.fileno())
                if kind == ".safetensors":
                    try:
                        _check_tensors(file, size)
                    except ValueError as error:
                        raise ValueError(f"{name} holds no .safetensors file: {error}") from None
        finally:
            progress.end()
