# SPDX-License-Identifier: Apache-2.0
"""Random layouts, slices, orders of release and threads, compared with a plain model. And that nothing leaks."""

from __future__ import annotations

import contextlib
import ctypes
import gc
import itertools
import sys
import threading

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

import gpubroker
from gpubroker.arrays import Array

DTYPES = ["bool", "int8", "uint16", "int32", "uint64", "float16", "float32", "float64", "complex64", "complex128"]
numbers = itertools.count()
# The broker is the same for each example: that is what is wanted.
shared = settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])


# ---- layouts and slices ----


@shared
@given(data=st.data(), dtype=st.sampled_from(DTYPES), shape=npst.array_shapes(max_dims=8, max_side=4))
def test_a_buffer_is_an_array_of_numpy(c, data, dtype, shape):
    name = f"layout-{next(numbers)}"
    model = np.zeros(shape, dtype)
    index = data.draw(npst.basic_indices(shape, allow_ellipsis=True))
    value = data.draw(npst.from_dtype(np.dtype(dtype), allow_nan=False))
    c.create(name, shape, dtype)
    info = c.stat(name)
    assert (info.shape, info.dtype, info.nbytes) == (shape, dtype, model.nbytes)
    with c.acquire(name, "rw", shape=shape, dtype=dtype) as u:
        u.numpy()[index] = value
    model[index] = value
    with c.acquire(name) as u:
        seen = np.from_dlpack(u)
        assert seen.strides == model.strides
        assert np.array_equal(seen, model)
        assert bytes(u) == model.tobytes()
        del seen
    c.unlink(name)


@shared
@given(
    size=st.integers(1, 300),
    parts=st.lists(st.tuples(st.integers(0, 320), st.binary(max_size=64)), max_size=8),
)
def test_bytes_are_written_where_they_were_said_to_be(c, size, parts):
    name = f"bytes-{next(numbers)}"
    model = bytearray(size)
    c.create(name, size)
    with c.acquire(name, "rw") as u:
        for offset, data in parts:
            if offset + len(data) <= size:
                u.write(data, offset)
                model[offset : offset + len(data)] = data
            else:
                with pytest.raises(ValueError, match="beyond the end"):
                    u.write(data, offset)
        back = bytearray(size)
        u.read_into(back)
        assert back == model == bytes(u)
    c.unlink(name)


# ---- orders of release ----


class Holder:
    def __init__(self, lease: gpubroker.Lease) -> None:
        self.lease = lease
        self.views: list[object] = []


class Releases(RuleBasedStateMachine):
    """Leases and arrays of two buffers end in any order.

    The model: what holds how many arrays, and what each buffer has.
    """

    connect = None

    @initialize()
    def begin(self) -> None:
        assert Releases.connect
        self.client = Releases.connect()
        self.names = [f"order-{next(numbers)}" for _ in range(2)]
        self.values = [0, 0]
        for name in self.names:
            self.client.create(name, 8, "int64")
        self.holders: list[tuple[int, Holder]] = []
        self.kept: list[tuple[int, Holder]] = []  # released, and views live that are not the lease's own arrays

    def pick(self, data, choices: list):
        """By number: Hypothesis keeps what it draws."""
        return choices[data.draw(st.integers(0, len(choices) - 1))]

    @rule(which=st.integers(0, 1))
    def acquire(self, which: int) -> None:
        self.holders.append((which, Holder(self.client.acquire(self.names[which], "rw"))))

    @precondition(lambda self: self.holders)
    @rule(data=st.data(), kind=st.sampled_from([lambda u: u.numpy(), np.from_dlpack, memoryview]))
    def export(self, data, kind) -> None:
        holder = self.pick(data, self.holders)[1]
        holder.views.append(kind(holder.lease))

    @precondition(lambda self: any(holder.views for _, holder in self.holders))
    @rule(data=st.data(), value=st.integers(0, 1000))
    def write(self, data, value: int) -> None:
        which, holder = self.pick(data, [pair for pair in self.holders if pair[1].views])
        self.pick(data, holder.views)[0] = value
        self.values[which] = value

    @precondition(lambda self: any(holder.views for _, holder in self.holders))
    @rule(data=st.data())
    def drop(self, data) -> None:
        views = self.pick(data, [holder for _, holder in self.holders if holder.views]).views
        views.pop(data.draw(st.integers(0, len(views) - 1)))

    @precondition(lambda self: self.holders)
    @rule(data=st.data())
    def release(self, data) -> None:
        _which, holder = pair = self.pick(data, self.holders)
        own = [view for view in holder.views if isinstance(view, Array)]
        holder.lease.release()
        self.holders.remove(pair)
        for view in own:
            with pytest.raises(ValueError, match="the lease on 'order-"):
                view[0]
        holder.views = [view for view in holder.views if all(view is not ended for ended in own)]
        if holder.views:
            self.kept.append(pair)

    @precondition(lambda self: self.kept)
    @rule(data=st.data())
    def drop_what_was_kept(self, data) -> None:
        pair = self.pick(data, self.kept)
        with pytest.raises(BufferError, match=r"of \d released lease"):
            self.client.drain(self.names[pair[0]])
        pair[1].views.pop()
        if not pair[1].views:
            self.kept.remove(pair)

    @invariant()
    def arrays_are_counted_and_see_what_was_written(self) -> None:
        for which, holder in getattr(self, "holders", []) + getattr(self, "kept", []):
            assert holder.lease.exports == len(holder.views)
            assert all(view[0] == self.values[which] for view in holder.views)

    def teardown(self) -> None:
        for _, holder in getattr(self, "holders", []) + getattr(self, "kept", []):
            holder.views.clear()
            holder.lease.release()
        for name in getattr(self, "names", []):
            self.client.drain(name, timeout=60)
        if hasattr(self, "client"):
            self.client.close()


