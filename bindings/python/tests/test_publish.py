# SPDX-License-Identifier: Apache-2.0
"""Named tensors as one buffer: what is loaded is what was published, whole, by any number of processes."""

import gc
import json
import multiprocessing
import os
import subprocess
import sys
import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import gpubroker
from gpubroker import safetensors

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
    return subprocess.run([program, "--address", broker.address, *arguments], capture_output=True, text=True, check=True).stdout


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


def test_a_published_buffer_is_a_safetensors_file(broker, publish, load, c, name, tmp_path):
    publish(metadata={"format": "pt"})
    ctl(broker, "save", name, str(tmp_path / "policy.safetensors"))
    c.unlink(name)
    ctl(broker, "load", name, str(tmp_path / "policy.safetensors"))
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
    gpubroker.publish(name, Changing(a=torch.nn.Parameter(torch.ones(3), requires_grad=False), b=torch.ones(5)), client=c)
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
    gpubroker.publish(name, {"t": torch.arange(6.0), "n": np.arange(4), "conj": torch.tensor([1 + 2j]).conj()}, client=c)
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
