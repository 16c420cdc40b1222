# SPDX-License-Identifier: Apache-2.0
"""A connection and what it manages: names, modes, generations, tickets; and its end."""

import contextlib
import copy
import errno
import gc
import os
import pickle
import stat
import threading
import time
from pathlib import Path

import numpy as np
import pytest

import gpubroker

DTYPES = [
    "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64",
    "float16", "float32", "float64", "complex64", "complex128",
]  # fmt: skip


def refused(number: int) -> pytest.RaisesExc[OSError]:
    return pytest.raises(OSError, check=lambda error: error.errno == number)


# ---- its life ----


def test_no_broker_is_an_os_error_with_the_librarys_message(tmp_path: Path):
    with pytest.raises(FileNotFoundError) as caught:
        gpubroker.connect(f"unix:{tmp_path}/nobody")
    assert caught.value.errno == errno.ENOENT
    assert str(tmp_path) in str(caught.value)


def test_the_environment_names_the_broker(broker, monkeypatch):
    monkeypatch.setenv("GPUBROKER", broker.address)
    with gpubroker.connect() as c:
        assert c.address is None
        assert c.devices == 1


def test_a_broker_is_found_by_its_name(broker):
    with gpubroker.connect(f"run-{broker.process.pid}") as c, broker.connect() as other:
        assert c.node == other.node
    with pytest.raises(FileNotFoundError, match="no broker is named 'nobody' here; these run: "):
        gpubroker.connect("nobody")


def test_clients_of_one_broker_have_the_same_node(broker, own_broker):
    with broker.connect() as a, broker.connect() as b, own_broker().connect() as c:
        assert a.node == b.node != c.node
        assert len(a.node) == 32
        assert int(a.node, 16)


def test_a_closed_client_refuses_everything(broker):
    c = broker.connect()
    c.close()
    c.close()
    with pytest.raises(ValueError, match="closed"):
        c.stat("x")
    with pytest.raises(ValueError, match="closed"), c:
        pass


def test_arrays_keep_their_leases_and_the_connection_of_a_closed_client(c, broker, name):
    c.create(name, 4)
    c.create(f"{name}-other", 4)
    other = broker.connect()
    u, idle = other.acquire(name, "rw"), other.acquire(f"{name}-other", "rw")
    array = u.numpy()
    other.close()
    other.close()
    for use in (lambda: other.stat(name), u.numpy, lambda: idle.ptr):
        with pytest.raises(ValueError, match=r"closed|released"):
            use()
    c.drain(f"{name}-other", timeout=60)  # a lease without arrays was returned
    with pytest.raises(TimeoutError):
        c.drain(name, timeout=0.01)
    array[:] = 7
    assert array.tolist() == [7] * 4
    del array
    with pytest.raises(FileNotFoundError):  # soon: another thread disconnects
        while True:
            with contextlib.suppress(TimeoutError):
                c.drain(name, timeout=1)


def test_a_client_is_not_closed_while_a_thread_is_in_a_call(c, broker, name):
    other = broker.connect()
    begun = threading.Event()

    def wait() -> None:
        begun.set()
        with other.acquire(name, timeout=60):
            pass

    thread = threading.Thread(target=wait)
    thread.start()
    begun.wait()
    while f"waits for a buffer {name}" not in broker.status("--why"):
        assert thread.is_alive()
    with refused(errno.EBUSY):
        other.close()
    c.create(name, 1)
    thread.join()
    other.close()


def test_a_lease_keeps_the_connection_of_a_collected_client(broker, c, name):
    c.create(name, 4)
    u = broker.connect().acquire(name, "rw")
    gc.collect()
    u.numpy()[:] = 3
    u.release()
    c.drain(name, timeout=60)


def test_a_failing_block_closes_although_arrays_live(c, broker, name):
    c.create(name, 4)
    with pytest.raises(RuntimeError, match="the block's own"), broker.connect() as other:
        array = other.acquire(name, "rw").numpy()
        raise RuntimeError("the block's own")
    array[:] = 1  # the array keeps lease and connection
    del array
    with pytest.raises(ValueError, match="closed"):
        other.stat(name)


