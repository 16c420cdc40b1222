# SPDX-License-Identifier: Apache-2.0
"""A lease: what it is, how it waits and signals, and when it ends."""

import array
import copy
import errno
import gc
import operator
import os
import pickle
import signal
import subprocess
import sys
import threading
import warnings

import numpy as np
import pytest

import gpubroker


def refused(number: int) -> pytest.RaisesExc[OSError]:
    return pytest.raises(OSError, check=lambda error: error.errno == number)


# ---- what it is ----


def test_a_lease_tells_what_it_holds(c, name):
    c.create(name, (2, 3), "float64")
    with c.acquire(name, "rw") as u:
        assert (u.name, u.shape, u.dtype, u.nbytes, u.device, u.rights) == (name, (2, 3), "float64", 48, -1, "rw")
        assert u.generation == c.stat(name).generation
        assert u.ptr == u.numpy().ctypes.data
        assert not u.released
        assert repr(u) == f"<gpubroker.Lease '{name}' float64[2,3] rw>"
    assert u.released
    assert "released" in repr(u)
    assert u.shape == (2, 3)


def test_leases_are_made_by_clients_alone():
    for kind in (gpubroker.Lease, gpubroker._core.Array):
        with pytest.raises(TypeError):
            kind()


@pytest.mark.parametrize(
    ("expected", "fits"),
    [
        ({"shape": (2, 3), "dtype": "float32"}, True),
        ({"shape": (2, None), "dtype": np.float32}, True),
        ({"shape": (-1, 3)}, True),
        ({"dtype": "float32"}, True),
        ({"shape": (3, 2), "dtype": "float32"}, False),
        ({"shape": (2, 3), "dtype": "float64"}, False),
        ({"shape": (6,)}, False),
        ({"shape": 2}, False),
        ({"dtype": "int32"}, False),
    ],
)
def test_another_layout_than_expected_is_refused_in_one_message(c, name, expected, fits):
    c.create(name, (2, 3), "float32")
    if fits:
        c.acquire(name, **expected).release()
        return
    with refused(errno.EMEDIUMTYPE) as caught:
        c.acquire(name, **expected)
    assert f"'{name}' is float32[2,3]" in str(caught.value)
    assert "was expected" in str(caught.value)


def test_another_owner_than_expected_is_refused(c, name):
    c.create(name, 1)
    c.acquire(name, owner=os.getuid()).release()
    with pytest.raises(PermissionError):
        c.acquire(name, owner=os.getuid() + 1)


# ---- waiting for a name ----


def test_a_name_that_is_not_there(c, name):
    with pytest.raises(FileNotFoundError, match=name):
        c.acquire(name)
    with pytest.raises(TimeoutError, match=r"within 0\.3 s"):
        c.acquire(name, timeout=0.3)


@pytest.mark.parametrize("timeout", [60, None])
def test_acquire_waits_for_a_name_and_lets_other_threads_run(c, broker, name, timeout):
    shapes = []

    def wait() -> None:
        with broker.connect() as other, other.acquire(name, timeout=timeout) as u:
            shapes.append(u.shape)

    thread = threading.Thread(target=wait)
    thread.start()
    c.create(name, 3)
    thread.join()
    assert shapes == [(3,)]


