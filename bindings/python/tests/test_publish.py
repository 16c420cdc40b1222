# SPDX-License-Identifier: Apache-2.0
"""Named tensors as one buffer: what is loaded is what was published, whole, by any number of processes."""

import array
import gc
import json
import multiprocessing
import os
import pickle
import re
import subprocess
import sys
import time
import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import gpubroker
from gpubroker import files, safetensors

STATE = {
    "layer.0.weight": np.arange(12, dtype="float32").reshape(3, 4),
    "layer.0.bias": np.array([1.5, -2.5], "float64"),
    "steps": np.array(7, "int64"),
    "mask": np.array([True, False, True]),
    "half": np.linspace(0, 1, 5, dtype="float16"),
    "none": np.empty((0, 4), "uint8"),
    "bytes": np.arange(3, dtype="uint8"),
}


@pytest.fixture
def publish(c, name):
    def with_client(state=STATE, **more):
        gpubroker.publish(name, state, client=c, **more)

    return with_client


@pytest.fixture
def load(c, name):
    return lambda **more: gpubroker.load(name, client=c, framework="numpy", **more)


def ctl(broker, *arguments: str) -> str:
    program = os.environ.get("GPUBROKER_RUN", "broker-run").replace("broker-run", "broker-ctl")
    return subprocess.run(
        [program, "--address", broker.address, *arguments], capture_output=True, text=True, check=True
    ).stdout


def draining(broker, name) -> int:
    """How many earlier buffers of that name are not freed."""
    return sum(line.split()[0] == name and " draining " in line for line in ctl(broker, "list").splitlines() if line)


def nothing_is_left(broker) -> None:
    """Soon: the memory of what failed is freed when its mapping is closed."""
    deadline = time.monotonic() + 20
    while "publishing" in ctl(broker, "list"):
        assert time.monotonic() < deadline
        time.sleep(0.02)


def same(version, state) -> bool:
    return set(version) == set(state) and all(
        version[key].dtype == value.dtype and version[key].shape == value.shape and np.array_equal(version[key], value)
        for key, value in state.items()
    )


def test_what_is_loaded_is_what_was_published(publish, load):
    publish(metadata={"step": "3"})
    policy = load()
    assert same(policy, STATE)
    assert policy.metadata == {"step": "3"}
    assert len(policy) == len(STATE)
    assert "layer.0.bias" in policy
    assert "7 tensors" in repr(policy)


def test_tensors_are_views_of_one_mapping_and_cannot_be_written(publish, load):
    publish()
    policy = load()
    weight, bias = policy["layer.0.weight"], policy["layer.0.bias"]
    other = load()["layer.0.weight"]
    assert weight.base is bias.base
    assert weight.ctypes.data == other.ctypes.data  # the process maps the buffer once
    assert not weight.flags.writeable
    assert not weight.flags.owndata


def test_a_version_is_not_pickled(publish, load, name):
    publish()
    with pytest.raises(TypeError, match=f"a version cannot be pickled: send the name '{name}'"):
        pickle.dumps(load())


def test_tensors_begin_at_256_bytes_and_are_aligned(publish, load):
    publish()
    policy = load()
    addresses = {key: policy[key].__array_interface__["data"][0] for key in policy}
    assert min(addresses.values()) % 256 == 0
    assert all(address % STATE[key].itemsize == 0 for key, address in addresses.items())


def test_a_version_stays_until_its_last_tensor_ends(broker, publish, load, name):
    publish()
    weight = load()["layer.0.weight"]
    publish({"layer.0.weight": np.zeros((3, 4), "float32")})
    gc.collect()
    assert weight[2, 3] == 11
    assert load()["layer.0.weight"][2, 3] == 0
    assert draining(broker, name) == 1
    del weight
    deadline = time.monotonic() + 20
    while draining(broker, name):
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_generations_grow_and_are_waited_for(publish, load):
    publish()
    first = load()
    publish()
    second = first.wait_newer(timeout=10)
    assert second.generation > first.generation
    assert load(newer_than=first.generation, timeout=0).generation == second.generation
    with pytest.raises(TimeoutError):
        second.wait_newer(timeout=0.01)
    with pytest.raises(TimeoutError):
        load(newer_than=second.generation, timeout=0)


