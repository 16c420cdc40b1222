# SPDX-License-Identifier: Apache-2.0
"""python -m gpubroker load and save: what files become as buffers, and buffers as files; what is damaged is refused."""

import contextlib
import os
import signal
import stat
import struct
import subprocess
import sys
import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import gpubroker
from gpubroker import files, safetensors
from gpubroker.__main__ import main

TYPES = ["bool", "int8", "uint16", "int32", "int64", "float16", "float32", "float64", "complex64", "complex128"]


def array_of(dtype: str, shape: tuple[int, ...]) -> np.ndarray:
    return np.arange(int(np.prod(shape)), dtype="int64").astype(dtype).reshape(shape)


def content(c, name: str) -> bytes:
    with c.acquire(name, "r") as lease:
        taken = bytearray(lease.nbytes)
        lease.read_into(taken)
        return bytes(taken)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("shape", [(), (7,), (0, 5), (3, 4, 5)])
def test_an_array_goes_there_and_back(c, name, tmp_path, dtype, shape):
    array = array_of(dtype, shape)
    np.save(tmp_path / "in.npy", array)
    files.load_file(c, name, str(tmp_path / "in.npy"))
    info = c.stat(name)
    assert (info.dtype, info.shape) == (dtype, shape)
    files.save_file(c, name, str(tmp_path / "out.npy"))
    again = np.load(tmp_path / "out.npy")
    assert again.dtype == array.dtype and again.shape == shape and np.array_equal(again, array)


def test_a_vector_type_adds_a_dimension(c, name, tmp_path):
    c.create(name, 5, "float32x4")
    files.save_file(c, name, str(tmp_path / "out.npy"))
    assert np.load(tmp_path / "out.npy").shape == (5, 4)


def test_tensors_go_there_and_back(c, name, tmp_path):
    tensors = {"weight": array_of("float32", (3, 5)), "bias": array_of("int8", (7,))}
    gpubroker.publish(name, tensors, client=c, metadata={"step": "4"})
    path = tmp_path / "model.safetensors"
    files.save_file(c, name, str(path))
    files.load_file(c, name, str(path), replace=True, seal=True)
    version = gpubroker.load(name, client=c, framework="numpy")
    assert version.metadata == {"step": "4"}
    assert all(np.array_equal(version[key], tensor) for key, tensor in tensors.items())
    assert c.stat(name).sealed


def test_a_header_that_is_not_aligned_is_padded(c, name, tmp_path):
    header, _, size = safetensors.plan((("a", "float32", (2,)),), {})
    text = header[8:].rstrip()
    (tmp_path / "a.safetensors").write_bytes(
        len(text).to_bytes(8, "little") + text + np.array([1, 2], "float32").tobytes()
    )
    files.load_file(c, name, str(tmp_path / "a.safetensors"))
    assert c.stat(name).nbytes == size
    assert list(gpubroker.load(name, client=c, framework="numpy")["a"]) == [1, 2]


@pytest.mark.parametrize("size", [1, 4096, files._BLOCK + 3])
def test_any_other_file_goes_as_it_is(c, name, tmp_path, size):
    data = os.urandom(size)
    (tmp_path / "in").write_bytes(data)
    files.load_file(c, name, str(tmp_path / "in"))
    assert content(c, name) == data
    files.save_file(c, name, str(tmp_path / "out"))
    assert (tmp_path / "out").read_bytes() == data


def test_magic_and_large_letters_are_a_format(c, name, tmp_path):
    array = array_of("float32", (3, 4))
    np.save(tmp_path / "u.npy", array)
    for other in ("u.data", "U.NPY"):
        (tmp_path / other).write_bytes((tmp_path / "u.npy").read_bytes())
        files.load_file(c, name, str(tmp_path / other), replace=True)
        assert (c.stat(name).dtype, c.stat(name).shape) == ("float32", (3, 4))
    files.save_file(c, name, str(tmp_path / "V.NPY"))
    assert (tmp_path / "V.NPY").read_bytes() == (tmp_path / "u.npy").read_bytes()


@pytest.mark.parametrize("what", ["fifo", "folder", "empty"])
def test_what_has_no_bytes_is_refused(c, name, tmp_path, what):
    path = tmp_path / "in"
    {"fifo": lambda: os.mkfifo(path), "folder": path.mkdir, "empty": path.touch}[what]()
    with pytest.raises((ValueError, IsADirectoryError), match=r"regular|empty|directory"):
        files.load_file(c, name, str(path))
    assert not c.list(f"{name}*")


