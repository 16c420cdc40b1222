# SPDX-License-Identifier: Apache-2.0
"""cupy_ipc.py - the round with raw CUDA IPC of CuPy: a handle sent, opened and closed each round. See peer.py."""
import peer

try:
    import cupy
    from cupy.cuda import runtime
except ImportError:
    peer.without("cupy")


def work_on(pointer):
    memory = cupy.cuda.UnownedMemory(pointer, peer.SIZE, None, 0)
    array = cupy.ndarray(peer.SIZE // 4, cupy.float32, cupy.cuda.MemoryPointer(memory, 0))
    array[:peer.WORDS].fill(1)
    cupy.cuda.Device(0).synchronize()


def worker(connection):
    cupy.cuda.Device(0).use()
    try:
        while True:
            pointer = runtime.ipcOpenMemHandle(connection.recv_bytes())
            work_on(pointer)
            runtime.ipcCloseMemHandle(pointer)
            connection.send_bytes(b"1")
    except EOFError:
        pass


def main():
    cupy.cuda.Device(0).use()
    pointer = runtime.malloc(peer.SIZE)
    connection = peer.start(worker)

    def do_round():
        connection.send_bytes(runtime.ipcGetMemHandle(pointer))
        connection.recv_bytes()

    peer.serve(do_round)


if __name__ == "__main__":
    main()
