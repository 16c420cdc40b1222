# SPDX-License-Identifier: Apache-2.0
"""numba_ipc.py - the round with numba-cuda: an array's IPC handle, opened and closed each time. See peer.py."""
import os

import peer

os.environ.setdefault("NUMBA_CUDA_LOW_OCCUPANCY_WARNINGS", "0")  # the kernel is small on purpose
try:
    import numpy
    from numba import cuda
except ImportError:
    peer.without("numba with CUDA")


@cuda.jit
def fill(words, value):
    i = cuda.grid(1)
    if i < peer.WORDS:
        words[i] = value


def worker(connection):
    kernel = fill[peer.WORDS // 256, 256]
    try:
        while True:
            with connection.recv() as array:
                kernel(array, 1)
                cuda.synchronize()
            connection.send_bytes(b"1")
    except EOFError:
        pass


def main():
    array = cuda.device_array(peer.SIZE // 4, dtype=numpy.float32)
    try:
        fill[peer.WORDS // 256, 256](array, 0)
    except Exception as error:  # a numba and a numpy that do not go together
        peer.without("a numba that compiles here (%s)" % error)
    connection = peer.start(worker)

    def do_round():
        connection.send(array.get_ipc_handle())
        connection.recv_bytes()

    peer.serve(do_round)


if __name__ == "__main__":
    main()