def test_what_a_client_prints_and_whether_it_is_connected(own_broker):
    broker = own_broker()
    c = broker.connect()
    assert repr(c) == f"<gpubroker.Client {broker.address}>"
    assert c.connected
    broker.end()
    deadline = time.monotonic() + 60
    while c.connected:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    with pytest.raises(ConnectionResetError):
        c.stat("x")
    c.close()
    assert repr(c) == f"<gpubroker.Client {broker.address}, not connected>"
    assert not c.connected


def test_a_client_is_neither_copied_nor_pickled(c):
    with pytest.raises(TypeError):
        copy.copy(c)
    with pytest.raises(TypeError):
        pickle.dumps(c)


# ---- names ----


def test_list_has_each_buffer_of_the_pattern_in_order(c, name):
    for end in ("b", "a", "c/d"):
        c.create(f"{name}/{end}", 4)
    assert [info.name for info in c.list(f"{name}/*")] == [f"{name}/{end}" for end in ("a", "b", "c/d")]
    assert c.list(f"{name}/a") == [c.stat(f"{name}/a")]
    assert c.list(f"{name}/[bx]")[0].name == f"{name}/b"
    assert c.list("no-such*") == []
    assert {info.name for info in c.list()} >= {f"{name}/a", f"{name}/b", f"{name}/c/d"}


def test_stat_tells_what_create_was_told(c, name):
    c.create(name, (3, 5), "int16", timeline=True, dedicated=True, mode=0o640)
    info = c.stat(name)
    assert (info.name, info.shape, info.dtype, info.nbytes, info.device) == (name, (3, 5), "int16", 30, 0)
    assert (info.mode, info.owner, info.group) == (0o640, os.getuid(), os.getgid())
    assert (info.timeline, info.dedicated, info.ephemeral, info.sealed) == (True, True, False, False)
    assert info == tuple(info)


@pytest.mark.parametrize("dtype", [np.float32, np.dtype("float32"), "float32", "f32", "f4", "<f4", "single"])
def test_a_dtype_is_written_in_several_ways(c, name, dtype):
    c.create(name, [4], dtype)
    assert c.stat(name).dtype == "float32"


def numpys_names() -> list[str]:
    codes = [
        f"{order}{kind}{size}" for order in ("", "<", "=", "|") for kind in "biufc" for size in (1, 2, 4, 8, 16, 32, 64)
    ]
    names = [name for name in np.sctypeDict if isinstance(name, str)]
    return sorted({*codes, *names, *np.typecodes["All"], "n", "N", "float", "complex", "half", "double", "S3", "M8[s]"})


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of names that NumPy will not have
def test_numpys_names_mean_what_numpy_says():
    meant = 0
    for name in numpys_names():
        try:
            theirs = np.dtype(name).name
        except TypeError:
            continue
        if theirs in DTYPES:
            assert gpubroker.dtypes.name_of(name) == theirs, name
            meant += 1
        else:
            with pytest.raises(ValueError, match="is no type of a buffer's elements"):
                gpubroker.dtypes.name_of(name)
    assert meant > 100


@pytest.mark.parametrize(
    ("type_", "is_"),
    [
        ("f32", "float32"), ("i16", "int16"), ("bf16", "bfloat16"), ("c64", "complex64"), ("f8e4m3", "float8_e4m3fn"),
        ("float32x4", "float32x4"), ("f32x4", "float32x4"), ("float8_e5m2", "float8_e5m2"),
    ],
)  # fmt: skip
def test_names_that_numpy_does_not_have_are_the_librarys(c, name, type_, is_):
    with pytest.raises(TypeError):
        np.dtype(type_)
    c.create(name, 4, type_)
    assert c.stat(name).dtype == is_


@pytest.mark.parametrize("dtype", [">f4", ">i8", np.dtype(">f4"), ">c16"])
def test_a_big_endian_type_is_refused_by_its_name(c, name, dtype):
    with pytest.raises(ValueError, match=r">(f4|i8|c16).*is big-endian"):
        c.create(name, 4, dtype)
    c.create(name, 4, ">u1")
    assert c.stat(name).dtype == "uint8"


