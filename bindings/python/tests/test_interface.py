# SPDX-License-Identifier: Apache-2.0
"""What a reader and his tools see: stubs, docstrings, signatures, types. Skipped by name where a tool is missing."""

import importlib.util
import inspect
import os
import subprocess
import sys
from pathlib import Path

import pytest

import gpubroker

HERE = Path(__file__).resolve().parent.parent  # bindings/python
EXAMPLES = HERE.parent.parent / "examples"
PACKAGE = Path(gpubroker.__file__).resolve().parent
CLASSES = [gpubroker.Client, gpubroker.Lease, gpubroker.Ticket, gpubroker.Info]
# A view of the buffer protocol has these from Python 3.12 on; tuples' own; what the interpreter makes of each
# structure. The last one: from Python 3.13 on, in types such as Info (copy.replace()).
NOT_IN_BOTH = [
    r".*\.__(release_)?buffer__",
    r".*\.__match_args__",
    r".*\.n_(sequence_|unnamed_)?fields",
    r".*\.__replace__",
]


def run(tool: str, *arguments: str, folder: Path = HERE) -> None:
    if not importlib.util.find_spec(tool.partition(".")[0]):
        pytest.skip(f"there is no {tool}")
    command = [sys.executable, "-m", tool, *arguments]
    # The cache goes where nothing of the sources is.
    environment = {**os.environ, "MYPYPATH": str(PACKAGE.parent)}
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stdout + done.stderr


def test_mypy_strict(tmp_path_factory):
    cache = os.environ.get("MYPY_CACHE_DIR", str(tmp_path_factory.mktemp("mypy")))
    run("mypy", "--strict", "--cache-dir", cache, "src", *(str(file) for file in EXAMPLES.glob("*.py")))


def test_the_stubs_are_the_extension(tmp_path):
    (tmp_path / "differences").write_text("\n".join(NOT_IN_BOTH))
    run(
        "mypy.stubtest", "gpubroker._core", "--ignore-unused-allowlist", "--allowlist", str(tmp_path / "differences"),
        "--mypy-config-file", str(HERE / "pyproject.toml"), folder=tmp_path,
    )  # fmt: skip


def test_ruff():
    configuration = ("--no-cache", "--config", "pyproject.toml")  # the examples have none of their own
    run("ruff", "check", *configuration, ".", str(EXAMPLES))
    run("ruff", "format", *configuration, "--check", ".", str(EXAMPLES))


@pytest.mark.parametrize("kind", CLASSES, ids=lambda kind: kind.__name__)
def test_everything_public_is_documented(kind):
    assert inspect.getdoc(kind)
    for name, member in vars(kind).items():
        if not name.startswith("_") and not name.startswith("n_"):
            assert inspect.getdoc(member), name
            if callable(member):
                assert inspect.signature(member), name


def test_pydoc_shows_the_package():
    done = subprocess.run([sys.executable, "-m", "pydoc", "gpubroker"], capture_output=True, text=True, check=True)
    shown = "".join(done.stdout.split()).replace("|", "")  # 3.13 has a line for each argument
    for word in ("acquire(self,/,name,rights='r',*,at=None", "connect(address", "BufferError", "classTicket"):
        assert word in shown


def test_the_version_is_that_of_the_library_and_of_the_package():
    assert f'version = "{gpubroker.__version__}"' in (HERE / "pyproject.toml").read_text()


def test_all_is_what_it_says():
    assert {name for name in vars(gpubroker) if not name.startswith("_") and name[0].isupper()} <= set(
        gpubroker.__all__
    )
    assert all(hasattr(gpubroker, name) for name in gpubroker.__all__)


def test_the_program_of_the_readme(own_broker):
    broker = own_broker("-b", "u=f32[1024]")
    program = EXAMPLES / "acquire.py"
    for value in (1.0, 2.0):
        done = subprocess.run(
            [sys.executable, str(program)],
            capture_output=True,
            text=True,
            env={**os.environ, "GPUBROKER": broker.address},
        )
        assert (done.stdout, done.stderr) == (f"u[0] = {value}\n", "")
