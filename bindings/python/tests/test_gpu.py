# SPDX-License-Identifier: Apache-2.0
"""On a GPU: PyTorch, CuPy, numba, Warp and JAX, whichever are there, read what the others wrote, on streams of their
own.

    python test_gpu.py        prints TAP, needs neither pytest nor NumPy; skipped where a broker finds no GPU

It starts itself under the broker-run that GPUBROKER_RUN names, that the package brings, or that PATH has. Each writer
spins before it writes: who does not wait for it reads the value of before.
"""

from __future__ import annotations

import contextlib
import gc
import importlib.util
import itertools
import os
import shutil
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import gpubroker

SIZE = 1 << 20
ROUNDS = 10
SPIN_MS = 20
CHILD_SECONDS = 120

# ---- the frameworks: each has streams, takes a lease, writes late, and reads ----


class Torch:
    def __init__(self) -> None:
        import torch

        self.torch = torch
        torch.zeros(1, device="cuda")

    def stream(self) -> Any:
        return self.torch.cuda.Stream()

    def on(self, stream: Any) -> Any:
        return self.torch.cuda.stream(stream)

    def take(self, lease: gpubroker.Lease) -> Any:
        return lease.torch()

    def write(self, array: Any, value: float) -> None:
        self.torch.cuda._sleep(SPIN_MS * 1_500_000)
        array.fill_(value)

    def new(self, value: float) -> Any:
        made = self.torch.zeros(SIZE, device="cuda")
        self.write(made, value)
        return made

    def read(self, array: Any) -> set[float]:
        return set(self.torch.unique(array).cpu().tolist())


class CuPy:
    def __init__(self) -> None:
        import cupy

        self.cupy = cupy
        code = (
            'extern "C" __global__ void spin(long long n) { long long end = clock64() + n; while (clock64() < end); }'
        )
        self.spin = cupy.RawKernel(code, "spin")
        cupy.zeros(1)

    def stream(self) -> Any:
        return self.cupy.cuda.Stream(non_blocking=True)

    def on(self, stream: Any) -> Any:
        return stream

    def take(self, lease: gpubroker.Lease) -> Any:
        return lease.cupy()

    def write(self, array: Any, value: float) -> None:
        self.spin((1,), (1,), (self.cupy.int64(SPIN_MS * 1_500_000),))
        array.fill(value)

    def new(self, value: float) -> Any:
        made = self.cupy.zeros(SIZE, "float32")
        self.write(made, value)
        return made

    def read(self, array: Any) -> set[float]:
        return set(self.cupy.unique(array).get().tolist())


