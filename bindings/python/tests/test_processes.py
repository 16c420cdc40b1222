# SPDX-License-Identifier: Apache-2.0
"""Forked children, children of multiprocessing, and what is pickled for them; subinterpreters."""

import errno
import multiprocessing
import os
import pickle
import subprocess
import sys
import time
from pathlib import Path

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
def test_a_forked_child_is_refused_and_harms_nobody(c, broker, name, monkeypatch):
    monkeypatch.setenv("GPUBROKER", broker.address)
    c.create(name, 4, "int32")
    u = c.acquire(name, "rw")
    array = u.numpy()
    array[:] = 7

    def work() -> str:
        uses = (
            lambda: c.stat(name),
            u.numpy,
            u.release,
            lambda: c.acquire(name),
            broker.connect,
            lambda: gpubroker.load("x"),
        )
        said = [error_of(use) for use in uses]
        c.close()
        return ", ".join(said)

    assert in_child(work) == ", ".join(["ChildProcessError ECHILD"] * 6)
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
            assert (again.rights, again.shape, again.dtype, again.generation) == (
                u.rights,
                u.shape,
                u.dtype,
                u.generation,
            )
            assert again is not u
            again.numpy()[2] = 5
        assert u.numpy().tolist() == [0, 0, 5, 0]
    gpubroker.sharing.client(c.address).trim()


def test_a_pickle_of_a_lease_is_loaded_as_often_as_somebody_wants(c, name):
    c.create(name, 4, "int32")
    with c.acquire(name, "rw") as u:
        data = pickle.dumps(u)
        for _ in range(5000):  # more than a broker has one-time tickets
            pickle.dumps(u)
    for _ in range(3):
        with pickle.loads(data) as again:
            assert (again.name, again.rights) == (name, "rw")
            assert repr(again) == f"<gpubroker.Lease '{name}' int32[4] rw>"
            assert pickle.loads(pickle.dumps(again)).release() is None
    c.redeem(c.ticket(name)).release()
    c.unlink(name)
    with pytest.raises(FileNotFoundError, match=name):
        pickle.loads(data)
    gpubroker.sharing.client(c.address).trim()


def test_a_pickled_lease_of_another_broker_is_stale(c, own_broker, name, monkeypatch):
    c.create(name, 4)
    other = own_broker("-b", f"{name}=4K")
    with other.connect() as d, d.acquire(name) as u:
        made, (_address, *rest) = u.__reduce__()
        with pytest.raises(OSError, match="of another broker than", check=lambda error: error.errno == errno.ESTALE):
            made(c.address, *rest)
    gpubroker.sharing._clients.pop(other.address, None)


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
    with (
        subprocess.Popen([sys.executable, "-c", program], text=True, **pipes) as child,
        c.acquire(name, "rw") as before,
    ):
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


# ---- how a process ends ----

CHILD = """
import multiprocessing, sys
import gpubroker

def child(address, name, how):
    global kept
    c = gpubroker.connect(address)
    u = c.acquire(name, "rw")
    u.signal(3)
    u.wait(at=3)
    kept = [c, u, u.numpy() if how != "a lease" else None]
    if how == "a queue":
        queue = multiprocessing.get_context(sys.argv[1]).Queue()
        queue.put(1)  # its thread ends before
        kept.append(queue)
    if how == "an exception":
        sys.stderr.close()
        raise RuntimeError

if __name__ == "__main__":
    process = multiprocessing.get_context(sys.argv[1]).Process(target=child, args=sys.argv[2:])
    process.start()
    process.join()
    print(process.exitcode)
"""


