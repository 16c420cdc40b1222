#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How heavy the house is: lines, files that know of something, and the calls of five walks through broker and library.

    figures.py               prints the table, in Markdown
    figures.py --columns     prints the lines that are over 120 columns; exit status 1 if there are any
    figures.py --walk NAME   prints the functions of a walk (acquire, create, unlink, death; client: "acquire client")

The calls are counted in programs that figures.py builds with -finstrument-functions -fno-inline in BUILD_DIR
(build-figures), on the host device, whose own functions are not counted. Each walk is made nine times; its figure is
the median. A change of file is a call whose function stands in another file than that of the call before it, on the
same thread. Nothing here is a test but --columns.
"""

import collections
import functools
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
TOP = HERE.parent.parent.parent
BUILD = pathlib.Path(os.environ.get("BUILD_DIR", TOP / "build-figures")).resolve()
PRODUCT = ("broker", "libbroker", "kernels")
CORE_ROOMS = ("core", "memory", "registry", "request", "session", "users")
CODE = re.compile(r"\.(c|h|cu|cc|py|f90)$")
COLUMNS = 120
ROUNDS = 9
OTHERS = ("create", "unlink", "death")
MUTEX = 1
FLAGS = "-g -O2 -fno-inline -fno-pie -finstrument-functions"


def product(*suffixes):
    """The files of the product with one of these suffixes."""
    paths = (path for room in PRODUCT for path in sorted((TOP / room).rglob("*")))
    return [path for path in paths if path.suffix in suffixes]


def lines(paths):
    """How many lines the files have."""
    return sum(path.read_bytes().count(b"\n") for path in paths)


def count(pattern, paths):
    """How many lines match, and in how many files."""
    found = [sum(1 for line in path.read_text().splitlines() if re.search(pattern, line)) for path in paths]
    return sum(found), sum(1 for number in found if number)


def long_lines():
    """Yields file:line: columns of each line of code that is too long; a tab goes to the next multiple of 8."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=TOP,
        check=True,
        capture_output=True,
        text=True,
    )
    for name in listed.stdout.splitlines():
        if not CODE.search(name) or not (TOP / name).is_file():
            continue
        for number, line in enumerate((TOP / name).read_text().splitlines(), 1):
            width = len(line.expandtabs(8))
            if width > COLUMNS:
                yield f"{name}:{number}: {width} columns"


# ---- calls ----


def build():
    """Builds the programs that are counted. Returns the preloaded library and the client."""
    BUILD.mkdir(parents=True, exist_ok=True)
    if not (BUILD / "Makefile").exists():
        if not (TOP / "configure").exists():
            subprocess.run(["autoreconf", "--install"], cwd=TOP, check=True)
        subprocess.run(
            [TOP / "configure", "-q", "--with-cuda=no", "--disable-shared", f"CFLAGS={FLAGS}", "LDFLAGS=-no-pie"],
            cwd=BUILD,
            check=True,
        )
    make = ["make", "-s", "--no-print-directory", f"-j{os.cpu_count()}"]
    subprocess.run([*make, "broker/broker-run", "libbroker/libgpubroker.la"], cwd=BUILD, check=True)
    compiler = os.environ.get("CC", "cc").split()
    calls, walks = BUILD / "calls.so", BUILD / "walks"
    subprocess.run([*compiler, "-g", "-O2", "-shared", "-fPIC", "-o", calls, HERE / "calls.c", "-ldl"], check=True)
    libraries = subprocess.run(["pkg-config", "--libs", "libsodium"], check=True, capture_output=True, text=True)
    subprocess.run(
        [*compiler, "-g", "-O2", "-no-pie", f"-I{TOP}/libbroker", "-o", walks, HERE / "walks.c"]
        + [BUILD / "libbroker/.libs/libgpubroker.a", *libraries.stdout.split(), "-lpthread", "-ldl", "-lm"],
        check=True,
    )
    return calls, walks


def record(directory):
    """Makes the walks. Returns [(name, begin, end)]."""
    calls, walks = build()
    environment = {**os.environ, "LD_PRELOAD": str(calls), "CALLS_DIRECTORY": directory, "GPUB_HOST_MEMORY": "256M"}
    run = [BUILD / "broker/broker-run", "--quiet", "-n", "1", "--device", "host", "--", walks, str(ROUNDS)]
    made = subprocess.run(run, env=environment, check=True, capture_output=True, text=True)
    # before each line of a worker, broker-run may print which one it is of
    times = (re.search(r"([a-z]+) (\d+) (\d+)$", line) for line in made.stdout.splitlines())
    return [(found[1], int(found[2]), int(found[3])) for found in times if found]