def test_a_version_is_sealed_and_stays_when_its_maker_ends(broker, c, name, load):
    with broker.connect() as maker:
        gpubroker.publish(name, STATE, client=maker)
    assert c.stat(name).sealed
    assert not c.stat(name).ephemeral
    assert same(load(), STATE)
    with pytest.raises(OSError, match="sealed"):
        c.acquire(name, "rw")


def test_what_cannot_be_published_leaves_the_version_that_is_there(broker, c, publish, load, name):
    publish()
    first = load()
    for wrong, error in [
        ({"a": np.array(["text"])}, TypeError),
        ({"a": np.empty(1, "complex128")}, TypeError),
        ({7: np.ones(1)}, TypeError),
        ({"__metadata__": np.ones(1)}, ValueError),
    ]:
        with pytest.raises(error):
            publish(wrong)
    for metadata in ({"step": 3}, {3: "step"}):
        with pytest.raises(TypeError):
            publish(metadata=metadata)

    class Failing:
        dtype, shape = np.dtype("float32"), (4,)

        def __array__(self, *_args, **_more):
            raise RuntimeError("it cannot be read")

    with pytest.raises(RuntimeError, match="it cannot be read"):
        publish({"a": Failing()})
    assert load().generation == first.generation
    assert name in ctl(broker, "list")
    nothing_is_left(broker)


@pytest.mark.parametrize(
    ("value", "is_"),
    [
        (7, np.array(7)),
        (0.5, np.array(0.5)),
        (True, np.array(True)),
        ([1, 2, 3], np.array([1, 2, 3])),
        ([[1, 2.5]], np.array([[1, 2.5]])),
        (range(3), np.arange(3)),
        (np.float32(2), np.array(2, "float32")),
        (memoryview(b"abc"), np.frombuffer(b"abc", "uint8")),
        (array.array("f", [1, 2]), np.array([1, 2], "float32")),
        (np.arange(3, dtype=">i4"), np.arange(3, dtype="int32")),
        (np.arange(12.0).reshape(3, 4)[:, ::-2].T, np.arange(12.0).reshape(3, 4)[:, ::-2].T),
    ],
)
def test_what_is_no_array_is_converted(publish, load, value, is_):
    publish({"a": value, "weight": np.ones(2, "float32")})
    assert same(load(), {"a": is_, "weight": np.ones(2, "float32")})


@pytest.mark.parametrize(
    "value",
    [
        None, "text", b"bytes", {"nested": np.ones(2)}, [[1], [1, 2]], object(), [None], np.array(["text"]),
        np.datetime64("2026-01-01"), np.ma.array([1.0, 2.0], mask=[0, 1]), np.zeros(2, "f4,f4"), np.longdouble(1), 1j,
    ],
    ids=lambda value: type(value).__name__,
)  # fmt: skip
def test_what_cannot_be_converted_is_refused_by_name_before_anything_is_made(c, broker, publish, load, value):
    publish()
    before = load().generation
    c.create("serial", 1)
    serial = c.stat("serial").generation
    c.unlink("serial")
    with pytest.raises(TypeError, match=r"'layer\.7'"):
        publish({"weight": np.ones(2), "layer.7": value})
    c.create("serial", 1)
    assert c.stat("serial").generation == serial + 1  # no buffer was made meanwhile
    c.unlink("serial")
    assert load().generation == before
    assert same(load(), STATE)


def test_what_is_no_mapping_is_refused(publish):
    for tensors in ([("a", np.ones(3))], iter([("a", np.ones(3))]), np.ones(3), None):
        with pytest.raises(TypeError, match=r"a mapping of names to tensors.*dict\(\) makes one of pairs"):
            publish(tensors)


def test_publish_returns_the_generation(c, name, load):
    first = gpubroker.publish(name, STATE, client=c)
    assert first == load().generation == c.stat(name).generation
    assert gpubroker.publish(name, STATE, client=c) > first


@pytest.mark.parametrize("name", ["n" * 96, "n" * 200, "run 1/policy", "/begins", "ä" * 10, "n" * 80 + "?"])
def test_a_name_that_cannot_be_is_refused_before_anything_is_made(c, broker, name):
    with pytest.raises(OSError, match=re.escape(f"'{name[:80]}")) as refused:
        gpubroker.publish(name, STATE, client=c)
    assert "publishing" not in str(refused.value)
    nothing_is_left(broker)