@pytest.mark.parametrize(
    "dtype", ["f16", "S3", "f4,i4", "(2,)f4", "", "i8x", "x4", "\n", np.dtype("S3"), [1], np.longdouble]
)
def test_what_is_no_type_is_refused_by_its_name(c, name, dtype):
    with pytest.raises(ValueError, match="is no type of a buffer's elements: 'float32'"):
        c.create(name, 4, dtype)


@pytest.mark.parametrize(
    ("dtype", "is_"), [(bool, "bool"), (int, "int64"), (float, "float64"), (complex, "complex128")]
)
def test_pythons_own_types_are_those_of_numpy(c, name, dtype, is_):
    c.create(name, (), dtype)
    assert c.stat(name).dtype == is_ == np.dtype(dtype).name


@pytest.mark.parametrize(
    ("shape", "dtype", "error"),
    [
        ((2, -1), "uint8", ValueError),
        ((1,) * 9, "uint8", ValueError),
        ((2.5,), "uint8", TypeError),
        ("xy", "uint8", TypeError),
        ((2,), "float31", ValueError),
        ((2,), np.dtype(">f4"), ValueError),
        ((2,), object(), ValueError),
        ((1 << 40, 1 << 40), "uint8", ValueError),
        ((1 << 70,), "uint8", OverflowError),
    ],
)
def test_what_is_no_layout_is_refused(c, name, shape, dtype, error):
    with pytest.raises(error):
        c.create(name, shape, dtype)
    with pytest.raises(FileNotFoundError):
        c.stat(name)


def test_a_name_is_taken_once_and_unlinked_once(c, name):
    c.create(name, 8)
    with pytest.raises(FileExistsError, match=name):
        c.create(name, 8)
    c.unlink(name)
    with pytest.raises(FileNotFoundError, match=name):
        c.unlink(name)


def test_chmod_and_chown(c, name):
    c.create(name, 8, dedicated=True)
    c.chmod(name, 0o644)
    assert stat.S_IMODE(c.stat(name).mode) == 0o644
    c.chown(name, group=os.getgid())
    c.chown(name, os.getuid(), -1)
    assert (c.stat(name).owner, c.stat(name).group) == (os.getuid(), os.getgid())
    with pytest.raises(ValueError, match="uid"):
        c.chown(name, -2)


def test_an_ephemeral_buffer_ends_with_its_client_unless_it_persists(c, broker, name):
    with broker.connect() as other:
        other.create(f"{name}-a", 8, ephemeral=True)
        other.create(f"{name}-b", 8, ephemeral=True)
        other.rename(f"{name}-b", name, persist=True)
    with pytest.raises(FileNotFoundError):
        c.acquire(f"{name}-a")
    assert not c.stat(name).ephemeral


def test_no_memory_is_an_os_error(c, name):
    with refused(errno.ENOMEM):
        c.create(name, (1 << 50,))


# ---- publishing ----


def test_a_sealed_buffer_is_read_and_not_written(c, broker, name):
    c.create(name, 8)
    with broker.connect() as other:
        writing = other.acquire(name, "w")
        with refused(errno.EBUSY):
            c.seal(name)
        writing.release()
        other.trim()
        c.seal(name)
        assert c.stat(name).sealed
        with refused(errno.EROFS):
            other.acquire(name, "rw")
        with other.acquire(name) as u:
            assert u.numpy().sum() == 0


def test_rename_replaces_in_one_step(c, name):
    c.create(name, 1)
    c.create(f"{name}-new", 2)
    with c.acquire(name) as kept:
        with pytest.raises(FileExistsError):
            c.rename(f"{name}-new", name)
        c.rename(f"{name}-new", name, replace=True)
        assert kept.shape == (1,)
        with c.acquire(name) as u:
            assert u.shape == (2,)
            assert u.generation == c.stat(name).generation > kept.generation