def test_a_buffer_that_may_grow_and_has_one_address(c, name, tmp_path):
    (tmp_path / "in").write_bytes(b"old")
    files.load_file(c, name, str(tmp_path / "in"), reserve=1 << 20)
    c.resize(name, 8)
    assert content(c, name) == b"old" + bytes(5)
    files.load_file(c, name, str(tmp_path / "in"), replace=True, same_address=True, dedicated=True)
    assert c.stat(name).same_address and c.stat(name).dedicated


W = '"w":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]}'
B = '"b":{"dtype":"I64","shape":[5],"data_offsets":[24,64]}'


def tensors(header: str, rest: int) -> bytes:
    return len(header).to_bytes(8, "little") + header.encode() + bytes(range(rest))


@pytest.mark.parametrize(
    ("header", "rest"),
    [
        (f'{{"__metadata__":{{"format":"np"}},{B},{W}}}', 64),
        (
            '{"f":{"dtype":"F4","shape":[4],"data_offsets":[0,2]},'
            '"s":{"dtype":"F6_E2M3","shape":[4],"data_offsets":[2,5]}}',
            5,
        ),
        ("{}", 0),
    ],
)
def test_tensors_are_loaded_and_saved(c, name, tmp_path, header, rest):
    (tmp_path / "a.safetensors").write_bytes(tensors(header, rest))
    files.load_file(c, name, str(tmp_path / "a.safetensors"))
    files.save_file(c, name, str(tmp_path / "b.safetensors"))
    saved = (tmp_path / "b.safetensors").read_bytes()
    size = 8 + int.from_bytes(saved[:8], "little")
    assert size % safetensors.ALIGNMENT == 0
    assert (saved[8:size].rstrip(), saved[size:]) == (header.encode(), bytes(range(rest)))


@pytest.mark.parametrize(
    ("header", "rest", "why"),
    [
        (f"{{{W},{B}}}", 63, "cut off"),
        (f"{{{W}}}", 64, "something else behind"),
        (f"{{{W},{B.replace('24,', '16,')}}}", 64, "does not fill"),
        (f"{{{W},{B.replace('24,64', '16,56')}}}", 56, "no gaps or overlaps"),
        (f"{{{W},{B.replace('24,64', '32,72')}}}", 72, "no gaps or overlaps"),
        (f"{{{W.replace('2,3', '2,4')}}}", 24, "does not fill"),
        (f"{{{W.replace('F32', 'F5')}}}", 24, "are known"),
        (f"{{{W.replace('[2,3]', '[-2,-3]')}}}", 24, "no number"),
        (f"{{{W.replace('[2,3]', '6')}}}", 24, "are known"),
        (f"{{{W},{W}}}", 24, "twice"),
        (f"{{{W}", 24, "no JSON"),
        ('{"__metadata__":{"step":4}}', 0, "no strings"),
        (f"[{{{W}}}]", 24, "no JSON object"),
        ("", 0, "no JSON"),
    ],
)
def test_damaged_tensors_are_refused(c, name, tmp_path, header, rest, why):
    (tmp_path / "bad.safetensors").write_bytes(tensors(header, rest))
    with pytest.raises(ValueError, match=f"bad.safetensors: .*{why}"):
        files.load_file(c, name, str(tmp_path / "bad.safetensors"))
    assert not c.list(f"{name}*")


def test_a_header_that_is_cut_off_is_refused(c, name, tmp_path):
    (tmp_path / "bad.safetensors").write_bytes(tensors(f"{{{W}}}", 24)[:20])
    with pytest.raises(ValueError, match="cut off"):
        files.load_file(c, name, str(tmp_path / "bad.safetensors"))


def test_a_replaced_file_keeps_its_access(c, name, tmp_path):
    c.create(name, 5)
    old, link = tmp_path / "old", tmp_path / "link"
    old.write_text("before")
    old.chmod(0o640)
    link.symlink_to("old")
    files.save_file(c, name, str(link))
    assert link.is_symlink() and old.read_bytes() == bytes(5)
    assert stat.S_IMODE(old.stat().st_mode) == 0o640
    with pytest.raises(ValueError, match="no regular file"):
        files.save_file(c, name, "/dev/null")
    assert sorted(os.listdir(tmp_path)) == ["link", "old"]


