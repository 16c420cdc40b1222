# SPDX-License-Identifier: Apache-2.0
"""peer.py - what the scripts here share.

The script's process owns 64 MiB on device 0; a worker process, spawned, is given the memory anew each round, writes
WORDS words of it with one kernel, synchronises, lets go of it and acknowledges. A round is timed in the owner, from
sharing to the acknowledgement. bench/gpu-worker.c starts the scripts, and compares them with a worker that has leases.

Protocol: "ready" when warm; then for each line "N" on stdin, N lines with the microseconds of a round each.
Exit status 77: a package that the script is about is not there.
"""
import multiprocessing
import sys
import time

SIZE = 64 << 20
WORDS = 1024
WARM = 30


def without(package):
    print(f"python3 has no {package}", file=sys.stderr)
    sys.exit(77)


def start(worker):
    """Starts worker(connection) and returns the other end; the worker ends when that is closed."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    context.Process(target=worker, args=(theirs,), daemon=True).start()
    theirs.close()
    return ours


def serve(do_round):
    for _ in range(WARM):
        do_round()
    print("ready", flush=True)
    for line in sys.stdin:
        took = []
        for _ in range(int(line)):
            began = time.perf_counter_ns()
            do_round()
            took.append((time.perf_counter_ns() - began) / 1e3)
        print("\n".join(f"{t:.2f}" for t in took), flush=True)