def test_leases_and_arrays_end_in_any_order(broker):
    Releases.connect = staticmethod(broker.connect)
    case = Releases.TestCase()
    case.settings = settings(max_examples=25, stateful_step_count=25)
    case.runTest()


# ---- threads ----


@pytest.mark.parametrize("one_client", [True, False], ids=["one client", "a client each"])
def test_threads_take_turns_by_the_timeline(broker, c, name, one_client):
    """Each step of a thread sees what the step before has written: one session is the timeline's writer."""
    threads, rounds = 4, 25
    c.create(name, (threads, 16), "int64")
    failures = []

    def work(row: int) -> None:
        client = c if one_client else broker.connect()
        try:
            for k in range(rounds):
                with client.acquire(name, "rw") as u:
                    array = u.numpy()
                    if array[row].tolist() != [k] * 16:
                        failures.append((row, k, array[row].tolist()))
                    array[row] += 1
                    del array
        finally:
            if not one_client:
                client.close()

    running = [threading.Thread(target=work, args=(row,)) for row in range(threads)]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()
    assert failures == []
    with c.acquire(name) as u:
        assert (u.numpy() == rounds).all()


def test_an_array_ends_on_another_thread(c, name):
    c.create(name, 16)
    for _ in range(100):
        u = c.acquire(name, "rw")
        box = [u.numpy()]
        thread = threading.Thread(target=box.clear)
        thread.start()
        thread.join()
        u.release()


def test_threads_that_release_one_lease_return_it_once(c, name):
    c.create(name, 16, timeline=True)
    for k in range(50):
        u = c.acquire(name, "rw", signal=k + 1)
        begin = threading.Barrier(3)

        def release(lease=u, gate=begin) -> None:
            gate.wait()
            with contextlib.suppress(ValueError):  # the other one was in it
                lease.release()

        both = [threading.Thread(target=release) for _ in range(2)]
        for thread in both:
            thread.start()
        begin.wait()
        for thread in both:
            thread.join()
        assert u.released
        assert c.acquire(name, at=k + 1).release() is None


# ---- leaks ----


def use_everything(broker, name: str) -> None:
    with broker.connect() as c:
        c.create(name, (4, 4), "float32", timeline=True)
        c.stat(name)
        with c.acquire(name, "rw", at=0, signal=1, shape=(4, None), dtype="float32") as u:
            repr(u), u.shape, u.dtype, u.name, u.rights, u.ptr, u.__array_interface__
            views = [u.numpy(), memoryview(u), np.from_dlpack(u), u.__dlpack__(max_version=(1, 0))]
            u.release()
            del views
        with c.redeem(c.ticket(name)) as u:
            u.read_into(bytearray(4))
        for fails in (
            lambda: c.create(name, 1),
            lambda: c.acquire(name, dtype="int8"),
            lambda: c.acquire(name, "rw", signal=1.5),
            lambda: c.acquire("nobody"),
            lambda: c.create("x", (1, "2")),
            lambda: c.redeem("none"),
        ):
            with contextlib.suppress(OSError, TypeError):
                fails()
        c.unlink(name)


class Heap(ctypes.Structure):
    """What mallinfo2(3) tells, all zeroes under another allocator: the eighth is how many bytes are in use."""

    _fields_ = [(f"field{i}", ctypes.c_size_t) for i in range(10)]


def heap_bytes() -> int:
    ask = ctypes.CDLL(None).mallinfo2
    ask.restype = Heap
    return ask().field7


def test_capsules_leave_nothing_on_the_heap(c, name):
    rounds = 2000
    c.create(name, 4)
    with c.acquire(name, "rw") as u:
        for version in ((0, 8), (1, 0)):
            u.__dlpack__(max_version=version)
            before = heap_bytes()
            for _ in range(rounds):
                u.__dlpack__(max_version=version)
            assert heap_bytes() - before < 16 * rounds


def test_nothing_leaks(broker):
    """A block of Python, or a reference to a type, that each round left behind would show after so many."""
    types = [gpubroker.Client, gpubroker.Lease, gpubroker.Ticket, gpubroker._core.Array, type(None), str, int]

    def counts() -> list[int]:
        gc.collect()
        return [sys.getallocatedblocks(), *(sys.getrefcount(kind) for kind in types)]

    rounds = 120  # 31 blocks more were seen once, under ASan, that no round had left
    for _ in range(20):
        use_everything(broker, "leak")
    before = counts()
    for _ in range(rounds):
        use_everything(broker, "leak")
    grown = [after - was for after, was in zip(counts(), before, strict=True)]
    assert max(grown) < rounds // 2, grown