def load(path):
    """The records of one process: [(time, thread, address)]."""
    data = path.read_bytes()
    words = memoryview(data[: len(data) // 16 * 16]).cast("Q")
    found = []
    for time, call in zip(words[::2], words[1::2]):
        if not time:
            break
        found.append((time, call >> 48, call & (1 << 48) - 1))
    return found


def program_of(records):
    """Which program a log is of: the one whose symbols all of its addresses are."""
    addresses = {call for _, _, call in records if call != MUTEX}
    for program in (BUILD / "broker/broker-run", BUILD / "walks"):
        known = symbols(program)
        if addresses and addresses <= known.keys():
            return program
    return None


@functools.cache
def symbols(program):
    """Maps the address of each function of a program to its name."""
    listed = subprocess.run(["nm", program], check=True, capture_output=True, text=True).stdout
    fields = (line.split() for line in listed.splitlines())
    return {int(f[0], 16): f[2] for f in fields if len(f) == 3 and f[1] in "tTwW"}


def places(program, addresses):
    """Maps each address to the file of its function."""
    addresses = sorted(addresses)
    asked = "\n".join(hex(address) for address in addresses)
    told = subprocess.run(["addr2line", "-e", program], input=asked, check=True, capture_output=True, text=True)
    files = (os.path.realpath(line.rsplit(":", 1)[0]) for line in told.stdout.splitlines())
    return {address: os.path.relpath(name, TOP) for address, name in zip(addresses, files)}


class Log:
    """The calls of one process, with names and files; those of the host device and of tests are left out."""

    def __init__(self, records, program):
        files = places(program, {call for _, _, call in records if call != MUTEX})
        names = symbols(program)
        self.calls = []
        for time, thread, call in records:
            if call == MUTEX:
                self.calls.append((time, thread, "pthread_mutex_lock", None))
            elif re.match(r"(broker|libbroker)/", files[call]) and "device/host" not in files[call]:
                self.calls.append((time, thread, names[call], files[call]))

    def between(self, begin, end):
        """What was called in that time."""
        return [call for call in self.calls if begin <= call[0] <= end]


def figures_of(calls):
    """(calls, changes of file, mutex locks)"""
    last, changes, number = {}, 0, 0
    for _, thread, _, file in calls:
        if file is None:
            continue
        number += 1
        changes += thread in last and last[thread] != file
        last[thread] = file
    return number, changes, sum(1 for call in calls if call[3] is None)


def answered(calls):
    """The calls until the last message was sent."""
    sent = [place for place, call in enumerate(calls) if call[2] == "socket_send"]
    return calls[: sent[-1] + 1]


def walk_all():
    """Maps the name of each walk to the calls of each of its rounds, of the broker and of the client."""
    with tempfile.TemporaryDirectory() as directory:
        walks = record(directory)
        logs = collections.defaultdict(list)
        for path in pathlib.Path(directory).iterdir():
            records = load(path)
            program = program_of(records)
            if program:
                logs[program].append(Log(records, program))
    broker = max(logs[BUILD / "broker/broker-run"], key=lambda log: len(log.calls))
    client = max(logs[BUILD / "walks"], key=lambda log: len(log.calls))
    found = collections.defaultdict(list)
    for name, begin, end in walks:
        found[name].append(answered(broker.between(begin, end)) if name == "acquire" else broker.between(begin, end))
        found[name + " client"].append(client.between(begin, end))
    return found


def median(rounds):
    """The medians of calls, changes of file and locks."""
    return [int(statistics.median(numbers)) for numbers in zip(*map(figures_of, rounds))]


def show_walk(name):
    """Prints the functions of the first round but one of a walk."""
    for _, thread, function, file in walk_all()[name][1]:
        print(f"{thread} {file or '-'} {function}")


def table():
    """Prints all figures."""
    found = walk_all()
    acquire, client = median(found["acquire"]), median(found["acquire client"])
    code = product(".c", ".h", ".cu")
    headers = [path for path in code if path.suffix == ".h" and path.parent.name in CORE_ROOMS]
    rows = [
        ("product lines", lines(code)),
        ("first acquire, broker: calls / changes of file", f"{acquire[0]} / {acquire[1]}"),
        ("first acquire, client: calls / changes of file / mutex locks", f"{client[0]} / {client[1]} / {client[2]}"),
        ("create; unlink; death, broker: calls", "; ".join(str(median(found[name])[0]) for name in OTHERS)),
        ("callback members in headers of the core rooms", count(r"^\s.*\(\*[a-z_]+\)\(.*", headers)[0]),
        ("files that name a kind of export", count(r"EXPORT_(VMM|IPC)|export_kind", code)[1]),
        ("lines of code over 120 columns", sum(1 for _ in long_lines())),
    ]
    print("| figure | now |\n| --- | --- |")
    for name, value in rows:
        print(f"| {name} | {value} |")


def main():
    if sys.argv[1:] == ["--columns"]:
        found = list(long_lines())
        print(*found, sep="\n", end="\n" if found else "")
        return 1 if found else 0
    if sys.argv[1:2] == ["--walk"] and len(sys.argv) == 3:
        show_walk(sys.argv[2])
        return 0
    if sys.argv[1:]:
        print(__doc__, file=sys.stderr)
        return 2
    table()
    return 0


if __name__ == "__main__":
    sys.exit(main())
