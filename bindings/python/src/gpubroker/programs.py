# SPDX-License-Identifier: Apache-2.0
"""The programs that the wheel brings: each command replaces itself by the program in bin/."""

import os
import pathlib
import sys
from typing import NoReturn


def _start(name: str) -> NoReturn:
    program = pathlib.Path(__file__).parent / "bin" / name
    try:
        os.execv(program, [name, *sys.argv[1:]])
    except OSError as error:
        sys.exit(
            f"{name}: cannot start {program}: {error.strerror}. Install the gpubroker wheel for this machine again."
        )


def broker_run() -> NoReturn:
    _start("broker-run")


def broker_status() -> NoReturn:
    _start("broker-status")


def broker_ctl() -> NoReturn:
    _start("broker-ctl")


def brokerd() -> NoReturn:
    _start("brokerd")
