# SPDX-License-Identifier: Apache-2.0
"""The names of element types, and NumPy's types for them. Owns nothing; imports NumPy when it is called."""

from __future__ import annotations

import re
from typing import Any


def split(name: str) -> tuple[str, int]:
    """'float32x4' as ('float32', 4): the type of a number, and how many of them an element has."""
    match = re.fullmatch(r"((?:complex)?.*?)(?:x(\d+))?", name)
    assert match
    return match[1], int(match[2] or 1)


def of_numpy(name: str) -> Any:
    """numpy.dtype of a type of numbers. bfloat16 and the like are in the package ml_dtypes.

    BufferError: that is not installed.
    """
    import numpy as np

    try:
        return np.dtype(name)
    except TypeError:
        try:
            import ml_dtypes
        except ImportError as error:
            raise BufferError(f"NumPy has no {name}: install ml_dtypes, or use torch") from error
        return np.dtype(getattr(ml_dtypes, name))