def test_a_long_name(c):
    gpubroker.publish("n" * 95, STATE, client=c)
    assert same(gpubroker.load("n" * 95, client=c, framework="numpy"), STATE)
    c.unlink("n" * 95)


@pytest.mark.parametrize("timeout", [-1, float("nan")])
def test_a_timeout_of_load_is_no_negative_number(load, timeout):
    with pytest.raises(ValueError, match="timeout"):
        load(timeout=timeout)


def test_headers_of_versions_that_are_gone_do_not_stay(c, name):
    """Each with other tensors, as a publisher may choose them."""
    tracemalloc.start()
    try:
        grown = []
        for version in range(12):
            state = {f"{version}-{number}-{'n' * 60}": np.empty(0, "uint8") for number in range(6000)}
            gpubroker.publish(name, state, client=c)
            assert len(gpubroker.load(name, client=c, framework="numpy")) == 6000
            del state
            gc.collect()
            grown.append(tracemalloc.get_traced_memory()[0])
    finally:
        tracemalloc.stop()
    assert grown[-1] - grown[0] < 2 << 20, grown


def test_equal_headers_are_read_once(publish, load):
    publish()
    first = load()
    publish()
    assert load()._places is first._places


def test_mode_is_who_may_load_it(c, publish, name):
    publish(mode=0o640)
    assert c.stat(name).mode == 0o640


def test_a_buffer_that_holds_no_tensors_is_refused(c, name, load):
    def written(content: bytes) -> str:
        c.create(name, max(1, len(content)))
        with c.acquire(name, "w") as u:
            u.write(content)
        with pytest.raises(ValueError, match=f"'{name}' does not hold tensors") as refused:
            load()
        c.unlink(name)
        return str(refused.value)

    def header(**tensors) -> bytes:
        text = json.dumps(tensors).encode()
        return len(text).to_bytes(8, "little") + text + bytes(16)

    right = {"dtype": "F32", "shape": [2, 2], "data_offsets": [0, 16]}
    assert "size of a header" in written(b"1234")
    assert "size of a header" in written(bytes([255] * 8))
    assert "no JSON" in written((4).to_bytes(8, "little") + b"}{}{")
    assert "no JSON object" in written((2).to_bytes(8, "little") + b"[]")
    assert "are known" in written(header(a=right | {"dtype": "F33"}))
    assert "are known" in written(header(a=right | {"data_offsets": [0]}))
    assert "are known" in written(header(a="text"))
    assert "no number" in written(header(a=right | {"shape": [-2, -2]}))
    assert "no number" in written(header(a=right | {"shape": [True, 4]}))
    assert "does not fill" in written(header(a=right | {"data_offsets": [8, 24]}))
    assert "does not fill" in written(header(a=right | {"shape": [1 << 62, 1 << 62]}))
    for shape in ([0, 1 << 62, 3], [0, 1 << 70]):
        assert "too large" in written(header(a={"dtype": "F32", "shape": shape, "data_offsets": [0, 0]}))
    assert "no strings" in written(header(a=right, __metadata__={"a": 1}))
    c.create(name, 4, "float32")
    with pytest.raises(ValueError, match="an array of float32"):
        load()


def test_there_is_no_such_name(load):
    with pytest.raises(FileNotFoundError):
        load()
    with pytest.raises(TimeoutError):
        load(timeout=0.01)


def test_a_framework_that_is_not_known(publish, c, name):
    publish()
    with pytest.raises(ValueError, match="'numpy', 'torch' and 'cupy'"):
        gpubroker.load(name, client=c, framework="abacus")


def test_a_published_buffer_is_a_safetensors_file(publish, load, c, name, tmp_path):
    publish(metadata={"format": "pt"})
    files.save_file(c, name, str(tmp_path / "policy.safetensors"))
    c.unlink(name)
    files.load_file(c, name, str(tmp_path / "policy.safetensors"))
    policy = load()
    assert same(policy, STATE)
    assert policy.metadata == {"format": "pt"}


shapes = st.lists(st.integers(0, 5), max_size=4).map(tuple)
dtypes = st.sampled_from(["float32", "bool", "int64", "float16", "complex64", "bfloat16"])


tensors = st.dictionaries(st.text(max_size=20), st.tuples(dtypes, shapes), max_size=8)


