# SPDX-License-Identifier: Apache-2.0
"""python -m gpubroker: what it lists, what it says of a buffer's elements, and its pictures."""

import os
import stat
import struct
import subprocess
import sys
import zlib
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpubroker import dtypes, fields, picture


@pytest.fixture
def look(broker):
    """Runs it, and returns what it prints; of a failure what it says."""
    programs = str(Path(os.environ.get("GPUBROKER_RUN", "broker-run")).parent.resolve())

    def run(*arguments: str, **environment: str) -> str:
        done = subprocess.run(
            [sys.executable, "-m", "gpubroker", "--address", broker.address, *arguments],
            capture_output=True,
            text=True,
            env={**os.environ, "PATH": f"{programs}:{os.environ['PATH']}", **environment},
            timeout=60,
        )
        return done.stdout if not done.returncode else f"{done.returncode}: {done.stderr}"

    return run


def fill(c, name, array) -> None:
    c.create(name, array.shape, array.dtype)
    with c.acquire(name, "w") as u:
        u.numpy()[...] = array


def test_ls(c, name, look):
    c.create(name, (3, 4), "float32", timeline=True)
    lines = look("ls").splitlines()
    assert lines[0].split() == ["NAME", "TYPE", "BYTES", "DEV", "GENERATION", "FLAGS"]
    assert [name, "float32[3,4]", "48", "timeline"] in [[*line.split()[:3], line.split()[5]] for line in lines]
    c.unlink(name)
    c.create(name, 4, dedicated=True, reserve=8)
    assert look("ls", name).split()[-1] == "dedicated,growable"
    assert name in look("ls", name)
    assert name not in look("ls", "another*")


def test_show(c, name, look):
    field = np.array([[1, 2, np.nan], [4, np.inf, -3]], "float64")
    fill(c, name, field)
    said = look("show", name)
    assert "float64[2,3], 48 bytes" in said
    assert "6 elements: minimum -3, maximum 4, mean 1, 1 NaN, 1 infinite" in said
    c.unlink(name)
    fill(c, name, np.array([True, False, True, True]))
    assert "4 elements: minimum 0, maximum 1, mean 0.75, 0 NaN" in look("show", name)
    c.unlink(name)
    fill(c, name, np.array([3 + 4j], "complex64"))
    assert "minimum 5, maximum 5" in look("show", name)


def test_what_is_not_there_is_said(look):
    for command in ("show", "view"):
        assert look(command, "none").startswith("1: gpubroker: there is no buffer 'none'")


def test_a_picture_in_a_terminal_without_colours(c, name, look):
    fill(c, name, np.linspace(0, 9, 40, dtype="float32").reshape(4, 10))
    lines = look("view", name, COLUMNS="10", LINES="20").splitlines()
    assert lines[0][0] == " "
    assert lines[-3][-1] == "@"
    assert f"{name} 4 x 10" in lines[-2]
    assert lines[-1] == "minimum 0, maximum 9, mean 4.5, 0 NaN"


def pixels(content: bytes) -> np.ndarray:
    """Of a PNG as picture.png() makes them."""
    assert content.startswith(b"\x89PNG\r\n\x1a\n")
    at, compressed, size = 8, b"", (0, 0)
    while at < len(content):
        length, kind = struct.unpack(">I4s", content[at : at + 8])
        body = content[at + 8 : at + 8 + length]
        assert struct.unpack(">I", content[at + 8 + length : at + 12 + length])[0] == zlib.crc32(kind + body)
        if kind == b"IHDR":
            size = struct.unpack(">II", body[:8])
        elif kind == b"IDAT":
            compressed += body
        at += 12 + length
    lines = np.frombuffer(zlib.decompress(compressed), "uint8").reshape(size[1], 1 + 3 * size[0])
    assert not lines[:, 0].any()
    return lines[:, 1:].reshape(size[1], size[0], 3)


def test_a_png_with_its_scale(c, name, look, tmp_path):
    field = np.tile(np.arange(100, dtype="float32"), (60, 1))
    field[10, 20] = np.nan
    fill(c, name, field)
    file = tmp_path / "u.png"
    assert "60 x 100, minimum 0, maximum 99" in look("view", name, "--png", str(file))
    seen = pixels(file.read_bytes())
    assert seen.shape[0] == 60
    assert seen.shape[1] > 132
    assert seen[0, 0].tolist() == [68, 1, 84]
    assert seen[0, 99].tolist() == [253, 231, 37]
    assert seen[10, 20].tolist() == [128, 128, 128]
    assert seen[0, 116].tolist() == [253, 231, 37]  # the scale: high at the top
    assert seen[59, 116].tolist() == [68, 1, 84]
    assert (seen[:, 134:] == 0).any()  # its numbers
    assert os.listdir(tmp_path) == ["u.png"]
    look("view", name, "--png", str(file), "--range", "0", "198")
    assert pixels(file.read_bytes())[0, 99].tolist() != [253, 231, 37]