def test_access_that_cannot_be_kept_gives_nobody_more(c, name, tmp_path, monkeypatch):
    c.create(name, 5)
    path = tmp_path / "old"
    path.write_text("before")
    path.chmod(0o664)

    def refused(descriptor: int, owner: int, group: int) -> None:
        raise PermissionError

    monkeypatch.setattr(os, "fchown", refused)
    files.save_file(c, name, str(path))
    assert stat.S_IMODE(path.stat().st_mode) & 0o077 == 0o044


def test_a_replaced_file_keeps_its_access_control_list(c, name, tmp_path):
    c.create(name, 5)
    path = tmp_path / "old"
    path.write_text("before")
    # version 2; user:: rw-, user 4000: r--, group:: r--, mask:: r--, other:: ---
    entries = [(1, 6, -1), (2, 4, 4000), (4, 4, -1), (16, 4, -1), (32, 0, -1)]
    acl = struct.pack("<I", 2) + b"".join(struct.pack("<HHi", *entry) for entry in entries)
    try:
        os.setxattr(path, "system.posix_acl_access", acl)
    except OSError as error:
        pytest.skip(f"no access control lists here: {error}")
    files.save_file(c, name, str(path))
    assert os.getxattr(path, "system.posix_acl_access") == acl


def npy(header: str, elements: bytes = b"", version: int = 1) -> bytes:
    text = header.encode("latin-1") + b"\n"
    return b"\x93NUMPY" + bytes([version, 0]) + len(text).to_bytes(2 if version == 1 else 4, "little") + text + elements


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "no .npy file"),
        (b"\x93NUMPY\x09\x00" + bytes(20), "no .npy file"),
        (b"\x93NUMPY\x01\x01" + bytes(20), "no .npy file"),
        (npy("{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }", bytes(7)), "7 bytes of elements"),
        (npy("{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }", bytes(9)), "9 bytes of elements"),
        (npy("{'descr': '>f4', 'fortran_order': False, 'shape': (2,), }", bytes(8)), "big-endian"),
        (npy("{'descr': '<f4', 'fortran_order': True, 'shape': (2, 1), }", bytes(8)), "column-major"),
        (npy("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (2,), }", bytes(8)), "not that of one array"),
        (npy("{'descr': '|O', 'fortran_order': False, 'shape': (2,), }", bytes(8)), "no type"),
        (npy("{'descr': '<f4', 'fortran_order': False, 'shape': (-2,), }", bytes(8)), "not that of one array"),
        (npy("__import__('os').abort()"), "not that of one array"),
        (npy("(" * 5000), "not that of one array"),
        (b"\x93NUMPY\x01\x00\xff\xff" + bytes(20), "too long, or cut"),
    ],
)
def test_a_damaged_array_is_refused(c, name, tmp_path, data, why):
    (tmp_path / "bad.npy").write_bytes(data)
    with pytest.raises(ValueError, match=why):
        files.load_file(c, name, str(tmp_path / "bad.npy"))
    assert not c.list(f"{name}*")


@given(st.binary(max_size=200))
def test_any_bytes_are_an_array_or_are_refused(tmp_path_factory, data):
    path = tmp_path_factory.mktemp("npy") / "any.npy"
    for header in (data, b"\x93NUMPY\x01\x00" + data, npy(data.decode("latin-1"))):
        path.write_bytes(header)
        with open(path, "rb") as file:
            try:
                found = files.content_of(file, str(path))
            except ValueError:
                continue
        assert found.begin + found.rest == len(header)


def test_what_holds_no_tensors_is_not_saved_as_such(c, name, tmp_path):
    c.create(name, 100)
    path = tmp_path / "model.safetensors"
    path.write_text("before")
    with pytest.raises(ValueError, match="holds no"):
        files.save_file(c, name, str(path))
    assert path.read_text() == "before"
    assert os.listdir(tmp_path) == ["model.safetensors"]


def test_a_name_that_is_taken_is_replaced_on_request_alone(c, name, tmp_path):
    (tmp_path / "in").write_bytes(b"new")
    c.create(name, 3)
    with pytest.raises(FileExistsError):
        files.load_file(c, name, str(tmp_path / "in"))
    with pytest.raises(ValueError, match="0200"):
        files.load_file(c, name, str(tmp_path / "in"), mode=0o400)
    files.load_file(c, name, str(tmp_path / "in"), replace=True, mode=0o640)
    assert content(c, name) == b"new" and c.stat(name).mode == 0o640


