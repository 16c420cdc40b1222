# SPDX-License-Identifier: Apache-2.0
"""python -m gpubroker: the buffers of a broker, and what is in them.

python -m gpubroker ls [PATTERN]
python -m gpubroker show NAME
python -m gpubroker view NAME [--slice 0,:,:] [--every 1s] [--png FILE]
python -m gpubroker load NAME FILE
python -m gpubroker save NAME FILE
"""

from __future__ import annotations

import argparse
import contextlib
import math
import os
import shutil
import signal
import sys
import time
from collections.abc import Callable
from types import FrameType

from . import fields, files, picture
from ._core import Client, Info

_PNG_SIDE = 4096  # pixels: of larger fields a sample is drawn


# ---- ls ----


def _found(client: Client, patterns: list[str]) -> list[Info]:
    """Each buffer once, in the order of the names."""
    found = {info.name: info for pattern in patterns or ["*"] for info in client.list(pattern)}
    return [found[name] for name in sorted(found)]


def _what(info: Info) -> str:
    return f"{info.dtype}[{','.join(map(str, info.shape))}]"


_FLAGS = ("timeline", "sealed", "ephemeral", "dedicated", "same_address")


def _flags(info: Info) -> str:
    flags = [flag for flag in _FLAGS if getattr(info, flag)]
    if info.reserve:
        flags.append("growable")
    return ",".join(flags) or "-"


def ls(client: Client, options: argparse.Namespace) -> None:
    lines = [("NAME", "TYPE", "BYTES", "DEV", "GENERATION", "FLAGS")]
    for info in _found(client, options.pattern):
        device = "host" if info.device < 0 else str(info.device)
        lines.append((info.name, _what(info), f"{info.nbytes:,}", device, str(info.generation), _flags(info)))
    widths = [max(len(line[column]) for line in lines) for column in range(len(lines[0]))]
    right = (2, 3, 4)
    for line in lines:
        cells = (
            cell.rjust(width) if at in right else cell.ljust(width)
            for at, (cell, width) in enumerate(zip(line, widths, strict=True))
        )
        print("  ".join(cells).rstrip())


# ---- show ----


def _statistics(found: fields.Statistics) -> str:
    text = f"minimum {found.minimum:.6g}, maximum {found.maximum:.6g}, mean {found.mean:.6g}, {found.nans:,} NaN"
    return text + (f", {found.infinite:,} infinite" if found.infinite else "")


def show(client: Client, options: argparse.Namespace) -> None:
    info = client.stat(options.name)
    where = "host device" if info.device < 0 else f"device {info.device}"
    print(f"{info.name}: {_what(info)}, {info.nbytes:,} bytes, {where}")
    print(
        f"generation {info.generation}, mode {info.mode:04o}, uid {info.owner}, gid {info.group}, flags {_flags(info)}"
    )
    found = fields.statistics(fields.read(client, options.name))
    print(f"{found.elements:,} elements: {_statistics(found)}")


# ---- view ----


def _depth() -> int:
    """The colours that the terminal has, in bits; 0: none."""
    if not sys.stdout.isatty() or os.environ.get("NO_COLOR"):
        return 0
    if os.environ.get("COLORTERM") in ("truecolor", "24bit"):
        return 24
    return 8 if "256color" in os.environ.get("TERM", "") else 0


def _range(options: argparse.Namespace, found: fields.Statistics) -> tuple[float, float]:
    low, high = options.range or (found.minimum, found.maximum)
    return (0.0, 1.0) if math.isnan(low) or math.isnan(high) else (low, high)


def _frame(client: Client, options: argparse.Namespace) -> str:
    """What the terminal shows, or the name of the file that was written."""
    field = fields.field(client, options.name, options.slice)
    found = fields.statistics(field.reshape(-1))
    low, high = _range(options, found)
    if options.png:
        drawn = picture.colours(picture.sample(field, _PNG_SIDE, _PNG_SIDE), low, high)
        with files.replacing(options.png) as file:
            file.write(picture.png(picture.with_scale(drawn, low, high)))
        return f"{options.png}: {field.shape[0]} x {field.shape[1]}, {_statistics(found)}"
    size = shutil.get_terminal_size()
    depth = _depth()
    rows = max(1, size.lines - 3) * (2 if depth else 1)
    # a character is about twice as high as it is wide
    columns = size.columns
    scale = max(field.shape[0] / rows, field.shape[1] / columns / (1 if depth else 2), 1e-9)
    fits = picture.sample(field, min(rows, max(1, round(field.shape[0] / scale))), columns)
    lines = picture.text(fits, low, high, depth)
    ramp = picture.text([[low + (high - low) * step / 19 for step in range(20)]], low, high, depth)[0]
    shown = f"{options.name} {field.shape[0]} x {field.shape[1]}  {low:.4g} {ramp} {high:.4g}"
    return "\n".join([*lines, shown, _statistics(found)])


def view(client: Client, options: argparse.Namespace) -> None:
    if options.every is None:
        print(_frame(client, options))
        return
    terminal = sys.stdout.isatty() and not options.png
    due = time.monotonic()
    while True:
        frame = _frame(client, options)
        # each line is overwritten up to its end, so that nothing flickers
        print("\x1b[H" + frame.replace("\n", "\x1b[K\n") + "\x1b[J" if terminal else frame, flush=True)
        due = max(due + options.every, time.monotonic())
        time.sleep(max(0.0, due - time.monotonic()))