def png_of(broker, name, file, shell: str = "true", umask: int = 0o022) -> subprocess.CompletedProcess:
    """Has a shell do something in the folder, in the process that becomes the viewer then."""
    command = f'{shell}; exec "$0" -m gpubroker --address {broker.address} view {name} --png "$1"'
    return subprocess.run(
        ["sh", "-c", command, sys.executable, str(file)],
        capture_output=True,
        text=True,
        cwd=file.parent,
        umask=umask,
        timeout=60,
    )


def test_a_link_at_a_temporary_name_is_not_followed(c, broker, name, tmp_path):
    """Somebody else may write the folder, and knows the viewer's pid."""
    fill(c, name, np.zeros((2, 2), "float32"))
    file, victim = tmp_path / "u.png", tmp_path / "victim"
    victim.write_text("a thesis")
    names = ("u.png.$$.tmp", ".u.png.$$.tmp", "u.png.tmp", ".u.png.tmp")
    done = png_of(broker, name, file, "; ".join(f'ln -s victim "{link}"' for link in names))
    assert done.returncode == 0, done.stderr
    assert victim.read_text() == "a thesis"
    assert not file.is_symlink()
    assert pixels(file.read_bytes()).shape[0] > 0
    assert len(os.listdir(tmp_path)) == 2 + len(names)


def test_a_picture_keeps_the_mode_of_the_file_that_it_replaces(c, broker, name, tmp_path):
    fill(c, name, np.zeros((2, 2), "float32"))
    file = tmp_path / "u.png"
    for umask, before, after in ((0o027, None, 0o640), (0o022, 0o600, 0o600), (0o077, 0o664, 0o664)):
        if before is not None:
            file.chmod(before)
        assert png_of(broker, name, file, umask=umask).returncode == 0
        assert stat.S_IMODE(file.stat().st_mode) == after
    file.unlink()
    (tmp_path / "victim").write_text("a thesis")
    file.symlink_to("victim")
    assert png_of(broker, name, file).returncode == 0
    assert (tmp_path / "victim").read_text() == "a thesis"
    assert sorted(os.listdir(tmp_path)) == ["u.png", "victim"]


def test_a_slice_of_more_dimensions(c, name, look):
    fill(c, name, np.arange(24, dtype="int32").reshape(2, 3, 4))
    assert "minimum 0, maximum 11" in look("view", name)
    assert "minimum 12, maximum 23" in look("view", name, "--slice", "1,:,:")
    assert "minimum 8, maximum 23" in look("view", name, "--slice", ":,-1,:")
    assert "has the index 2" in look("view", name, "--slice", "2,:,:")
    assert "2 entries, and the buffer 3" in look("view", name, "--slice", "1,:")
    assert "leaves 3 dimensions" in look("view", name, "--slice", ":,:,:")


@given(st.data(), st.lists(st.integers(1, 4), min_size=1, max_size=4).map(tuple))
def test_a_field_is_what_numpy_picks(broker, data, shape):
    values = np.arange(np.prod(shape), dtype="float32").reshape(shape)
    whole = data.draw(st.sets(st.integers(0, len(shape) - 1), min_size=1, max_size=2))
    picks = [
        ":" if at in whole else str(data.draw(st.integers(-extent, extent - 1))) for at, extent in enumerate(shape)
    ]
    expected = values[tuple(slice(None) if pick == ":" else int(pick) for pick in picks)]
    with broker.connect() as c:
        fill(c, "field", values)
        seen = fields.field(c, "field", ",".join(picks))
        c.unlink("field")
    assert np.array_equal(seen, expected if expected.ndim == 2 else expected[None, :])


def test_again_and_again(c, name, broker):
    fill(c, name, np.zeros((2, 2), "float32"))
    command = [sys.executable, "-m", "gpubroker", "--address", broker.address, "view", name, "--every", "20ms"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as viewer:
        assert viewer.stdout
        while "maximum 0," not in viewer.stdout.readline():
            pass
        with c.acquire(name, "w") as u:  # the viewer keeps nobody from writing
            u.numpy()[...] = 7
        while "maximum 7," not in viewer.stdout.readline():
            pass
        viewer.terminate()


def test_colours_of_a_terminal():
    field = np.array([[0.0, 1.0], [1.0, np.nan]])
    assert picture.text(field, 0, 1, 24) == [
        "\x1b[38;2;68;1;84;48;2;253;231;37m▀\x1b[38;2;253;231;37;48;2;128;128;128m▀\x1b[0m",
    ]
    assert picture.text(field, 0, 1, 8)[0].startswith("\x1b[38;5;54;48;5;227m▀")
    assert picture.text(field, 0, 1, 0) == [" @", "@?"]
    assert picture.sample(np.arange(100).reshape(10, 10), 2, 5).tolist() == [[21, 23, 25, 27, 29], [71, 73, 75, 77, 79]]


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("float32", ("float32", 1)),
        ("float32x4", ("float32", 4)),
        ("complex64", ("complex64", 1)),
        ("complex64x2", ("complex64", 2)),
        ("boolx8", ("bool", 8)),
    ],
)
def test_the_name_of_a_vector_type(name, parts):
    assert dtypes.split(name) == parts