class Numba:
    """It has no current stream: wait() is told one, and each launch."""

    def __init__(self) -> None:
        from numba import cuda

        @cuda.jit
        def spin(times):
            for _ in range(times):
                cuda.nanosleep(1_000_000)

        @cuda.jit
        def fill(array, value):
            i = cuda.grid(1)
            if i < array.size:
                array[i] = value

        self.cuda, self.spin, self.fill = cuda, spin, fill
        self.current = cuda.default_stream()
        self.spin[1, 1](1)  # compiles: a numba that does not fit its NumPy says so here
        cuda.synchronize()

    def stream(self) -> Any:
        return self.cuda.stream()

    @contextlib.contextmanager
    def on(self, stream: Any) -> Iterator[None]:
        self.current = stream
        yield
        self.current = self.cuda.default_stream()

    def take(self, lease: gpubroker.Lease) -> Any:
        lease.wait(self.current)
        return lease.numba()

    def write(self, array: Any, value: float) -> None:
        self.spin[1, 1, self.current](SPIN_MS)
        self.fill[(array.size + 255) // 256, 256, self.current](array, value)

    def read(self, array: Any) -> set[float]:
        copied = array.copy_to_host(stream=self.current)
        self.current.synchronize()
        return set(copied.tolist())


class Warp:
    def __init__(self) -> None:
        import warp

        warp.init()
        self.warp = warp
        warp.zeros(1, device="cuda:0")

    def stream(self) -> Any:
        return self.warp.Stream("cuda:0")

    def on(self, stream: Any) -> Any:
        return self.warp.ScopedStream(stream)

    def take(self, lease: gpubroker.Lease) -> Any:
        return lease.warp()

    def write(self, array: Any, value: float) -> None:
        array.fill_(value)

    def read(self, array: Any) -> set[float]:
        copied = self.warp.clone(array, device="cpu")
        self.warp.synchronize_stream(self.warp.get_stream("cuda:0"))
        return set(copied.numpy().tolist())


class Jax:
    """It writes nothing in place, and works on streams of its own."""

    write = None

    def __init__(self) -> None:
        os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
        import jax

        self.jax = jax
        jax.numpy.zeros(1, device=jax.devices("gpu")[0])

    def stream(self) -> Any:
        return contextlib.nullcontext()

    def on(self, stream: Any) -> Any:
        return stream

    def take(self, lease: gpubroker.Lease) -> Any:
        return lease.jax()

    def read(self, array: Any) -> set[float]:
        return set(self.jax.numpy.unique(array).tolist())


KINDS = {"torch": Torch, "cupy": CuPy, "numba": Numba, "warp": Warp, "jax": Jax}


def present() -> tuple[dict[str, Any], dict[str, str]]:
    """The frameworks that are here and have a GPU, and why others have none."""
    found, missing = {}, {}
    for name, kind in KINDS.items():
        if not importlib.util.find_spec(name):
            missing[name] = "is not installed"
            continue
        try:
            found[name] = kind()
        except Exception as error:  # whatever a framework without a GPU raises
            missing[name] = f"cannot use a GPU: {error}".splitlines()[0]
    return found, missing


# ---- what is checked ----

numbers = itertools.count()


@contextlib.contextmanager
def buffers(c: gpubroker.Client, count: int = 1, **options: Any) -> Iterator[list[str]]:
    names = [f"gpu-{next(numbers)}" for _ in range(count)]
    for name in names:
        c.create(name, SIZE, "float32", timeline=True, **options)
    yield names
    for name in names:
        c.unlink(name)


def write_one(framework: Any, lease: gpubroker.Lease, value: float) -> None:
    array = framework.take(lease)
    framework.write(array, value)


def read_one(framework: Any, lease: gpubroker.Lease) -> set[float]:
    array = framework.take(lease)
    return framework.read(array)


def hands_over(c: gpubroker.Client, writer: Any, reader: Any) -> None:
    """Each round the reader sees that round's value, and signals when it has: the writer overwrites nothing that is
    read.
    """
    with buffers(c, 2) as (there, back):
        write_on, read_on = writer.stream(), reader.stream()
        for k in range(1, ROUNDS + 1):
            with writer.on(write_on), c.acquire(there, "rw", signal=k) as u:
                write_one(writer, u, float(k))
            with reader.on(read_on), c.acquire(there, at=k) as u:
                assert u.rights == "r"
                seen = read_one(reader, u)
            assert seen == {float(k)}, f"round {k}: {sorted(seen)[:3]}"
            with writer.on(write_on), c.acquire(back, "rw", at=k - 1, signal=k) as u:
                write_one(writer, u, -1.0)


def takes_dlpack(c: gpubroker.Client, framework: Any, module: Any) -> None:
    with buffers(c) as (name,), framework.on(framework.stream()), c.acquire(name, "rw", at=0, signal=1) as u:
        assert u.__dlpack_device__() == (2, u.device)
        array = module.from_dlpack(u)
        assert u.exports == 1
        framework.write(array, 3.0)
        assert framework.read(array) == {3.0}
        del array
        assert u.exports == 0


def is_on_the_gpu(c: gpubroker.Client) -> None:
    with buffers(c) as (name,), c.acquire(name, "rw") as u:
        assert u.device == 0
        assert not hasattr(u, "__array_interface__")
        for use in (u.numpy, lambda: memoryview(u)):
            try:
                use()
            except BufferError as error:
                assert "GPU" in str(error)
            else:
                raise AssertionError("the host cannot see it")
        data = bytes(range(256))
        u.write(data, offset=512)
        back = bytearray(256)
        u.read_into(back, offset=512)
        assert bytes(back) == data


def keeps_the_memory(c: gpubroker.Client, framework: Any) -> None:
    with buffers(c) as (name,), framework.on(framework.stream()):
        with c.acquire(name, "rw", signal=1) as u:
            array = framework.take(u)
        assert u.released
        assert u.exports == 1
        assert c.acquire(name, at=1).release() is None
        try:
            c.drain(name)
        except BufferError as error:
            assert "1 released lease" in str(error)
        else:
            raise AssertionError("it was drained under its array")
        del array
        gc.collect()
        assert u.exports == 0


def torch_refuses(c: gpubroker.Client, torch: Any) -> None:
    with buffers(c) as (name,):
        with c.acquire(name, "rw") as u:
            tensor = u.torch()
            view = tensor[:1]
        for use in (torch.sum, lambda t: t + 1, lambda t: t.data_ptr()):
            try:
                use(tensor)
            except ValueError as error:
                assert f"the lease on '{name}' has ended" in str(error)
            else:
                raise AssertionError("the tensor can be used")
        assert view.numel() == 1


def wants_the_last_stream(c: gpubroker.Client, framework: Any) -> None:
    with buffers(c) as (name,):
        first, second = framework.stream(), framework.stream()
        u = c.acquire(name, "rw", signal=1)
        for stream in (first, second):
            with framework.on(stream):
                write_one(framework, u, 1.0)
        try:
            u.release()
        except ValueError as error:
            assert "several streams" in str(error)
        else:
            raise AssertionError("nobody said which stream is the last")
        first.synchronize()
        u.release(stream=second)
        with framework.on(framework.stream()), c.acquire(name, at=1) as u:
            assert read_one(framework, u) == {1.0}


def signals_behind_at(c: gpubroker.Client, framework: Any) -> None:
    """A signal of a lease whose memory nobody used does not come before what the lease waits for."""
    with buffers(c) as (name,):
        with framework.on(framework.stream()), c.acquire(name, "rw", signal=1) as u:
            write_one(framework, u, 1.0)
        with c.acquire(name, "rw", at=1) as u:
            u.signal(2)
        with framework.on(framework.stream()), c.acquire(name, at=2) as u:
            assert read_one(framework, u) == {1.0}


def is_held_for_many_steps(c: gpubroker.Client, framework: Any) -> None:
    """A writer and a reader, on streams of their own, take their arrays once."""
    with buffers(c, 2) as (forth, back):
        writing, reading = framework.stream(), framework.stream()
        with framework.on(writing):
            u, taken = c.acquire(forth, "rw"), c.acquire(back)
            array = framework.take(u)
            taken.wait(writing)
        with framework.on(reading):
            v, read = c.acquire(forth), c.acquire(back, "rw")
            seen = framework.take(v)
            read.wait(reading)
        for k in range(1, ROUNDS + 1):
            with framework.on(writing):
                taken.wait(at=k - 1)
                framework.write(array, float(k))
                u.signal(k)
            with framework.on(reading):
                v.wait(at=k)
                values = framework.read(seen)
                read.signal(k)
            assert values == {float(k)}, f"step {k}: {sorted(values)[:3]}"
        del array, seen
        for lease in (u, v, taken, read):
            lease.release()


def publishes(c: gpubroker.Client, frameworks: list[Any]) -> None:
    """Arrays of several frameworks in one version, each written late on a stream of its own, and the next version."""
    for value in (1.0, 2.0):
        state = {}
        with contextlib.ExitStack() as streams:
            for framework in frameworks:
                streams.enter_context(framework.on(framework.stream()))
                state[type(framework).__name__] = framework.new(value)
            gpubroker.publish("gpu-test/version", state, client=c)
        policy = gpubroker.load("gpu-test/version", client=c, framework="torch")
        assert len(policy) == len(frameworks)
        for name, tensor in policy.items():
            assert set(tensor.unique().tolist()) == {value}, name
    c.unlink("gpu-test/version")


def is_captured(c: gpubroker.Client, torch: Any) -> None:
    """A graph of torch's works on the lease: it is taken before the capture and released after the last replay."""
    with buffers(c) as (name,):
        stream = torch.cuda.Stream()
        with torch.cuda.stream(stream), c.acquire(name, "rw", at=0, signal=1) as u:
            array = u.torch()
            array.zero_()
            graph = torch.cuda.CUDAGraph()
            stream.synchronize()
            with torch.cuda.graph(graph, stream=stream):
                array.add_(1)
            for _ in range(3):
                graph.replay()
            assert set(array.unique().tolist()) == {3.0}
            del graph, array
        with torch.cuda.stream(stream), c.acquire(name, at=1) as u:
            assert read_one(FRAMEWORKS["torch"], u) == {3.0}


def is_captured_by_cupy(c: gpubroker.Client, cupy: Any) -> None:
    with buffers(c) as (name,):
        stream = cupy.cuda.Stream(non_blocking=True)
        with stream, c.acquire(name, "rw", at=0, signal=1) as u:
            array = u.cupy()
            array.fill(0)
            cupy.add(array, 0, out=array)  # compiles
            stream.begin_capture()
            cupy.add(array, 1, out=array)
            graph = stream.end_capture()
            for _ in range(3):
                graph.launch(stream=stream)
            assert set(cupy.unique(array).get().tolist()) == {3.0}
            del graph, array
        with stream, c.acquire(name, at=1) as u:
            assert read_one(FRAMEWORKS["cupy"], u) == {3.0}


def solves_heat(device: str = "cuda") -> None:
    """examples/heat.py agrees with the closed form, and the field of three workers is that of one to the bit."""
    program = Path(__file__).resolve().parents[3] / "examples" / "heat.py"
    fields = []
    for workers in ("1", "3"):
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "u.npy"
            command = [broker_run(), "-q", "--device", device, "-n", workers, "--", sys.executable, str(program)]
            command += ["--size", "47x30", "--steps", "300", "--save", str(file)]
            done = subprocess.run(
                command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=CHILD_SECONDS
            )
            assert done.returncode == 0, done.stdout
            fields.append(file.read_bytes())
    assert fields[0] == fields[1]


def crosses_processes(c: gpubroker.Client, here: Any, there: str) -> None:
    """A child waits for our signal on its GPU stream, and writes twice the value into a buffer that we wait for."""
    with buffers(c, 2) as (forth, back):
        command = [sys.executable, __file__, "child", there, forth, back]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as child:
            stream = here.stream()
            for k in range(1, ROUNDS + 1):
                with here.on(stream), c.acquire(forth, "rw", at=k - 1, signal=k) as u:
                    write_one(here, u, float(k))
                with here.on(stream), c.acquire(back, at=k) as u:
                    seen = read_one(here, u)
                assert seen == {2.0 * k}, f"round {k}: {sorted(seen)[:3]}"
            said = child.communicate(timeout=CHILD_SECONDS)[0]
        assert child.returncode == 0, said


def child(there: str, forth: str, back: str) -> None:
    framework = KINDS[there]()
    stream = framework.stream()
    with gpubroker.connect() as c:
        for k in range(1, ROUNDS + 1):
            with framework.on(stream), c.acquire(forth, at=k) as u:
                (value,) = read_one(framework, u)
            with framework.on(stream), c.acquire(back, "rw", at=k - 1, signal=k) as u:
                write_one(framework, u, 2 * value)


# ---- TAP ----

FRAMEWORKS: dict[str, Any] = {}


def checks(c: gpubroker.Client) -> Iterator[tuple[str, Callable[[], None]]]:
    writers = {name: one for name, one in FRAMEWORKS.items() if one.write}
    yield "the host has no arrays of it, but copies", lambda: is_on_the_gpu(c)
    for writer, reader in itertools.product(writers, FRAMEWORKS):
        yield f"{reader} reads what {writer} wrote", lambda w=writer, r=reader: hands_over(c, writers[w], FRAMEWORKS[r])
    for name, one in FRAMEWORKS.items():
        yield f"{name}: a lease ends, and its array keeps the memory", lambda one=one: keeps_the_memory(c, one)
    for name in ("torch", "cupy"):
        if name in FRAMEWORKS:
            one = FRAMEWORKS[name]
            yield (
                f"{name}.from_dlpack() takes a lease",
                lambda one=one, name=name: takes_dlpack(c, one, getattr(one, name)),
            )
            yield f"{name}: of two streams one must be named", lambda one=one: wants_the_last_stream(c, one)
            yield f"{name}: a signal stands behind what its lease waits for", lambda one=one: signals_behind_at(c, one)
            yield f"{name}: leases are held for many steps", lambda one=one: is_held_for_many_steps(c, one)
    those = [FRAMEWORKS[name] for name in ("torch", "cupy") if name in FRAMEWORKS]
    if "torch" in FRAMEWORKS:
        yield "tensors of several frameworks are published", lambda: publishes(c, those)
    if "torch" in FRAMEWORKS:
        yield "torch refuses a tensor of a lease that has ended", lambda: torch_refuses(c, FRAMEWORKS["torch"].torch)
        yield "a graph of torch works on a lease", lambda: is_captured(c, FRAMEWORKS["torch"].torch)
    if "cupy" in FRAMEWORKS:
        yield "a graph of CuPy works on a lease", lambda: is_captured_by_cupy(c, FRAMEWORKS["cupy"].cupy)
        yield "examples/heat.py works with CuPy", solves_heat
    names = list(writers)
    for here, there in zip(names, names[1:] + names[:1], strict=True):
        yield f"{there} in another process answers {here}", lambda h=here, t=there: crosses_processes(c, writers[h], t)


def main() -> int:
    found, missing = present()
    FRAMEWORKS.update(found)
    count = failed = 0
    for name, reason in missing.items():
        count += 1
        print(f"ok {count} - {name} # SKIP {name} {reason}", flush=True)
    with gpubroker.connect() as c:
        for text, work in checks(c):
            count += 1
            try:
                work()
            except Exception:  # each is a point
                failed += 1
                print(
                    f"not ok {count} - {text}\n# " + traceback.format_exc().rstrip().replace("\n", "\n# "), flush=True
                )
            else:
                print(f"ok {count} - {text}", flush=True)
        print(f"1..{count}", flush=True)
    return failed > 0


def broker_run() -> str:
    brought = Path(gpubroker.__file__).parent / "bin" / "broker-run"
    return os.environ.get("GPUBROKER_RUN") or (
        str(brought) if brought.exists() else shutil.which("broker-run") or "broker-run"
    )


def start(stdout: int | None) -> subprocess.CompletedProcess[str] | None:
    """None where a broker finds no GPU. stdout: None is our own."""
    if subprocess.run([broker_run(), "-q", "--device", "cuda", "--", "true"], capture_output=True).returncode:
        return None
    command = [broker_run(), "-q", "--device", "cuda", "--", sys.executable, __file__, "inside"]
    return subprocess.run(command, stdout=stdout, stderr=subprocess.STDOUT, text=True)


def test_frameworks_on_a_gpu() -> None:
    import pytest

    done = start(subprocess.PIPE)
    if not done:
        pytest.skip("no GPU")
    assert done.returncode == 0, done.stdout


if __name__ == "__main__":
    if sys.argv[1:] == ["inside"]:
        sys.exit(main())
    if sys.argv[1:2] == ["child"]:
        sys.exit(child(*sys.argv[2:]))
    done = start(None)
    if not done:
        print("1..0 # SKIP a broker finds no GPU")
    sys.exit(done.returncode if done else 0)