def test_control_c_ends_a_wait(broker):
    program = f"""
import gpubroker, os, signal, threading
c = gpubroker.connect({broker.address!r})
threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGINT)).start()
try:
    c.acquire("nobody-creates-this", timeout=None)
except KeyboardInterrupt:
    print("interrupted")
"""
    done = subprocess.run(
        [sys.executable, "-c", program.strip()], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout == "interrupted\n"


# ---- timelines ----


def test_a_lease_waits_for_at_and_signals_at_its_end(c, broker, name):
    rounds = 50
    c.create(name, 1, "int64", timeline=True)
    c.create(f"{name}-back", 1, "int64", timeline=True)

    def double() -> None:
        with broker.connect() as other:
            for k in range(rounds):
                with other.acquire(name, at=k + 1) as u, other.acquire(f"{name}-back", "w", signal=k + 1) as v:
                    v.numpy()[0] = 2 * u.numpy()[0]

    thread = threading.Thread(target=double)
    thread.start()
    seen = []
    for k in range(rounds):
        with c.acquire(name, "w", signal=k + 1) as u:
            u.numpy()[0] = k
        with c.acquire(f"{name}-back", at=k + 1) as v:
            seen.append(int(v.numpy()[0]))
    thread.join()
    c.unlink(f"{name}-back")
    assert seen == [2 * k for k in range(rounds)]


def test_a_held_lease_waits_and_signals_at_each_step(c, broker, name):
    rounds = 50
    c.create(name, 1, "int64", timeline=True)
    c.create(f"{name}-back", 1, "int64", timeline=True)

    def double() -> None:
        with broker.connect() as other, other.acquire(name) as u, other.acquire(f"{name}-back", "w") as v:
            given, answer = u.numpy(), v.numpy()
            for k in range(1, rounds + 1):
                u.wait(at=k)
                answer[0] = 2 * given[0]
                v.signal(k)
            del given, answer

    thread = threading.Thread(target=double)
    thread.start()
    with c.acquire(name, "w") as u, c.acquire(f"{name}-back") as v:
        mine, answer = u.numpy(), v.numpy()
        seen = []
        for k in range(1, rounds + 1):
            mine[0] = k
            u.signal(k)
            v.wait(at=k)
            seen.append(int(answer[0]))
        del mine, answer
    thread.join()
    c.unlink(f"{name}-back")
    assert seen == [2 * k for k in range(1, rounds + 1)]


def test_what_cannot_be_signalled_or_waited_for(c, name):
    c.create(name, 1, timeline=True)
    c.create(f"{name}-without", 1)
    with c.acquire(name) as u, c.acquire(f"{name}-without", "rw") as v:
        with pytest.raises(PermissionError):
            u.signal(1)
        for call in (lambda: v.signal(1), lambda: v.wait(at=1)):
            with pytest.raises(OSError, match="timeline"):
                call()
        for value in (-1, 1 << 64):
            with pytest.raises(OverflowError):
                u.wait(at=value)
        for value in ("1", None, 1.5):
            with pytest.raises(TypeError):
                u.signal(value)
    with pytest.raises(ValueError, match="released"):
        u.signal(1)
    with c.acquire(name, "rw") as u:
        u.signal(np.int64(2))
        with pytest.raises(OSError, match="2"):
            u.signal(1)
        u.wait(at=2)
        assert u.timeline == 2
    c.unlink(f"{name}-without")


def test_timeline_is_the_value_that_was_reached(c, name):
    c.create(name, 1, timeline=True)
    with c.acquire(name, "rw", at=0, signal=5) as u:
        assert u.timeline == 0
    with c.acquire(name, at=5) as u:
        assert u.timeline == 5


def test_a_failing_block_without_arrays_does_not_signal(c, name):
    c.create(name, 4, timeline=True)
    with pytest.raises(RuntimeError), c.acquire(name, "rw", signal=1) as u:
        raise RuntimeError("not done")
    assert u.released
    with c.acquire(name) as u:
        assert u.timeline == 0
    c.drain(name, timeout=60)


def test_a_failing_block_does_not_signal(c, name):
    c.create(name, 4, timeline=True)
    with pytest.raises(RuntimeError, match="not done"), c.acquire(name, "rw", signal=1) as u:
        arrays = [u.numpy(), memoryview(u)]
        raise RuntimeError("not done")
    with pytest.raises(ValueError, match="has ended"):
        arrays[0][:] = 1
    assert u.released
    arrays[1][0] = 1  # it outlives the block, and keeps the lease
    assert u.exports == 1
    arrays.clear()
    with c.acquire(name) as u:
        assert u.timeline == 0
    c.drain(name, timeout=60)


@pytest.mark.parametrize(
    ("timeline", "rights", "times", "error"),
    [
        (False, "rw", {"at": 1}, OSError),
        (False, "rw", {"signal": 1}, OSError),
        (True, "r", {"signal": 1}, ValueError),
        (True, "rw", {"at": -1}, OverflowError),
        (True, "rw", {"at": 1.5}, TypeError),
        (True, "rw", {"at": gpubroker.TIMELINE_MAX + 1}, OSError),
    ],
)
def test_times_that_cannot_be_are_refused_when_it_is_acquired(c, name, timeline, rights, times, error):
    c.create(name, 1, timeline=timeline)
    with pytest.raises(error):
        c.acquire(name, rights, **times)
    assert c.stat(name).users <= 1
    c.drain(name, timeout=60)  # and nothing is held


def test_a_writer_that_was_killed_ends_the_wait(c, broker, name):
    c.create(name, 1, timeline=True)
    program = f"""
import gpubroker, sys
c = gpubroker.connect({broker.address!r})
with c.acquire({name!r}, "rw", signal=3): pass
u = c.acquire({name!r}, "rw", at=3, signal=4)
print("held", flush=True)
sys.stdin.read()
"""
    with subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as writer:
        assert writer.stdout
        assert writer.stdout.readline() == "held\n"
        writer.send_signal(signal.SIGKILL)
    with refused(errno.EOWNERDEAD) as caught:
        c.acquire(name, at=4)
    assert f"'{name}'" in str(caught.value)
    assert "died at 3, before 4" in str(caught.value)
    with c.acquire(name, at=3) as u:  # what was reached before is reached
        with refused(errno.EOWNERDEAD):
            print(u.timeline)
        assert u.reached == 3


# ---- its end ----


def summed(c, name) -> int:
    """Returns out of a block, whose array lives."""
    with c.acquire(name) as u:
        array = u.numpy()
        return int(array.sum())


def test_a_block_with_arrays_ends_like_any_other(c, name):
    c.create(name, (2, 4), "int32", timeline=True)
    with c.acquire(name, "rw", signal=1) as u:
        array = u.numpy()
        array[:] = 3
        row, transposed = array[0], array.T
        rows = list(array)
    assert u.released
    assert summed(c, name) == 24
    for ended in (array, row, transposed, *rows):
        with pytest.raises(ValueError, match=f"the lease on '{name}' has ended, by the end of its block"):
            ended.sum()
    assert c.acquire(name, at=1).release() is None
    del transposed  # a view that NumPy made by itself: it keeps the memory
    c.drain(name, timeout=60)  # the variables do not
    assert (u.exports, array is not None, row is not None) == (0, True, True)


USES = {
    "item": lambda a: a[0],
    "slice": lambda a: a[:1],
    "set": lambda a: a.__setitem__(0, 1),
    "add": lambda a: a + 1,
    "add to": lambda a: 1 + a,
    "in place": lambda a: operator.iadd(a, 1),
    "compare": lambda a: a == 1,
    "method": lambda a: a.sum(),
    "attribute": lambda a: a.shape,
    "function": np.mean,
    "ufunc": np.sqrt,
    "out": lambda a: np.add(1, 1, out=a),
    "len": len,
    "bool": bool,
    "float": float,
    "list": list,
    "in": lambda a: 1 in a,
    "format": lambda a: f"{a:.2}",
    "buffer": memoryview,
    "bytes": bytes,
    "copy": copy.copy,
    "pickle": pickle.dumps,
    "dlpack": np.from_dlpack,
}


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("shape", [4, (), (2, 2)])
@pytest.mark.parametrize("rights", ["r", "rw"])
def test_each_use_of_an_array_of_an_ended_lease_is_a_value_error(c, name, use, shape, rights):
    c.create(name, shape, "float32")
    u = c.acquire(name, rights)
    array = u.numpy()
    u.release()
    with pytest.raises(ValueError, match=f"the lease on '{name}' has ended"):
        USES[use](array)
    assert isinstance(array, np.ndarray)
    assert f"lease on '{name}' has ended" in repr(array)  # a debugger and IPython show it
    assert np.asarray(array).dtype == object  # nothing of the buffer is in it


def test_a_copy_is_numpys_own_and_stays(c, name):
    c.create(name, (2, 3), "int32")
    with c.acquire(name, "rw") as u:
        array = u.numpy()
        array[:] = 2
        copies = [
            array.copy(), np.array(array), array + 0, np.copy(array), copy.copy(array), copy.deepcopy(array),
            array[[0, 1]], array.astype("float64"), pickle.loads(pickle.dumps(array)), np.multiply(array, 1),
            array[array > 0], array.flatten(),
            np.where(array > 0, array, 0), np.concatenate([array, array]), -array, array @ array.T, np.sort(array),
            array[0].copy(),
        ]  # fmt: skip
        array += 1
        assert type(array) is gpubroker.arrays.Array
    assert [int(abs(made).max()) for made in copies] == [2] * 15 + [12, 2, 2]
    assert u.exports == 0


def test_views_of_another_class_keep_the_memory(c, name):
    c.create(name, (4, 4), "int32")
    u = c.acquire(name, "rw")
    array = u.numpy()
    views = [
        np.asarray(array), np.asarray(array)[1:], np.asarray(array[2:]), array.view(np.ndarray), memoryview(array),
        memoryview(array[1:]), np.asarray(array.T), np.from_dlpack(array), np.frombuffer(array[0], "int32"),
        np.asarray(u), memoryview(u), np.from_dlpack(u),
    ]  # fmt: skip
    array[:] = 6
    u.release()
    u.release()
    assert u.released
    with pytest.raises(ValueError, match="released"):
        u.numpy()
    assert all(np.asarray(view).min() == np.asarray(view).max() == 6 for view in views)
    with pytest.raises(BufferError, match=f"'{name}' is used by arrays or tensors of 1 released lease in this process"):
        c.drain(name)
    with c.acquire(name, "rw") as v:  # they show the buffer, as it goes on
        v.numpy()[:] = 8
    assert all(np.asarray(view).min() == 8 for view in views)
    assert u.exports > 0
    views.clear()
    assert u.exports == 0
    c.drain(name, timeout=60)


def test_an_array_that_another_thread_works_on_keeps_the_memory(c, name):
    c.create(name, 1 << 20, "float32")
    u = c.acquire(name, "rw")
    array, begun, seen = u.numpy(), threading.Event(), []

    def work() -> None:
        numbers = np.asarray(array)
        begun.set()
        for _ in range(50):
            seen.append(float(np.add(numbers, 1, out=numbers)[-1]))

    thread = threading.Thread(target=work)
    thread.start()
    begun.wait()
    u.release()
    c.trim()
    thread.join()
    assert seen[-1] == 50


def test_a_lease_on_its_own_timeline_signals_once_although_arrays_live(c, name):
    c.create(name, 4, timeline=True)
    u = c.acquire(name, "rw", signal=1)
    view = memoryview(u)
    u.release()
    assert c.acquire(name, at=1).release() is None
    view[0] = 1
    del view
    with c.acquire(name, "rw") as v:
        v.signal(2)
        v.wait(at=2)


def test_a_released_lease_gives_nothing(c, name):
    c.create(name, 4)
    u = c.acquire(name, "rw")
    u.release()
    for use in (u.numpy, lambda: u.ptr, lambda: memoryview(u), u.__dlpack__, lambda: u.write(b"x"), u.__enter__):
        with pytest.raises(ValueError, match="released"):
            use()


def test_an_array_keeps_the_lease_that_nobody_else_has(c, name):
    c.create(name, 4)
    with pytest.warns(ResourceWarning, match=f"a lease on '{name}' was not released"):
        array = c.acquire(name, "rw").numpy()
        gc.collect()
    array[:] = 3
    c.unlink(name)
    with pytest.raises(FileNotFoundError):
        c.stat(name)
    assert array.tolist() == [3] * 4


def test_a_forgotten_lease_warns_and_is_returned(c, name):
    c.create(name, 4)
    u = c.acquire(name, "rw")
    cycle: list[object] = [u]
    cycle.append(cycle)
    with pytest.warns(ResourceWarning, match=f"a lease on '{name}' was not released"):
        del u, cycle
        gc.collect()
    c.trim()
    c.drain(name, timeout=60)


def test_a_released_lease_does_not_warn(c, name):
    c.create(name, 4)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with c.acquire(name):
            pass
        gc.collect()


def test_a_warning_that_is_an_error_is_no_crash(c, name, monkeypatch):
    caught = []
    monkeypatch.setattr(sys, "unraisablehook", lambda what: caught.append(what.exc_type))
    c.create(name, 4)
    with warnings.catch_warnings():
        warnings.simplefilter("error", ResourceWarning)
        c.acquire(name)
        gc.collect()
    assert caught == [ResourceWarning]


def cycle_of(array) -> None:
    cycle = [array]
    cycle.append(cycle)


def test_an_array_that_nobody_can_reach_does_not_live(broker, c, name):
    c.create(name, 4)
    with broker.connect() as other:
        u, v = (other.acquire(name) for _ in range(2))
        cycle_of(u.numpy())
        gc.disable()
        u.release()
        gc.enable()
        cycle_of(v.numpy())
        v._leave()  # its array is left to the client's end
        assert v.exports == 1


def test_a_client_ends_before_its_arrays(broker, c, name):
    c.create(name, 4)
    with pytest.warns(ResourceWarning):
        other = broker.connect()
        array = other.acquire(name, "rw").numpy()
        del other
        gc.collect()
    array[:] = 5
    del array
    c.drain(name, timeout=60)


def test_stream_is_taken_on_the_host_device_too(c, name):
    c.create(name, 4, timeline=True)
    u = c.acquire(name, "rw", at=0, signal=1)
    u.wait(0)
    with pytest.raises(TypeError, match="no CUDA stream"):
        u.release(stream="x")
    u.release()


# ---- bytes ----


@pytest.mark.parametrize(
    ("dtype", "memory", "is_"),
    [
        ("float32", np.ones(1, "float64"), "float64"),
        ("float32", np.ones(1, "int32"), "int32"),
        ("float32", np.ones(1, ">f4"), ">f"),
        ("float32", array.array("d", [1]), "float64"),
        ("int32", np.ones(1, "uint32"), "uint32"),
        ("int64", array.array("L", [1]), "uint64"),
        ("complex64", np.ones(1, "float64"), "float64"),
        ("bfloat16", np.ones(1, "float16"), "float16"),
        ("float32x4", np.ones(1, "float64"), "float64"),
        ("bool", np.ones(1, "int8"), "int8"),
        ("float32", np.ones(1, "f4,f4"), "T{"),
    ],
)
def test_memory_of_another_type_is_refused_with_both_names(c, name, dtype, memory, is_):
    c.create(name, 4, dtype)
    with c.acquire(name, "rw") as u:
        for call in (u.write, u.read_into):
            with pytest.raises(
                TypeError, match=f"'{name}' has elements of {dtype.removesuffix('x4')}, and this memory has {is_}"
            ):
                call(memory)
        u.write(memoryview(memory).cast("B") if is_ != "T{" else memory.tobytes())


@pytest.mark.parametrize(
    ("dtype", "memory"),
    [
        ("float32", np.full(2, 5, "<f4")),
        ("float32", array.array("f", [5, 5])),
        ("int64", np.full(2, 5, "long")),
        ("int64", np.full(2, 5, "longlong")),
        ("int64", array.array("q", [5, 5])),
        ("complex128", np.full(2, 5, "complex128")),
        ("float32x2", np.full(2, 5, "float32")),
        ("bool", np.ones(2, "bool")),
        ("uint8", np.full(2, 5, "float64")),
        ("float16", np.full(2, 5, "float16").tobytes()),
    ],
)
def test_memory_of_the_same_type_and_bytes_are_read_and_written(c, name, dtype, memory):
    c.create(name, 16, dtype)
    with c.acquire(name, "rw") as u:
        u.write(memory)
        back = bytearray(memoryview(memory).nbytes)
        u.read_into(back)
        assert back == bytes(memory)
        if isinstance(memory, np.ndarray):
            again = np.zeros_like(memory)
            u.read_into(again)
            assert np.array_equal(again, memory)


def test_bytes_are_read_and_written(c, name):
    c.create(name, (4, 4), "uint8")
    with c.acquire(name, "rw") as u:
        u.write(bytes(range(16)))
        u.write(np.array([255, 254], "uint8"), offset=14)
        some = bytearray(4)
        u.read_into(some, offset=12)
        assert list(some) == [12, 13, 255, 254]
        assert u.numpy()[0].tolist() == [0, 1, 2, 3]
        for call in (
            lambda: u.write(b"x", 1 << 64),
            lambda: u.read_into(bytearray(1), (1 << 64) + 1),
            lambda: u.write(b"x", -1),
        ):
            with pytest.raises(OverflowError):  # not taken modulo 2^64
                call()
        for call in (
            lambda: u.write(b"xx", offset=15),
            lambda: u.read_into(bytearray(17)),
            lambda: u.write(b"", 1 << 63),
        ):
            with pytest.raises(ValueError, match="beyond the end"):
                call()
        with pytest.raises((TypeError, BufferError)):
            u.read_into(b"read-only")
    with c.acquire(name) as u, pytest.raises(BufferError, match="leased for reading"):
        u.write(b"x")