def test_what_python_2_wrote_is_loaded(c, name, tmp_path):
    (tmp_path / "old.npy").write_bytes(npy("{'descr': '<f4', 'fortran_order': False, 'shape': (1L, 2L), }", bytes(8)))
    files.load_file(c, name, str(tmp_path / "old.npy"))
    assert c.stat(name).shape == (1, 2)


def started(broker, *arguments: str, **streams) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-m", "gpubroker", "--address", broker.address, *arguments], **streams)


def test_standard_input_and_output_are_bytes(broker, c, name, tmp_path):
    np.save(tmp_path / "u.npy", array_of("float64", (300, 400)))
    with open(tmp_path / "u.npy", "rb") as file:
        assert started(broker, "load", name, "-", "--reserve", "2M", "--same-address", stdin=file).wait(60) == 0
    info = c.stat(name)
    assert (info.dtype, info.nbytes, info.reserve) == ("uint8", (tmp_path / "u.npy").stat().st_size, 2 << 20)
    with started(broker, "save", name, "-", stdout=subprocess.PIPE) as process:
        assert process.stdout and process.stdout.read() == (tmp_path / "u.npy").read_bytes()
    assert process.returncode == 0
    with started(broker, "load", name, "-", "--replace", stdin=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert b"standard input: it is no regular file" in process.communicate(timeout=60)[1]


ENDED_BY = [(signal.SIGINT, 130), (signal.SIGTERM, 128 + signal.SIGTERM), (signal.SIGHUP, 128 + signal.SIGHUP)]


@pytest.mark.parametrize(("number", "code"), ENDED_BY)
def test_a_signal_ends_a_load(own_broker, tmp_path, number, code):
    """The load waits for memory that another buffer has."""
    broker = own_broker(GPUB_HOST_MEMORY="16M")
    with open(tmp_path / "large", "wb") as file:
        file.truncate(10 << 20)
    with broker.connect() as c:
        c.create("filler", 10 << 20)
        with started(broker, "load", "u", str(tmp_path / "large"), "--wait", "60") as process:
            while "1 waiting request" not in broker.status():
                assert process.poll() is None
                time.sleep(0.02)
            process.send_signal(number)
            assert process.wait(60) == code
        assert [info.name for info in c.list()] == ["filler"]
    assert "balanced" in broker.end()


@pytest.mark.parametrize(("number", "code"), ENDED_BY)
def test_a_signal_ends_a_save(broker, c, name, tmp_path, monkeypatch, number, code):
    c.create(name, 5)
    path = tmp_path / "old"
    path.write_text("before")

    def interrupted(*_: object) -> None:
        assert len(os.listdir(tmp_path)) == 2
        signal.raise_signal(number)

    before = {one: signal.getsignal(one) for one, _ in ENDED_BY}
    monkeypatch.setattr(files, "_write_whole", interrupted)
    monkeypatch.setattr(sys, "argv", ["gpubroker", "--address", broker.address, "save", name, str(path)])
    try:
        with contextlib.suppress(SystemExit):
            assert main() == code
    finally:
        for one, handler in before.items():
            signal.signal(one, handler)
    assert os.listdir(tmp_path) == ["old"] and path.read_text() == "before"


def test_the_command_line(broker, c, name, tmp_path):
    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "gpubroker", "--address", broker.address, *arguments]
        return subprocess.run(command, capture_output=True, text=True, timeout=60)

    np.save(tmp_path / "a.npy", array_of("float64", (2, 3)))
    done = run("load", name, str(tmp_path / "a.npy"), "--mode", "0644")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert c.stat(name).mode == 0o644
    assert run("save", name, str(tmp_path / "b.npy")).returncode == 0
    assert (tmp_path / "a.npy").read_bytes() == (tmp_path / "b.npy").read_bytes()
    again = run("load", name, str(tmp_path / "a.npy"))
    assert again.returncode and "is taken" in again.stderr and "Traceback" not in again.stderr
    assert "there is no buffer 'no-such'" in run("save", "no-such", str(tmp_path / "c")).stderr
    assert not (tmp_path / "c").exists()
