# SPDX-License-Identifier: Apache-2.0
"""What sees a lease's memory: NumPy, memoryview, DLPack, the array interfaces. Nothing is copied."""

import ctypes

import numpy as np
import pytest

DTYPES = [
    "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64",
    "float16", "float32", "float64", "complex64", "complex128",
]  # fmt: skip

capsule_name = ctypes.pythonapi.PyCapsule_GetName
capsule_name.restype, capsule_name.argtypes = ctypes.c_char_p, [ctypes.py_object]

WRITABLE, F_CONTIGUOUS = 0x0001, 0x0040 | 0x0010 | 0x0008  # PyBUF_...


def get_buffer(thing: object, flags: int) -> None:
    """PyObject_GetBuffer that must fail, as C code calls it."""
    get = ctypes.pythonapi.PyObject_GetBuffer
    get.argtypes = [ctypes.py_object, ctypes.c_char_p, ctypes.c_int]
    get(thing, bytes(200), flags)


# ---- NumPy ----


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    "take", [lambda u: u.numpy(), np.asarray, np.from_dlpack, memoryview], ids=["numpy", "asarray", "dlpack", "buffer"]
)
def test_each_dtype_is_numpys_and_the_memory_is_the_buffers(c, name, dtype, take):
    c.create(name, (2, 3), dtype)
    with c.acquire(name, "rw") as u:
        array = np.asarray(take(u))
        assert (array.dtype, array.shape, array.ctypes.data) == (np.dtype(dtype), (2, 3), u.ptr)
        assert array.flags.c_contiguous
        np.asarray(u)[1, 2] = 1
        assert array.tolist() == [[0, 0, 0], [0, 0, 1]]
        del array


@pytest.mark.parametrize("shape", [(), (1,), (0 + 5,), (2, 1, 3), (1, 2, 1, 2, 1, 2, 1, 2)])
def test_shapes_from_a_scalar_to_eight_dimensions(c, name, shape):
    c.create(name, shape, "int32")
    with c.acquire(name, "rw") as u:
        for take in (u.numpy, lambda: np.from_dlpack(u), lambda: np.asarray(memoryview(u))):
            array = take()
            assert array.shape == u.shape == shape
            array[...] = np.arange(array.size).reshape(shape)
        del array
    with c.acquire(name) as u:
        assert np.array_equal(u.numpy().ravel(), np.arange(u.nbytes // 4))


def test_a_buffer_without_a_layout_is_bytes(own_broker):
    broker = own_broker("-b", "raw=64K")
    with broker.connect() as c, c.acquire("raw", "rw") as u:
        assert (u.shape, u.dtype, c.stat("raw").dtype) == ((65536,), "uint8", "uint8")
        assert u.numpy().nbytes == 65536


def test_a_declared_layout_arrives(own_broker):
    broker = own_broker("-b", "u=f32[3,4]")
    with broker.connect() as c, c.acquire("u", shape=(3, 4), dtype="float32") as u:
        assert u.numpy().shape == (3, 4)


def test_vectors_are_one_more_dimension(c, name):
    c.create(name, (2, 3), "float32x4")
    with c.acquire(name, "rw") as u:
        assert (u.shape, u.dtype, u.nbytes) == ((2, 3), "float32x4", 96)
        array = u.numpy()
        assert (array.shape, array.dtype) == ((2, 3, 4), np.float32)
        assert memoryview(u).shape == (2, 3, 4)
        del array


def test_bfloat16_needs_ml_dtypes(c, name):
    c.create(name, 4, "bfloat16")
    with c.acquire(name, "rw") as u:
        try:
            import ml_dtypes
        except ImportError:
            with pytest.raises(BufferError, match="ml_dtypes"):
                u.numpy()
            with pytest.raises(BufferError, match="cannot name"):
                memoryview(u)
        else:
            assert u.numpy().dtype == ml_dtypes.bfloat16


# ---- read-only ----


def test_a_lease_for_reading_gives_arrays_for_reading(c, name):
    c.create(name, 4, "int32")
    with c.acquire(name) as u:
        for array in (u.numpy(), np.from_dlpack(u), np.asarray(memoryview(u))):
            assert not array.flags.writeable
            with pytest.raises(ValueError, match="read-only"):
                array[0] = 1
        del array
        assert memoryview(u).readonly
        with pytest.raises(BufferError, match="leased for reading"):
            get_buffer(u, WRITABLE)


def test_a_writable_view_needs_the_right_to_write(c, name):
    c.create(name, 4, "int32")
    with c.acquire(name, "w") as u:
        view = (ctypes.c_int32 * 4).from_buffer(u)
        view[2] = 8
        assert u.numpy().tolist() == [0, 0, 8, 0]
        del view


# ---- DLPack ----


def test_the_capsule_is_what_the_consumer_knows(c, name):
    c.create(name, 4, "int32")
    with c.acquire(name, "rw") as u:
        assert u.__dlpack_device__() == (1, 0)
        assert capsule_name(u.__dlpack__()) == b"dltensor"
        assert capsule_name(u.__dlpack__(max_version=(0, 8))) == b"dltensor"
        assert capsule_name(u.__dlpack__(max_version=(1, 0))) == b"dltensor_versioned"
        assert capsule_name(u.__dlpack__(max_version=(2, 0), dl_device=(1, 0), copy=False)) == b"dltensor_versioned"
        assert u.exports == 0  # the capsules that nobody took are gone


def test_what_cannot_be_exported_is_a_buffer_error(c, name):
    c.create(name, 4, "int32")
    with c.acquire(name, "rw") as u:
        for wish in ({"copy": True}, {"dl_device": (2, 0)}, {"stream": 1}):
            with pytest.raises(BufferError):
                u.__dlpack__(**wish)
        assert capsule_name(u.__dlpack__(stream=-1)) == b"dltensor"
    with c.acquire(name) as u:
        with pytest.raises(BufferError, match="knows no read-only arrays"):
            u.__dlpack__()
        assert capsule_name(u.__dlpack__(max_version=(1, 0))) == b"dltensor_versioned"


def test_wishes_that_are_none_are_type_errors(c, name):
    c.create(name, 4, "int32")
    with c.acquire(name, "rw") as u:
        for wish in ({"max_version": 1}, {"max_version": ()}, {"max_version": ("x",)}, {"streams": 1}):
            with pytest.raises((TypeError, IndexError)):
                u.__dlpack__(**wish)
        assert u.exports == 0


# ---- array interfaces ----


def test_the_interface_of_the_device_is_there_alone(c, name):
    c.create(name, (2, 2), "complex64")
    with c.acquire(name) as u:
        assert not hasattr(u, "__cuda_array_interface__")
        shown = u.__array_interface__
        assert (shown["shape"], shown["typestr"], shown["data"]) == ((2, 2), "<c8", (u.ptr, True))
        assert shown["strides"] is None


def test_views_of_the_buffer_protocol(c, name):
    c.create(name, (2, 3), "int16")
    with c.acquire(name, "rw") as u:
        with memoryview(u) as view:
            assert (view.format, view.shape, view.strides, view.itemsize, view.nbytes) == ("h", (2, 3), (6, 2), 2, 12)
            view[1, 1] = -5
        assert bytes(u)[8:10] == (-5).to_bytes(2, "little", signed=True)
        with pytest.raises(BufferError, match="row-major"):
            get_buffer(u, F_CONTIGUOUS)
        assert u.exports == 0