@given(tensors, st.dictionaries(st.text(), st.text(), max_size=2))
def test_a_header_is_read_as_it_was_planned(tensors, metadata):
    tensors.pop("__metadata__", None)
    header, places, total = safetensors.plan(tuple((name, *tensor) for name, tensor in tensors.items()), metadata)
    assert total == max([len(header), *(place.end for place in places.values())])
    assert len(header) % 256 == 0
    size = safetensors.header_size(header, total)
    assert safetensors.parse(header[8:], total) == (places, metadata)
    assert size == len(header) - 8


@given(st.binary(max_size=200), st.integers(0, 1 << 63))
def test_any_header_is_read_or_refused(text, total):
    try:
        places, _ = safetensors.parse(text, total)
    except safetensors.Damaged:
        return
    assert all(0 <= place.begin <= place.end <= total for place in places.values())


def test_a_state_dict_of_pytorch(c, name):
    torch = pytest.importorskip("torch")
    state = {
        "weight": torch.randn(30, 40, dtype=torch.bfloat16),
        "transposed": torch.randn(4, 6).t(),
        "parameter": torch.nn.Parameter(torch.ones(3)),
        "scalar": torch.tensor(3.5),
        "none": torch.empty(0, 4),
        "mask": torch.tensor([True, False]),
        "eighth": torch.ones(3).to(torch.float8_e4m3fn),
    }
    gpubroker.publish(name, state, client=c)
    policy = gpubroker.load(name, client=c, framework="torch")
    for key, value in state.items():
        assert (policy[key].dtype, policy[key].shape) == (value.dtype, value.shape), key
        assert torch.equal(policy[key].float(), value.detach().float()), key
    for tensor in policy.values():  # so torch.save of one writes that one
        assert tensor.untyped_storage().nbytes() == tensor.nbytes
    assert 0 < abs(policy["weight"].data_ptr() - policy["mask"].data_ptr()) < 8192  # of one mapping


def test_tensors_of_pytorch_without_memory_or_dense_layout_are_refused_by_name(c, name):
    torch = pytest.importorskip("torch")
    for tensor, what in ((torch.empty(3, device="meta"), "no memory"), (torch.eye(3).to_sparse(), "not dense")):
        with pytest.raises(ValueError, match=f"'layer.7'.*{what}"):
            gpubroker.publish(name, {"a": torch.ones(2), "layer.7": tensor}, client=c)
    with pytest.raises(TypeError, match="'_extra_state'"):
        gpubroker.publish(name, {"a": torch.ones(2), "_extra_state": {"amax": 1.0}}, client=c)
    with pytest.raises(FileNotFoundError):
        c.stat(name)


def test_tensors_of_pytorch_that_are_no_plain_memory(c, name):
    torch = pytest.importorskip("torch")
    short = torch.arange(4.0)
    short.untyped_storage().resize_(8)
    state = {"zero": torch._efficientzerotensor(4), "one": torch.ones(2)}
    gpubroker.publish(name, state, client=c)
    policy = gpubroker.load(name, client=c, framework="torch")
    assert (policy["zero"].tolist(), policy["one"].tolist()) == ([0, 0, 0, 0], [1, 1])
    with pytest.raises(ValueError, match="smaller"):
        gpubroker.publish(name, {"short": short}, client=c)


class Changing(dict):
    """Tensors that get another type and other memory when they were looked at."""

    def items(self):
        for key, value in super().items():
            yield key, value
            value.data = value.detach().int()


def test_what_is_published_is_what_was_there_first(c, name):
    torch = pytest.importorskip("torch")
    gpubroker.publish(
        name, Changing(a=torch.nn.Parameter(torch.ones(3), requires_grad=False), b=torch.ones(5)), client=c
    )
    policy = gpubroker.load(name, client=c, framework="torch")
    assert [policy[key].dtype for key in "ab"] == [torch.float32] * 2
    assert (policy["a"].tolist(), policy["b"].tolist()) == ([1.0] * 3, [1.0] * 5)


def test_a_shape_may_be_a_list(c, name):
    class Listed:
        dtype, shape = np.dtype("float32"), [2, 2]

        def __array__(self, dtype=None, copy=None):
            return np.ones((2, 2), "float32")

    gpubroker.publish(name, {"a": Listed()}, client=c)
    assert gpubroker.load(name, client=c, framework="numpy")["a"].tolist() == [[1, 1], [1, 1]]


