# SPDX-License-Identifier: Apache-2.0
"""python -m gpubroker load and save: what files become as buffers, and buffers as files; what is damaged is refused."""

import os
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import gpubroker
from gpubroker import files, safetensors

TYPES = ["bool", "int8", "uint16", "int32", "int64", "float16", "float32", "float64", "complex64", "complex128"]


def array_of(dtype: str, shape: tuple[int, ...]) -> np.ndarray:
    return np.arange(int(np.prod(shape)), dtype="int64").astype(dtype).reshape(shape)


def content(c, name: str) -> bytes:
    with c.acquire(name, "r") as lease:
        taken = bytearray(lease.nbytes)
        lease.read_into(taken)
        return bytes(taken)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("shape", [(), (7,), (3, 4, 5)])
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
    (tmp_path / "a.safetensors").write_bytes(len(text).to_bytes(8, "little") + text + np.array([1, 2], "float32").tobytes())
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


def npy(header: str, elements: bytes = b"", version: int = 1) -> bytes:
    text = header.encode("latin-1") + b"\n"
    return b"\x93NUMPY" + bytes([version, 0]) + len(text).to_bytes(2 if version == 1 else 4, "little") + text + elements


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "no .npy file"),
        (b"\x93NUMPY\x09\x00" + bytes(20), "no .npy file"),
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
