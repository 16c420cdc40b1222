# SPDX-License-Identifier: Apache-2.0
"""torch_ipc.py - the round with torch.multiprocessing: a CUDA tensor sent through a pipe. See peer.py."""
import peer

try:
    import torch
    import torch.multiprocessing  # teaches pipes to send CUDA tensors
except ImportError:
    peer.without("torch")


def worker(connection):
    try:
        while True:
            tensor = connection.recv()
            tensor[:peer.WORDS].fill_(1)
            torch.cuda.synchronize()
            del tensor
            connection.send_bytes(b"1")
    except EOFError:
        pass


def main():
    tensor = torch.zeros(peer.SIZE // 4, dtype=torch.float32, device="cuda:0")
    torch.cuda.synchronize()
    connection = peer.start(worker)

    def do_round():
        connection.send(tensor)
        connection.recv_bytes()

    peer.serve(do_round)


if __name__ == "__main__":
    main()