@pytest.mark.parametrize("how", ["a lease", "an array", "a queue", "an exception"])
@pytest.mark.parametrize("method", ["spawn", "forkserver", "fork"])
def test_a_child_of_multiprocessing_leaves_in_order(c, broker, name, tmp_path, method, how):
    c.create(name, 4, timeline=True)
    program = tmp_path / "child.py"
    program.write_text(CHILD)
    command = [sys.executable, "-W", "ignore", str(program), method, broker.address, name, how]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.stdout == ("1\n" if how == "an exception" else "0\n"), done.stderr
    with c.acquire(name) as u:
        with pytest.raises(OSError, match="left at 3, before 4"):
            u.wait(at=4)
        assert u.timeline == 3  # that of a writer that left, not of a dead one
    c.drain(name, timeout=60)


def test_a_child_of_multiprocessing_with_a_thread_that_uses_an_array_is_not_hurt(c, broker, name, tmp_path):
    c.create(name, 1 << 20)
    program = tmp_path / "child.py"
    program.write_text("""
import multiprocessing, sys, threading
import gpubroker

def add(array, begun):
    for _ in range(200):
        array += 1
        begun.set()
    print("done", array[0], flush=True)

def child(address, name):
    c = gpubroker.connect(address)
    u = c.acquire(name, "rw")
    begun = threading.Event()
    threading.Thread(target=add, args=(u.numpy(), begun)).start()
    begun.wait()

if __name__ == "__main__":
    process = multiprocessing.get_context("spawn").Process(target=child, args=sys.argv[1:])
    process.start()
    process.join()
    print(process.exitcode)
""")
    command = [sys.executable, "-W", "ignore", str(program), broker.address, name]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.stdout == "done 200\n0\n", done.stderr
    c.drain(name, timeout=60)


# ---- a broker that is started anew ----

ENGINE = """
import sys, threading
import numpy as np
import gpubroker

def publish(value):
    gpubroker.publish("policy", {"a": np.full(4, value)})

def wait():
    try:
        print("got", policy.wait_newer(timeout=60)["a"][0], flush=True)
    except ConnectionResetError:
        print("lost", flush=True)

for value in range(5):
    publish(value)
policy = gpubroker.load("policy")
thread = threading.Thread(target=wait)
thread.start()
print("loaded", flush=True)
input()  # the broker is killed
thread.join()
for call in (lambda: publish(7), lambda: gpubroker.load("policy")):
    try:
        call()
    except (ConnectionError, FileNotFoundError):
        print("no broker", flush=True)
print("kept", policy["a"][0], flush=True)
input()  # there is another one
threads = [threading.Thread(target=publish, args=(5,)), threading.Thread(target=wait)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print("loaded", gpubroker.load("policy")["a"][0], len(gpubroker.sharing._clients), flush=True)
"""


def test_publish_and_load_go_on_with_a_broker_that_is_started_anew(tmp_path):
    program = Path(os.environ.get("GPUBROKER_RUN", "broker-run")).with_name("brokerd")
    address = f"unix:{tmp_path}/socket"

    def start() -> subprocess.Popen:
        options = ["--device", "host", "--socket", f"{tmp_path}/socket", "--instance", f"anew-{os.getpid()}"]
        daemon = subprocess.Popen([str(program), *options], stderr=subprocess.PIPE)
        deadline = time.monotonic() + 60
        while True:
            try:
                gpubroker.connect(address).close()
                return daemon
            except (FileNotFoundError, ConnectionRefusedError):
                assert time.monotonic() < deadline
                time.sleep(0.02)

    daemon = start()
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    environment = {**os.environ, "GPUBROKER": address}
    try:
        with subprocess.Popen([sys.executable, "-c", ENGINE], text=True, env=environment, **pipes) as engine:
            assert engine.stdout.readline() == "loaded\n"
            daemon.kill()
            daemon.communicate()
            print(file=engine.stdin, flush=True)
            assert [engine.stdout.readline() for _ in range(4)] == ["lost\n", "no broker\n", "no broker\n", "kept 4\n"]
            daemon = start()
            said, errors = engine.communicate("\n", timeout=60)
            assert said == "got 5\nloaded 5 1\n", errors
    finally:
        daemon.terminate()
        daemon.communicate(timeout=60)
