# SPDX-License-Identifier: Apache-2.0
"""What errors say: in Python's words, and of which buffer."""

import re
from pathlib import Path

import pytest

CORE = Path(__file__).resolve().parent.parent / "core"
LIBRARY = CORE.parent.parent.parent / "libbroker"
BROKER = LIBRARY.parent / "broker"

# What a program in Python does not cause: arguments that this package makes, modules and launches, and the library's
# own errors.
NOT_CAUSED = {
    "GPUB_EXPECTATION_INIT", "GPUB_HOST_KERNEL", "GPUB_LAUNCH_INIT", "GPUB_LAYOUT_TEXT_MAX", "GPUB_NODE_SIZE",
    "GPUB_SPEC_INIT", "GPUB_TICKET_MAX", "GPUB_TICKET_TERMS_INIT", "GPUB_BACKGROUND_CLOSE", "gpub_host_alloc",
    "gpub_host_kernel_", "gpub_info", "gpub_module_kernel", "gpub_module_open",
    "gpub_set_interrupt", "gpub_stream_create",
}  # fmt: skip


def translated() -> set[str]:
    return set(re.findall(r'\{ "(gpub\w*)", "', (CORE / "errors.c").read_text(), re.IGNORECASE))


def of_python(word: str) -> bool:
    """gpub_trim is Client.trim."""
    import gpubroker

    plain = word.removeprefix("gpub_")
    return any(hasattr(kind, plain) for kind in (gpubroker, gpubroker.Client, gpubroker.Lease))


def test_each_word_of_c_in_a_message_has_one_of_python():
    sources = [*LIBRARY.glob("*/*.c"), *BROKER.glob("*/*.c")]
    assert len(sources) > 50
    words = set()
    for source in sources:
        lines = [line for line in source.read_text().splitlines() if "'\"'" not in line]
        texts = [text for line in lines for text in re.findall(r'"((?:[^"\\]|\\.)*)"', line)]
        for text in texts:
            if " " in text:  # a message, not a name by itself
                words |= set(re.findall(r"\b(?:gpub|GPUB)_\w+", text))
    known = translated() | NOT_CAUSED
    assert not {
        word for word in words if word not in known and not of_python(word) and not word.startswith("GPUB_HOST_")
    }
    assert translated() <= words


def test_messages_say_what_to_do_in_python(c, broker, name):
    c.create(name, 8, "float32")
    c.create(f"{name}-other", 8)
    with broker.connect() as other:
        writing = other.acquire(name, "w")
        with pytest.raises(OSError, match=rf"'{name}'.*call trim, or end"):
            c.seal(name)
        writing.release()
    with pytest.raises(FileExistsError, match=r"replace it \(replace=True, --replace\)"):
        c.rename(name, f"{name}-other")
    with pytest.raises(OSError, match=rf"'{name}'.*dedicated=True"):
        c.chmod(name, 0o644)
    with c.acquire(name) as u, pytest.raises(OSError, match=f"'{name}' has no timeline: .*with timeline=True"):
        u.wait(at=1)
    c.unlink(name)
    c.create(name, 8, timeline=True)
    with (
        c.acquire(name) as u,
        pytest.raises(PermissionError, match=f"the lease of '{name}' does not have 'w': acquire it"),
    ):
        u.signal(1)
    c.unlink(f"{name}-other")


def test_a_name_in_a_message_stays_as_it_is(c):
    for name in ("gpub_trim", "GPUB_READ", "gpub_x/GPUB_WRITE"):
        with pytest.raises(FileNotFoundError, match=f"'{name}'"):
            c.stat(name)