def test_resize(c, broker, name):
    c.create(name, (10, 1024), "float32", reserve=1 << 20)
    assert c.stat(name).reserve == 1 << 20
    with c.acquire(name, "rw") as before, broker.connect() as other, other.acquire(name) as others:
        before.numpy()[9] = 5
        c.resize(name, 100 * 4096)
        assert before.shape == others.shape == (10, 1024)
        with c.acquire(name, "rw") as u, other.acquire(name) as v:
            assert u.shape == v.shape == (100, 1024)
            assert (u.numpy()[9] == 5).all()
            assert not u.numpy()[10:].any()
            u.numpy()[99] = 7
            assert (v.numpy()[99] == 7).all()
            assert u.generation == c.stat(name).generation > before.generation


def test_what_is_cut_off_is_in_no_process(c, broker, name):
    c.create(name, (100, 1024), "float32", reserve=1 << 20)
    ticket = c.ticket(name)
    with broker.connect() as other:
        other.acquire(name).release()
        with refused(errno.EBUSY):
            c.resize(name, 10 * 4096)
        other.trim()
        c.resize(name, 10 * 4096 + 5)
        assert (c.stat(name).shape, c.stat(name).nbytes) == ((10, 1024), 10 * 4096 + 5)
        with other.acquire(name) as u:
            assert (u.shape, u.nbytes, u.numpy().shape) == ((10, 1024), 10 * 4096, (10, 1024))
        with refused(errno.ESTALE):
            other.redeem(ticket)


def test_a_resize_that_cannot_be_is_an_os_error(c, name):
    with pytest.raises(FileNotFoundError, match=name):
        c.resize(name, 8)
    with pytest.raises(OSError, match="reserve is less than its size"):
        c.create(name, 4096, reserve=4095)
    c.create(name, 4096)
    with pytest.raises(OSError, match="create it with a reserve"):
        c.resize(name, 8192)
    c.unlink(name)
    c.create(name, 4096, reserve=8192)
    with refused(errno.ENOSPC):
        c.resize(name, 8193)
    with refused(errno.EINVAL):
        c.resize(name, 0)
    with pytest.raises(ValueError, match="timeout"):
        c.resize(name, 8192, timeout=-1)
    c.seal(name)
    with refused(errno.EROFS):
        c.resize(name, 8192)


def test_a_growth_waits_for_memory_and_stops_no_other_thread(own_broker):
    with own_broker(GPUB_HOST_MEMORY="64M").connect() as c:
        c.create("g", 4 << 20, reserve=64 << 20)
        c.create("other", 40 << 20)
        with refused(errno.ENOMEM):
            c.resize("g", 40 << 20)
        thread = threading.Thread(target=c.resize, args=("g", 40 << 20, 60))
        thread.start()
        with refused(errno.EBUSY):
            while thread.is_alive():
                c.resize("g", 4 << 20)  # does nothing, until the thread's growth has begun
        c.unlink("other")
        thread.join()
        assert c.stat("g").nbytes == 40 << 20


@pytest.mark.parametrize(
    ("nbytes", "error"), [(-1, OverflowError), ((1 << 64) + 8, OverflowError), (8.0, TypeError), ("8", TypeError)]
)
def test_a_size_is_an_unsigned_number_of_64_bits(c, name, nbytes, error):
    with pytest.raises(error):
        c.create(name, 4, reserve=nbytes)
    c.create(name, 4, reserve=np.int64(64))
    with pytest.raises(error):
        c.resize(name, nbytes)
    assert c.stat(name).nbytes == 4
    c.resize(name, np.int64(64))
    assert c.stat(name).nbytes == 64


def test_wait_newer(c, broker, name):
    with pytest.raises(FileNotFoundError):
        c.wait_newer(name, timeout=0)
    with pytest.raises(TimeoutError):
        c.wait_newer(name, timeout=0.01)
    c.create(name, 1)
    first = c.wait_newer(name)
    seen = []
    with broker.connect() as other:
        thread = threading.Thread(target=lambda: seen.append(other.wait_newer(name, first.generation, 60)))
        thread.start()
        c.create(f"{name}-new", 2)
        c.rename(f"{name}-new", name, replace=True)
        thread.join()
    assert seen[0].shape == (2,)
    assert seen[0].generation > first.generation


