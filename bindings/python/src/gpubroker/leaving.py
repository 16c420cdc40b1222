# SPDX-License-Identifier: Apache-2.0
"""How a child of multiprocessing leaves its brokers. Owns nothing.

Such a child ends by os._exit(), so its clients are never collected. Without this it would count as killed: a timeline
that it writes would end as that of a dead writer. multiprocessing calls its own finalizers before, also where the
child's function raised an exception.
"""

from __future__ import annotations

import os
import sys
import threading

from . import _core

_LAST = -1_000_000  # priority of a finalizer: behind those of multiprocessing's queues
_watched = 0  # the process whose end is watched


def watch() -> None:
    """This process has connected to a broker."""
    global _watched  # noqa: PLW0603 - of this process: a fork's child is another one
    util, process = sys.modules.get("multiprocessing.util"), sys.modules.get("multiprocessing.process")
    if util is None or process is None or process.parent_process() is None or _watched == os.getpid():
        return
    _watched = os.getpid()
    util.Finalize(None, _leave, exitpriority=_LAST)


def _leave() -> None:
    """Arrays that live have nobody who could use them, where this is the only thread."""
    _core._leave(threading.active_count() == 1)