# ---- load, save ----


def load(client: Client, options: argparse.Namespace) -> None:
    if options.device is not None:
        client.set_device(options.device)
    files.load_file(
        client,
        options.name,
        options.file,
        mode=options.mode,
        replace=options.replace,
        seal=options.seal,
        dedicated=options.dedicated,
        same_address=options.same_address,
        reserve=options.reserve,
        device=options.device,
        timeout=options.wait,
        quiet=options.quiet,
    )


def save(client: Client, options: argparse.Namespace) -> None:
    device = client.stat(options.name).device
    if device >= 0:
        client.set_device(device)
    files.save_file(client, options.name, options.file, quiet=options.quiet)


# ---- the command line ----


def seconds(text: str) -> float:
    """'2', '2s', '500ms'."""
    for ending, share in (("ms", 1e-3), ("s", 1.0), ("", 1.0)):
        if text.endswith(ending):
            with contextlib.suppress(ValueError):
                value = float(text.removesuffix(ending)) * share
                if 0 < value < 1e6:
                    return value
            break
    raise argparse.ArgumentTypeError(f"{text!r} is no time: say 1s or 200ms")


def mode(text: str) -> int:
    """'0640'."""
    with contextlib.suppress(ValueError):
        value = int(text, 8)
        if 0 <= value <= 0o777:
            return value
    raise argparse.ArgumentTypeError(f"{text!r} is no mode: say 0640")


def size(text: str) -> int:
    """'4096', '64K', '512M', '4G'."""
    number, unit = (text[:-1], text[-1:].upper()) if text[-1:].upper() in ("K", "M", "G") else (text, "")
    if number.isascii() and number.isdigit():
        return int(number) << {"": 0, "K": 10, "M": 20, "G": 30}[unit]
    raise argparse.ArgumentTypeError(f"{text!r} is no size: say 4096, 64K, 512M or 4G")


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(
        "python -m gpubroker",
        description="Looks at the buffers of a broker while programs use them, and moves them from and to files.",
    )
    made.add_argument("--address", help="the broker: its name, or unix:PATH ($GPUBROKER, else the default sockets)")
    commands = made.add_subparsers(required=True, metavar="COMMAND")

    def command(
        name: str, run: Callable[[Client, argparse.Namespace], None], help_text: str
    ) -> argparse.ArgumentParser:
        one = commands.add_parser(name, help=help_text, description=help_text)
        one.set_defaults(run=run)
        return one

    command("ls", ls, "list the buffers that you own or may acquire").add_argument(
        "pattern", nargs="*", metavar="PATTERN", help="names, in which * and ? stand for other characters"
    )
    command(
        "show", show, "show a buffer's type, and minimum, maximum, mean and NaNs of its elements (needs NumPy)"
    ).add_argument("name")
    pictured = command("view", view, "show a field of two dimensions as a picture (needs NumPy)")
    pictured.add_argument("name")
    pictured.add_argument(
        "--slice", help="of more dimensions: an index or : for each, as 0,:,: (the last two, the others at 0)"
    )
    pictured.add_argument(
        "--every", type=seconds, metavar="TIME", help="again and again, at these intervals: 1s, 200ms"
    )
    pictured.add_argument("--png", metavar="FILE", help="write a PNG with a scale instead")
    pictured.add_argument(
        "--range", nargs=2, type=float, metavar=("LOW", "HIGH"), help="values of the first and the last colour"
    )
    loaded = command(
        "load",
        load,
        "make a buffer with what is in a file: .npy and .safetensors by their format, others and - (stdin) as they are",
    )
    loaded.add_argument("name")
    loaded.add_argument("file")
    loaded.add_argument("--mode", type=mode, default=0o600, help="who may acquire it (0600)")
    loaded.add_argument("--replace", action="store_true", help="take the place of a buffer of that name, in one step")
    loaded.add_argument("--seal", action="store_true", help="nobody can write it later")
    loaded.add_argument("--dedicated", action="store_true", help="in memory of its own")
    loaded.add_argument("--same-address", action="store_true", help="each process maps it at the same address")
    loaded.add_argument(
        "--reserve", type=size, default=0, metavar="SIZE", help="how large it may become: 512M, 4G (0: as now)"
    )
    loaded.add_argument(
        "--device", type=int, metavar="N", help="the device, as this process numbers them (the current one)"
    )
    loaded.add_argument("--wait", type=seconds, default=0, metavar="TIME", help="wait so long for memory (0)")
    saved = command(
        "save", save, "write a buffer to a file: .npy and .safetensors in their format, others and - (stdout) as it is"
    )
    saved.add_argument("name")
    saved.add_argument("file")
    for one in (loaded, saved):
        one.add_argument("--quiet", action="store_true", help="show no progress")
    return made


def _end(number: int, _frame: FrameType | None) -> None:
    """Of SIGTERM and SIGHUP: what was begun is undone, as after Ctrl-C."""
    sys.exit(128 + number)


def main() -> int:
    options = parser().parse_args()
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) == signal.SIG_DFL:
            signal.signal(number, _end)
    try:
        with Client(options.address) as client:
            options.run(client, options)
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except ImportError as error:
        sys.exit(f"gpubroker: {error}: pip install numpy")
    except (OSError, ValueError, BufferError) as error:
        sys.exit(f"gpubroker: {getattr(error, 'strerror', None) or error}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
