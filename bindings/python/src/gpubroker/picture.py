# SPDX-License-Identifier: Apache-2.0
"""A field of numbers as a picture: colours, a terminal's characters, a PNG with its scale.

The colours are those of viridis, in which equal steps look equal, and grey for what is no number. Owns nothing; writes
no file.
"""

from __future__ import annotations

import math
import struct
import zlib
from typing import Any

_VIRIDIS = [
    (68, 1, 84),
    (72, 40, 120),
    (62, 74, 137),
    (49, 104, 142),
    (38, 130, 142),
    (31, 158, 137),
    (53, 183, 121),
    (109, 205, 89),
    (180, 222, 44),
    (253, 231, 37),
]
_NO_NUMBER = (128, 128, 128)
_SHADES = " .:-=+*#%@"
_BAR = 16  # pixels: the width of the scale in a PNG, and the space beside it

# 3 x 5 pixels, a row in three bits.
_GLYPHS = {
    "0": (7, 5, 5, 5, 7),
    "1": (2, 6, 2, 2, 7),
    "2": (7, 1, 7, 4, 7),
    "3": (7, 1, 7, 1, 7),
    "4": (5, 5, 7, 1, 1),
    "5": (7, 4, 7, 1, 7),
    "6": (7, 4, 7, 5, 7),
    "7": (7, 1, 2, 2, 2),
    "8": (7, 5, 7, 5, 7),
    "9": (7, 5, 7, 1, 7),
    ".": (0, 0, 0, 0, 2),
    "-": (0, 0, 7, 0, 0),
    "+": (0, 2, 7, 2, 0),
    "e": (0, 7, 7, 4, 7),
}


def colours(field: Any, low: float, high: float) -> Any:
    """The field's values as bytes of red, green and blue, one dimension more.

    low and high have the first and the last colour.
    """
    import numpy as np

    values = np.asarray(field, dtype="float64")
    span = high - low if high > low else 1.0
    with np.errstate(invalid="ignore", over="ignore"):
        at = np.clip((values - low) / span, 0, 1) * (len(_VIRIDIS) - 1)
    known = np.isfinite(values)
    at = np.where(known, at, 0.0)
    table = np.array(_VIRIDIS, dtype="float64")
    first = np.minimum(at.astype("int64"), len(_VIRIDIS) - 2)
    share = (at - first)[..., None]
    mixed = table[first] * (1 - share) + table[first + 1] * share
    return np.where(known[..., None], np.rint(mixed), _NO_NUMBER).astype("uint8")


def sample(field: Any, rows: int, columns: int) -> Any:
    """The elements nearest to a grid of at most so many rows and columns."""
    import numpy as np

    def nearest(extent: int, most: int) -> Any:
        count = min(extent, most)
        return (np.arange(count) * extent + extent // 2) // max(count, 1)

    return field[np.ix_(nearest(field.shape[0], rows), nearest(field.shape[1], columns))]


# ---- a terminal ----


def _code(colour: Any, depth: int, ground: int) -> str:
    """ground: 38 for the character, 48 for what is behind it. depth: 24 bits, or 8 with the cube of 6 x 6 x 6."""
    red, green, blue = (int(part) for part in colour)
    if depth == 24:
        return f"{ground};2;{red};{green};{blue}"
    cube = [round(part / 255 * 5) for part in (red, green, blue)]
    return f"{ground};5;{16 + 36 * cube[0] + 6 * cube[1] + cube[2]}"


def _shaded(field: Any, low: float, high: float) -> list[str]:
    span = high - low if high > low else 1.0

    def shade(value: float) -> str:
        if not math.isfinite(value):
            return "?"
        return _SHADES[max(0, min(len(_SHADES) - 1, int((value - low) / span * len(_SHADES))))]

    return ["".join(shade(float(value)) for value in line) for line in field]


def text(field: Any, low: float, high: float, depth: int) -> list[str]:
    """Lines of a terminal: two rows of the field in each where it has colours, one where depth is 0."""
    if not depth:
        return _shaded(field, low, high)
    picture = colours(field, low, high)
    lines = []
    for at in range(0, len(picture), 2):
        below = picture[at + 1] if at + 1 < len(picture) else [None] * len(picture[at])
        cells = [
            f"\x1b[{_code(upper, depth, 38)}{'' if lower is None else ';' + _code(lower, depth, 48)}m▀"
            for upper, lower in zip(picture[at], below, strict=True)
        ]
        lines.append("".join(cells) + "\x1b[0m")
    return lines


# ---- a PNG ----


def _draw(picture: Any, words: str, row: int, column: int) -> None:
    for letter in words:
        for y, bits in enumerate(_GLYPHS.get(letter, ())):
            for x in range(3):
                if bits >> (2 - x) & 1:
                    picture[row + 2 * y : row + 2 * y + 2, column + 2 * x : column + 2 * x + 2] = 0
        column += 8


def with_scale(picture: Any, low: float, high: float) -> Any:
    """The picture with its scale to the right: the colours, high at the top and low at the bottom."""
    import numpy as np

    labels = [f"{value:.4g}" for value in (high, (low + high) / 2, low)]
    height = max(len(picture), 48)
    width = picture.shape[1] + 2 * _BAR + 8 * max(map(len, labels)) + 8
    made = np.full((height, width, 3), 255, dtype="uint8")
    made[: len(picture), : picture.shape[1]] = picture
    left = picture.shape[1] + _BAR
    made[:, left : left + _BAR] = colours(np.linspace(high, low, height)[:, None].repeat(_BAR, axis=1), low, high)
    for label, row in zip(labels, (1, height // 2 - 5, height - 11), strict=True):
        _draw(made, label, row, left + _BAR + 6)
    return made


def png(picture: Any) -> bytes:
    """A PNG file of bytes of red, green and blue."""
    height, width = picture.shape[:2]
    lines = b"".join(b"\0" + picture[row].tobytes() for row in range(height))

    def chunk(kind: bytes, content: bytes) -> bytes:
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(lines, 6)) + chunk(b"IEND", b"")