def test_drain_says_who_still_holds_it(c, broker, name):
    c.create(name, 8)
    with broker.connect() as other:
        u = other.acquire(name)
        array = u.numpy()
        with pytest.raises(TimeoutError):
            c.drain(name, timeout=0.01)
        with pytest.raises(FileNotFoundError):
            c.stat(name)
        del array
        u.release()


def test_drain_waits_for_the_last_lease(c, broker, name):
    c.create(name, 8)
    with broker.connect() as other:
        u = other.acquire(name)
        thread = threading.Thread(target=c.drain, args=(name, 60))
        thread.start()
        u.release()
        thread.join()
    with pytest.raises(FileNotFoundError):
        c.stat(name)


# ---- tickets ----


def test_a_ticket_is_redeemed_once(c, broker, name):
    c.create(name, (2, 3), "int32")
    ticket = c.ticket(name, "r")
    with broker.connect() as other:
        with other.redeem(ticket) as u:
            assert (u.name, u.rights, u.shape, u.dtype) == (None, "r", (2, 3), "int32")
            assert "redeemed" in repr(u)
        with refused(errno.EKEYREJECTED):
            other.redeem(ticket)


def test_a_ticket_may_be_used_often_and_travels_as_text_or_pickle(c, broker, name):
    c.create(name, 4)
    ticket = c.ticket(name, "rw", once=False)
    again = pickle.loads(pickle.dumps(ticket))
    assert type(again) is gpubroker.Ticket
    assert ticket.text not in repr(ticket)
    with broker.connect() as other:
        for form in (ticket, again, ticket.text, gpubroker.Ticket(ticket.text)):
            with other.redeem(form) as u:
                u.numpy()[:] += 1
    with c.acquire(name) as u:
        assert u.numpy().tolist() == [4] * 4


def test_what_is_no_ticket_is_refused(c, name):
    c.create(name, 4)
    with refused(errno.EKEYREJECTED):
        c.redeem("x" * 40)
    with pytest.raises(TypeError):
        c.redeem(7)
    ticket = c.ticket(name)
    c.unlink(name)
    with refused(errno.ESTALE):
        c.redeem(ticket)


# ---- arguments ----


@pytest.mark.parametrize("timeout", [-1, float("nan"), -0.001])
def test_a_timeout_is_no_negative_number(c, name, timeout):
    with pytest.raises(ValueError, match="timeout"):
        c.acquire(name, timeout=timeout)


@pytest.mark.parametrize("user", [-1, 2**32 - 1, 2**32, 2**32 + 1000, 2**64 - 1, 2**64, "0", 1.5])
def test_a_uid_is_a_number_of_32_bits_and_none_is_anybody(c, name, user):
    c.create(name, 8, mode=0o666)
    calls = [lambda: c.acquire(name, "rw", owner=user), lambda: c.ticket(name, user=user)]
    if user != -1:  # which leaves it as it is
        calls.append(lambda: c.chown(name, user))
    for call in calls:
        with pytest.raises((ValueError, OverflowError, TypeError)):
            call()
    assert c.stat(name).owner == os.getuid()
    c.acquire(name, owner=None).release()
    c.ticket(name, user=None)


@pytest.mark.parametrize("number", [2**32 + 0o600, 2**64 + 0o600, -(2**32) + 0o600])
def test_no_number_is_cut(c, name, number):
    c.create(name, 8, dedicated=True, mode=0o640)
    for call in (
        lambda: c.create(f"{name}-other", 8, mode=number),
        lambda: c.create(f"{name}-other", 8, device=number & ~0o777),
        lambda: c.chmod(name, number),
        lambda: c.set_device(number & ~0o777),
    ):
        with pytest.raises((ValueError, OverflowError)):
            call()
    assert c.stat(name).mode == 0o640


@pytest.mark.parametrize("rights", ["", "x", "rx", "R"])
def test_rights_are_r_and_w(c, name, rights):
    with pytest.raises(ValueError, match="rights"):
        c.acquire(name, rights)


def test_a_name_without_a_nul(c):
    with pytest.raises(ValueError):
        c.create("a\0b", 1)
