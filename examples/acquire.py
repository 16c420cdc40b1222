# SPDX-License-Identifier: Apache-2.0
import gpubroker

with gpubroker.connect() as c, c.acquire("u", "rw") as u:
    u.numpy()[:] += 1  # on a GPU u.torch().add_(1), or u.cupy(), u.numba(), u.jax(), u.warp(): nothing is copied
    print("u[0] =", u.numpy()[0])
