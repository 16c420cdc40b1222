# SPDX-License-Identifier: Apache-2.0
"""A plugin: pytest -p tap --tap FILE writes a point of TAP for each test, and the plan."""

from __future__ import annotations

from typing import TextIO

import pytest


class Points:
    def __init__(self, file: TextIO) -> None:
        self.file = file
        self.count = 0

    def point(self, report: pytest.TestReport, ending: str = "") -> None:
        self.count += 1
        name = report.nodeid.removeprefix("tests/").replace("#", " ")
        print("not ok" if report.failed else "ok", self.count, "-", name + ending, file=self.file, flush=True)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """The call is the point; setup and teardown are one where the call was skipped, or where they fail."""
        if report.skipped:
            reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr
            self.point(report, f" # SKIP {reason}")
        elif report.when == "call":
            self.point(report)
        elif report.failed:
            self.point(report, f": {report.when}")

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self.count += 1
            print("not ok", self.count, "-", report.nodeid, "cannot be imported", file=self.file)

    def pytest_unconfigure(self) -> None:
        print(f"1..{self.count}", file=self.file)
        self.file.close()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--tap", metavar="FILE", help="write points of TAP to FILE")


def pytest_configure(config: pytest.Config) -> None:
    path = config.getoption("--tap")
    if path:
        config.pluginmanager.register(Points(open(path, "w")))  # noqa: SIM115 - until pytest_unconfigure
