# SPDX-License-Identifier: Apache-2.0
"""Forked children, children of multiprocessing, and what is pickled for them; subinterpreters."""

import errno
import multiprocessing
import os
import pickle
import subprocess
import sys

import numpy as np
import pytest

import gpubroker


def in_child(work) -> str:
    """What work() returns in a forked child."""
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        try:
            said = work()
        except BaseException as error:  # whatever it is, the parent is to see it
            said = repr(error)
        os.write(writer, said.encode())
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as pipe:
        said = pipe.read()
    os.waitpid(child, 0)
    return said


def error_of(use) -> str:
    try:
        use()
    except OSError as error:
        return f"{type(error).__name__} {errno.errorcode[error.errno]}"
    return "no error"


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_forked_child_is_refused_and_harms_nobody(c, name):
    c.create(name, 4, "int32")
    u = c.acquire(name, "rw")
    array = u.numpy()
    array[:] = 7

    def work() -> str:
        said = [error_of(use) for use in (lambda: c.stat(name), u.numpy, u.release, lambda: c.acquire(name))]
        c.close()
        return ", ".join(said)

    assert in_child(work) == ", ".join(["ChildProcessError ECHILD"] * 4)
    assert array.tolist() == [7] * 4
    del array
    u.release()


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_forked_child_collects_what_it_inherited(c, broker, name):
    c.create(name, 4, "int32")
    other = broker.connect()
    held = [other, other.acquire(name, "rw"), other.acquire(name).numpy]

    def work() -> str:
        held.clear()
        return "collected"

    assert in_child(work) == "collected"
    for lease in (held[1], held[2].__self__):
        lease.release()
    other.close()


def add(queue, address, results) -> None:
    """In a child of multiprocessing: a ticket is redeemed, a lease is there already."""
    with gpubroker.connect(address) as c, c.redeem(queue.get()) as u:
        u.numpy()[:] += 1
    with queue.get() as u:
        results.put((u.rights, u.numpy().tolist()))


@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_queues_of_multiprocessing_carry_tickets_and_leases(c, broker, name, method):
    c.create(name, 4, "int32")
    context = multiprocessing.get_context(method)
    queue, results = context.Queue(), context.Queue()
    child = context.Process(target=add, args=(queue, broker.address, results))
    child.start()
    queue.put(c.ticket(name, "rw"))
    u = c.acquire(name)
    queue.put(u)
    assert results.get(timeout=60) == ("r", [1] * 4)
    child.join()
    u.release()
    assert child.exitcode == 0


def test_a_pickled_lease_is_another_lease_of_the_same_rights(c, name):
    c.create(name, 4, "int32")
    with c.acquire(name, "rw") as u:
        with pickle.loads(pickle.dumps(u)) as again:
            assert (again.rights, again.shape, again.dtype, again.generation) == (u.rights, u.shape, u.dtype, u.generation)
            assert again is not u
            again.numpy()[2] = 5
        assert u.numpy().tolist() == [0, 0, 5, 0]
    gpubroker.sharing.client(c.address).trim()


def test_what_cannot_be_pickled_is_refused(c, name):
    c.create(name, 4, "int32")
    u = c.redeem(c.ticket(name))
    with pytest.raises(TypeError, match="redeemed"):
        pickle.dumps(u)
    u.release()
    u = c.acquire(name)
    u.release()
    with pytest.raises(ValueError, match="released"):
        pickle.dumps(u)


def test_a_pickled_lease_of_an_earlier_buffer_is_stale(c, name):
    c.create(name, 4, "int32")
    with c.acquire(name) as u:
        c.create(f"{name}-new", 4)
        c.rename(f"{name}-new", name, replace=True)
        data = pickle.dumps(u)
        with pytest.raises(OSError, check=lambda error: error.errno == errno.ESTALE):
            pickle.loads(data)
    gpubroker.sharing.client(c.address).trim()


def test_processes_share_one_memory(c, broker, name):
    c.create(name, (4, 1000), "int64")
    program = f"""
import gpubroker, sys
row = int(sys.argv[1])
with gpubroker.connect({broker.address!r}) as c, c.acquire({name!r}, "rw") as u:
    u.numpy()[row] = row + 1
"""
    children = [subprocess.Popen([sys.executable, "-c", program, str(row)]) for row in range(4)]
    assert [child.wait() for child in children] == [0] * 4
    with c.acquire(name) as u:
        assert np.array_equal(u.numpy(), np.repeat(np.arange(1, 5), 1000).reshape(4, 1000))


def test_a_buffer_grows_under_the_array_of_another_process(c, broker, name):
    c.create(name, (2, 1024), "int64", reserve=64 << 20)
    program = f"""
import gpubroker
with gpubroker.connect({broker.address!r}) as c:
    with c.acquire({name!r}, "rw") as before:
        array = before.numpy()
        print("held", flush=True)
        input()
        array[1] = 6
        with c.acquire({name!r}, "rw") as u:
            u.numpy()[-1] = 7
            print(array.shape, u.shape, (u.numpy()[0] == 5).all(), (u.numpy()[1] == 6).all())
        del array
"""
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen([sys.executable, "-c", program], text=True, **pipes) as child, c.acquire(name, "rw") as before:
        assert child.stdout.readline() == "held\n"
        array = before.numpy()
        array[0] = 5
        data = pickle.dumps(before)
        c.resize(name, 4 << 20)
        assert child.communicate("\n", timeout=60)[0] == "(2, 1024) (512, 1024) True True\n"
        assert child.returncode == 0
        assert array.shape == (2, 1024)
        assert (array == [[5], [6]]).all()
        with c.acquire(name) as u:
            assert (u.numpy()[-1] == 7).all()
            assert not u.numpy()[2:-1].any()
        del array
        with pytest.raises(OSError, check=lambda error: error.errno == errno.ESTALE):
            pickle.loads(data)
    gpubroker.sharing.client(c.address).trim()


def test_an_interpreter_that_ends_leaves_nothing_behind(c, broker, name):
    c.create(name, 4)
    program = f"""
import gpubroker
c = gpubroker.connect({broker.address!r})
u = c.acquire({name!r}, "rw")
array = u.numpy()
"""
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", program], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
    c.drain(name, timeout=60)


def test_a_subinterpreter_has_types_of_its_own(broker):
    program = f"""
import gpubroker
try:
    import _interpreters as interpreters
except ImportError:
    import _xxsubinterpreters as interpreters
made = interpreters.create("legacy") if "_interpreters" in str(interpreters) else interpreters.create(isolated=False)
interpreters.run_string(made, '''
import gpubroker
with gpubroker.connect({broker.address!r}) as c:
    print(c.devices)
''')
interpreters.destroy(made)
with gpubroker.connect({broker.address!r}) as c:
    print(c.devices)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    if "ModuleNotFoundError: No module named '_xx" in done.stderr:
        pytest.skip("this Python has no subinterpreters for programs")
    assert (done.stdout, done.stderr) == ("1\n1\n", "")
