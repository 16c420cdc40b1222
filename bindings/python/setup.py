# SPDX-License-Identifier: Apache-2.0
"""The C extension, against the library that pkg-config finds, or against that of a build tree.

GPUBROKER_BUILD names a build tree (the folder of ./bootstrap), GPUBROKER_SOURCE its sources.
GPUBROKER_PROGRAMS names a folder of programs that the wheel is to bring: `make wheel` sets it.
GPUBROKER_INSTALLED says that the build tree's library will be installed where the system looks for libraries.
"""

import os
import pathlib
import shutil
import subprocess

from setuptools import Extension, setup
from setuptools.command.build_py import build_py


def from_tree(build: pathlib.Path, source: pathlib.Path) -> dict[str, list[str]]:
    libraries = str(build / "libbroker" / ".libs")
    run_time = [] if {"GPUBROKER_PROGRAMS", "GPUBROKER_INSTALLED"} & os.environ.keys() else [libraries]
    return {"include_dirs": [str(source / "libbroker")], "library_dirs": [libraries], "runtime_library_dirs": run_time}


def from_pkg_config() -> dict[str, list[str]]:
    def ask(flag: str, prefix: str) -> list[str]:
        command = [os.environ.get("PKG_CONFIG", "pkg-config"), flag, "gpubroker"]
        try:
            words = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()
        except (OSError, subprocess.CalledProcessError) as error:
            raise SystemExit(
                "gpubroker's library is not here: install it, set PKG_CONFIG_PATH to the folder of gpubroker.pc, "
                "or set GPUBROKER_BUILD to a build tree"
            ) from error
        return [word.removeprefix(prefix) for word in words]

    return {"include_dirs": ask("--cflags-only-I", "-I"), "library_dirs": ask("--libs-only-L", "-L")}


def options() -> dict[str, list[str]]:
    if "GPUBROKER_BUILD" not in os.environ:
        return from_pkg_config()
    here = pathlib.Path(__file__).resolve().parent
    source = pathlib.Path(os.environ.get("GPUBROKER_SOURCE", here.parent.parent))
    return from_tree(pathlib.Path(os.environ["GPUBROKER_BUILD"]).resolve(), source.resolve())


class WithPrograms(build_py):
    """Puts the programs beside the modules, where gpubroker.programs starts them."""

    def run(self) -> None:
        super().run()
        if "GPUBROKER_PROGRAMS" in os.environ:
            programs = pathlib.Path(self.build_lib) / "gpubroker" / "bin"
            shutil.copytree(os.environ["GPUBROKER_PROGRAMS"], programs, dirs_exist_ok=True)


core = Extension(
    "gpubroker._core",
    sources=sorted(str(path) for path in pathlib.Path("core").glob("*.c")),
    depends=sorted(str(path) for path in pathlib.Path("core").glob("*.h")),
    libraries=["gpubroker"],
    define_macros=[("Py_LIMITED_API", "0x030B0000")],
    # Python's tables have functions of several types, and strings that are not const.
    extra_compile_args=[
        "-std=gnu11",
        "-fvisibility=hidden",
        "-Wall",
        "-Wextra",
        "-Wno-cast-function-type",
        "-Wno-write-strings",
    ],
    py_limited_api=True,
    **options(),
)
programs = ["broker-run", "broker-status", "broker-ctl", "brokerd"]
entries = [f"{name} = gpubroker.programs:{name.replace('-', '_')}" for name in programs]
setup(
    ext_modules=[core],
    cmdclass={"build_py": WithPrograms},
    options={"bdist_wheel": {"py_limited_api": "cp311"}},
    entry_points={"console_scripts": entries if "GPUBROKER_PROGRAMS" in os.environ else []},
)
