# SPDX-License-Identifier: Apache-2.0
"""NumPy's arrays of a lease, which end with it.

NumPy has no way to take an array back from those who have it. But an array can be given other contents in place
(ndarray.__setstate__), and then lets go of what it was a view of. So when a lease ends, each of its arrays becomes one
without memory, of a class that raises ValueError wherever it is used, and the lease's memory is free although variables
name them.

A view of NumPy's own class, as of np.asarray(), keeps the memory by itself: it is a view of the lease's memory, not of
an Array, since NumPy looks for the base of a view through bases of the view's own class. So do memoryviews and
capsules, which are made of such views. Views that NumPy makes of an Array without Array.__getitem__, such as its
transpose, are refused when the lease ends, but have the memory until they are collected. What keeps the Array itself
and its address, as torch.from_numpy() and ctypes do, is not seen here: it must not outlive the lease. Owns the lists of
the arrays of each lease.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from typing import Any

import numpy as np

from . import _core

_Base: Any = _core._array_base(np.ndarray)  # its buffers are those of view()'s


class Arrays(weakref.WeakValueDictionary[int, Any]):
    """Those of one lease that live, by id()."""

    def __init__(self, label: str) -> None:
        super().__init__()
        self._label = label  # the buffer, for messages

    def add(self, array: Any) -> Any:
        self[id(array)] = array
        return array

    def end(self) -> None:
        for array in list(self.values()):
            if array.base is array._memory:  # what is a view of it is a view of that memory: nobody loses it
                np.ndarray.__setstate__(array, (1, (), np.dtype(object), False, [_Nothing()]))  # type: ignore[arg-type]
                array._memory = None
            array._label = self._label
            array.__class__ = EndedArray


class _Nothing:
    """What an ended array has in it."""

    def __repr__(self) -> str:
        return "<memory of a lease that has ended>"


class Array(_Base):  # type: ignore[misc]
    """A numpy.ndarray that ends with its lease."""

    _all: Arrays | None = None
    _memory: Any = None  # of a view that is not ended: the array that keeps the memory

    def __array_finalize__(self, parent: Any) -> None:
        """NumPy makes a view of an Array, or an array of its own with the class of an Array."""
        if type(parent) is type(self) and not self.flags.owndata:
            self._all, self._memory = parent._all, parent._memory
            if self._all is not None:
                self._all.add(self)

    def __getitem__(self, key: Any) -> Any:
        memory: np.ndarray[Any, Any] = np.asarray(self)
        return self._with_lease(memory, memory[key])

    def _with_lease(self, memory: Any, found: Any) -> Any:
        """A view of this array's memory ends with the lease. What has memory of its own is NumPy's."""
        is_view = type(found) is np.ndarray and (found is memory or found.base is memory or found.base is memory.base)
        return of_memory(found, self._all) if is_view else found

    def __iter__(self) -> Iterator[Any]:
        return (self[index] for index in range(len(self)))

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, out: tuple[Any, ...] = (), **more: Any) -> Any:
        """The function works on views that keep the memory, whatever another thread does.

        What it makes is NumPy's own.
        """
        if out:
            more["out"] = tuple(plain(array) for array in out)
        if "where" in more:
            more["where"] = plain(more["where"])
        made = getattr(ufunc, method)(*(plain(array) for array in inputs), **more)
        return made if not out else out[0] if len(out) == 1 else out

    def __array_wrap__(self, array: Any, _context: Any = None, return_scalar: bool = False) -> Any:
        if array is self:
            return array
        return array[()] if return_scalar else np.asarray(array)

    def copy(self, order: Any = "C") -> Any:
        return np.asarray(self).copy(order)

    def astype(self, *arguments: Any, **more: Any) -> Any:
        memory: np.ndarray[Any, Any] = np.asarray(self)
        return self._with_lease(memory, memory.astype(*arguments, **more))

    def __copy__(self) -> Any:
        return self.copy()

    def __deepcopy__(self, _memo: Any) -> Any:
        return self.copy()

    def __reduce_ex__(self, protocol: Any) -> Any:
        return np.asarray(self).__reduce_ex__(protocol)

    def __dlpack__(self, **more: Any) -> Any:
        return np.asarray(self).__dlpack__(**more)


def plain(array: Any) -> Any:
    """Of an Array, a view of NumPy's own class, which keeps the memory. Anything else as it is."""
    return np.asarray(array) if isinstance(array, Array) else array


def exported(array: Any) -> Any:
    """What a buffer of an Array, or of an EndedArray, is one of. The extension calls it."""
    return _refuse(array) if isinstance(array, EndedArray) else np.asarray(array)


def _refuse(ended: Any, *_arguments: Any, **_more: Any) -> Any:
    label = object.__getattribute__(ended, "_label")
    raise ValueError(
        f"the lease on {label} has ended, by the end of its block or by release(), and this array with it: "
        "copy what you need before"
    )


class EndedArray(_Base):  # type: ignore[misc]
    """An array of a lease that has ended: whatever is done with it is a ValueError."""

    _label = "a buffer"

    __array_ufunc__ = __array_function__ = __getitem__ = __setitem__ = __delitem__ = __contains__ = _refuse
    __bool__ = __int__ = __float__ = __complex__ = __index__ = __format__ = __len__ = __iter__ = _refuse
    __copy__ = __deepcopy__ = __reduce_ex__ = _refuse
    __dlpack__ = __dlpack_device__ = _refuse

    def __getattribute__(self, name: str) -> Any:
        return type(self) if name == "__class__" else _refuse(self)

    def __repr__(self) -> str:
        return f"<gpubroker.arrays.EndedArray: the lease on {object.__getattribute__(self, '_label')} has ended>"

    __str__ = __repr__


def of_memory(memory: Any, all_of_lease: Arrays | None) -> Any:
    """The array of NumPy's own class, which keeps the lease's memory, as one that ends with the lease."""
    array = memory.view(Array)
    array._all, array._memory = all_of_lease, memory
    return array if all_of_lease is None else all_of_lease.add(array)
