# SPDX-License-Identifier: Apache-2.0
"""PyTorch, JAX and Warp on the host device, where they are installed: they see the buffer itself."""

import gc

import numpy as np
import pytest


@pytest.mark.parametrize("rights", ["r", "rw"])
@pytest.mark.parametrize("framework", ["torch", "jax", "warp"])
def test_a_framework_sees_the_buffer_itself(c, name, framework, rights):
    pytest.importorskip(framework)
    c.create(name, (4, 5), "float32")
    with c.acquire(name, "rw") as u:
        u.numpy()[:] = 3
    with c.acquire(name, rights) as u:
        array = getattr(u, framework)()
        assert u.exports == 1
        assert tuple(array.shape) == (4, 5)
        shown = np.from_dlpack(array)
        assert (shown.ctypes.data, shown.tolist()) == (u.ptr, [[3] * 5] * 4)
        del array, shown
        gc.collect()
        assert u.exports == 0


def test_a_tensor_of_pytorch_is_refused_when_its_lease_has_ended(c, name):
    torch = pytest.importorskip("torch")
    c.create(name, (4, 5), "float32")
    with c.acquire(name, "rw") as u:
        tensor = u.torch()
        tensor += 2
        row, kept = tensor[0], tensor.sum()
    assert kept == 40
    for use in (
        torch.sum,
        lambda t: t.sum(),
        lambda t: t[0],
        lambda t: torch.add(t, 1),
        lambda t: 1 + t,
        lambda t: t.shape,
    ):
        with pytest.raises(ValueError, match=f"the lease on '{name}' has ended"):
            use(tensor)
    assert f"the lease on '{name}' has ended" in repr(tensor)
    assert row.tolist() == [2] * 5  # another tensor: it keeps the memory
    with pytest.raises(BufferError, match="1 released lease"):
        c.drain(name)
    del tensor, row
    c.drain(name, timeout=60)


def test_bfloat16_is_jaxs(c, name):
    pytest.importorskip("jax")
    c.create(name, 4, "bfloat16")
    with c.acquire(name, "rw") as u:
        u.numpy()[:] = 2
        assert u.jax().tolist() == [2] * 4
        gc.collect()


def test_numba_has_numpys_arrays_on_the_host(c, name):
    c.create(name, 4, "int32")
    with c.acquire(name) as u:
        assert isinstance(u.numba(), np.ndarray)


def test_streams_of_all_frameworks_have_a_handle():
    from gpubroker.frameworks import stream_handle

    class Protocol:
        def __cuda_stream__(self) -> tuple[int, int]:
            return 0, 7

    class Torch:
        cuda_stream = 8

    class CuPy:
        ptr = 9

    class Wrapped:
        value = 10

    class Numba:
        handle = Wrapped()

    class Default:
        handle = None

    assert [stream_handle(stream) for stream in (5, Protocol(), Torch(), CuPy(), Numba(), Default())] == [
        5,
        7,
        8,
        9,
        10,
        0,
    ]
    with pytest.raises(TypeError, match="str is no CUDA stream"):
        stream_handle("7")
