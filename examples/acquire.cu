// SPDX-License-Identifier: Apache-2.0
// acquire.cu - acquires the buffer "u" by name, adds 1 to each element on the GPU, returns it:
//     broker-run -b u=64M -- ./acquire
#include <cstdio>
#include <gpubroker-cuda.h>

__global__ void add_one(gpub::span<float> u)
{
	std::size_t i = blockIdx.x * std::size_t(blockDim.x) + threadIdx.x;

	if (i < u.size())
		u[i] += 1;
}

int main()
{
	gpub::client client;
	gpub::lease  lease;
	float        first = 0;

	if (client.connect() || lease.acquire(client.get(), "u", GPUB_READ | GPUB_WRITE))
		return std::fprintf(stderr, "acquire: %s\n", gpub_strerror_last()), 1;
	if (lease.get().device == GPUB_HOST)
		return std::fprintf(stderr, "acquire: <<<>>> needs a GPU, this broker has none\n"), 1;
	gpub::span<float> u = lease.as<float>();
	add_one<<<unsigned((u.size() + 255) / 256), 256>>>(u);
	cudaMemcpyAsync(&first, u.data(), sizeof first, cudaMemcpyDefault);
	lease.return_on(nullptr); // the GPU gives it back, behind all of the above
	std::printf("%s; u[0] = %g\n", cudaGetErrorString(cudaDeviceSynchronize()), first);
}