def test_a_state_dict_of_pytorch_and_arrays_of_numpy(c, name):
    torch = pytest.importorskip("torch")
    gpubroker.publish(
        name, {"t": torch.arange(6.0), "n": np.arange(4), "conj": torch.tensor([1 + 2j]).conj()}, client=c
    )
    policy = gpubroker.load(name, client=c, framework="numpy")
    assert policy["t"].tolist() == [0, 1, 2, 3, 4, 5]
    assert policy["n"].tolist() == [0, 1, 2, 3]
    assert policy["conj"].tolist() == [1 - 2j]


def test_no_part_is_beyond_its_buffer(c, name):
    c.create(name, 64)
    with c.acquire(name, "rw") as u:
        for code, bits, shape, offset in (
            (2, 32, (17,), 0),
            (2, 32, (1,), 64),
            (2, 64, (1 << 62, 8), 0),
            (1, 8, (65,), 0),
            (1, 8, (0,), 65),
        ):
            with pytest.raises(ValueError, match="beyond the end"):
                u._part(code, bits, shape, offset)
        with pytest.raises(BufferError, match="not aligned"):
            u._part(2, 32, (1,), 2)
        for shape in ((0, 1 << 62, 3), (1 << 62, 0, 8)):  # no bytes, but strides that overflow
            with pytest.raises(ValueError, match="beyond the end"):
                u._part(2, 32, shape, 0)
        for copy in ((0, 0, 65), (64, 0, 1), (1 << 63, 0, 1 << 63)):
            with pytest.raises(ValueError, match="beyond the end"):
                u._gather([copy])
        assert u.exports == 0


def test_earlier_versions_give_their_memory_back(own_broker):
    broker = own_broker(GPUB_HOST_MEMORY="64M")
    with broker.connect() as c, broker.connect() as other:
        for version in range(20):
            gpubroker.publish("large", {"t": np.full(20 << 20, version, "uint8")}, client=c, timeout=20)
            policy = gpubroker.load("large", client=other, framework="numpy")
            assert policy["t"][-1] == version
        del policy


# ---- several processes ----

VERSIONS = 60


def state_of(version: int) -> dict[str, np.ndarray]:
    """Large enough that a reader can come in between."""
    return {f"t{i}": np.full(100_000 + i, version, "int64") for i in range(8)}


def read_all(address: str, name: str, results) -> None:
    """Loads versions until the last one, and says how many it saw, and whether one was torn."""
    with gpubroker.connect(address) as c:
        policy = gpubroker.load(name, client=c, framework="numpy", timeout=30)
        seen, torn = 1, 0
        while True:
            values = {int(value) for tensor in policy.values() for value in (tensor.min(), tensor[777], tensor.max())}
            torn += len(values) != 1
            if VERSIONS in values:
                break
            policy = policy.wait_newer(timeout=30)
            seen += 1
        del policy
        results.put((seen, torn))


def test_no_reader_sees_parts_of_two_versions(broker, c, name):
    context = multiprocessing.get_context("spawn")
    results = context.Queue()
    readers = [context.Process(target=read_all, args=(broker.address, name, results)) for _ in range(3)]
    for reader in readers:
        reader.start()
    for version in range(VERSIONS + 1):
        gpubroker.publish(name, state_of(version), client=c)
    for reader in readers:
        seen, torn = results.get(timeout=60)
        assert seen >= 1
        assert torn == 0
        reader.join()


def test_a_publisher_that_is_killed_leaves_nothing(broker, c, name, load):
    gpubroker.publish(name, state_of(0), client=c)
    program = """
import os, signal, sys
import numpy as np
import gpubroker

class Fatal:
    dtype, shape = np.dtype("float32"), (4,)
    def __array__(self, *args, **more):
        os.kill(os.getpid(), signal.SIGKILL)

with gpubroker.connect(sys.argv[1]) as c:
    gpubroker.publish(sys.argv[2], {"a": Fatal()}, client=c)
"""
    done = subprocess.run([sys.executable, "-c", program, broker.address, name])
    assert done.returncode == -9
    assert same(load(), state_of(0))
    nothing_is_left(broker)
