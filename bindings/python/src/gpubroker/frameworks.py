# SPDX-License-Identifier: Apache-2.0
"""A lease as an array of each framework, and the streams of all of them.

Owns nothing. Each function imports its framework when it is called: none of them is needed to use the others.
"""

from __future__ import annotations

from typing import Any

from . import dtypes
from ._core import Lease


def stream_handle(stream: Any) -> int:
    """The cudaStream_t of a stream: of a number, of torch, Warp, CuPy, numba, or of anything with __cuda_stream__."""
    if isinstance(stream, int):
        handle = stream
    elif hasattr(stream, "__cuda_stream__"):
        protocol = stream.__cuda_stream__
        handle = (protocol() if callable(protocol) else protocol)[1]
    elif hasattr(stream, "cuda_stream"):
        handle = stream.cuda_stream
    elif hasattr(stream, "ptr"):
        handle = stream.ptr
    elif hasattr(stream, "handle"):
        handle = getattr(stream.handle, "value", stream.handle)
    else:
        raise TypeError(f"{type(stream).__name__} is no CUDA stream that gpubroker knows: give its handle as a number")
    return int(handle or 0)


def _label(lease: Lease) -> str:
    return "a redeemed buffer" if lease.name is None else repr(lease.name)


def numpy_memory(lease: Lease) -> Any:
    """The buffer as an array of NumPy's own class, which keeps the lease as long as it lives."""
    import numpy as np

    if lease.device >= 0:  # NumPy would make a scalar of what it cannot read
        raise BufferError(
            f"{_label(lease)} is in GPU memory, which NumPy cannot read: take torch(), cupy(), numba(), jax() or warp()"
        )
    try:
        dtype = np.dtype(lease.dtype)
    except TypeError:
        dtype = None
    if dtype is not None and dtype.kind != "V":
        return np.asarray(lease._array())
    return _numpy_of_ml_type(lease)


def _numpy_of_ml_type(lease: Lease) -> Any:
    """bfloat16 and the like, and vectors, which get a dimension more."""
    import numpy as np

    name, lanes = dtypes.split(lease.dtype)
    array: Any = lease._array()
    return np.frombuffer(array, dtypes.of_numpy(name)).reshape((*lease.shape, lanes) if lanes > 1 else lease.shape)


def numpy(lease: Lease) -> Any:
    """An array that ends with the lease."""
    memory = numpy_memory(lease)
    from . import arrays

    made = lease._arrays
    if "numpy" not in made:
        made["numpy"] = arrays.Arrays(_label(lease))
    return arrays.of_memory(memory, made["numpy"])


def end(made: dict[str, Any]) -> None:
    """A lease ends, and the arrays that it has made."""
    for arrays in made.values():
        arrays.end()


def torch(lease: Lease) -> Any:
    import torch as framework

    from . import tensors

    tensor = framework.from_dlpack(lease._array())
    lease._arrays.setdefault("torch", tensors.Tensors(_label(lease))).add(tensor)
    return tensor


def cupy(lease: Lease) -> Any:
    import cupy as framework

    with framework.cuda.Device(lease.device):
        lease.wait(framework.cuda.get_current_stream().ptr)
        return framework.asarray(lease._array())


def numba(lease: Lease) -> Any:
    if lease.device < 0:
        return numpy(lease)
    from numba import cuda

    if lease._stream is None:  # numba has no current stream
        lease.wait(cuda.default_stream())
    return cuda.as_cuda_array(lease._array())


def jax(lease: Lease) -> Any:
    import jax as framework

    return framework.dlpack.from_dlpack(lease._array())


def warp(lease: Lease) -> Any:
    import warp as framework

    framework.init()  # does nothing when that was done
    if lease.device >= 0:
        lease.wait(framework.get_stream(f"cuda:{lease.device}"))
    return framework.from_dlpack(lease._array())
