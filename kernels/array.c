/* SPDX-License-Identifier: Apache-2.0 */
/* array.c - pack, unpack, axpy, fill and checksum, the host twins of array.cu: change both or none. */
#include <stddef.h>
#include <string.h>

#include "gpubroker-host.h"
#include "kernels.h"

#ifdef __FAST_MATH__
#error "-ffast-math would give other bits than CUDA does"
#endif
#ifdef __clang__
#pragma STDC FP_CONTRACT OFF
#endif
#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "checksum reads words as the GPU does: little-endian"
#endif

static void pack_rows(const gpub_launch_config *config, void **args)
{
	uint32_t *packed = *(uint32_t **)args[0];
	const uint32_t *strided = *(const uint32_t **)args[1];
	uint64_t rows = *(uint64_t *)args[2], columns = *(uint64_t *)args[3], stride = *(uint64_t *)args[4];

	(void)config;
	for (uint64_t i = 0; i < rows; i++)
		memcpy(packed + i * columns, strided + i * stride, columns * sizeof(uint32_t));
}

static void unpack_rows(const gpub_launch_config *config, void **args)
{
	uint32_t *strided = *(uint32_t **)args[0];
	const uint32_t *packed = *(const uint32_t **)args[1];
	uint64_t rows = *(uint64_t *)args[2], columns = *(uint64_t *)args[3], stride = *(uint64_t *)args[4];

	(void)config;
	for (uint64_t i = 0; i < rows; i++)
		memcpy(strided + i * stride, packed + i * columns, columns * sizeof(uint32_t));
}

static void axpy(const gpub_launch_config *config, void **args)
{
	float *y = *(float **)args[0];
	const float *x = *(const float **)args[1];
	float a = *(float *)args[2];
	uint64_t count = *(uint64_t *)args[3];

	(void)config;
	for (uint64_t i = 0; i < count; i++)
		y[i] = a * x[i] + y[i];
}

static void fill(const gpub_launch_config *config, void **args)
{
	uint32_t *words = *(uint32_t **)args[0];
	uint32_t value = *(uint32_t *)args[1];
	uint64_t count = *(uint64_t *)args[2];

	(void)config;
	for (uint64_t i = 0; i < count; i++)
		words[i] = value;
}

/* Adds to *sum atomically, because several streams may add checksums to one sum at the same time, as on CUDA. */
static void checksum(const gpub_launch_config *config, void **args)
{
	uint64_t *sum = *(uint64_t **)args[0];
	const uint64_t *words = *(const uint64_t **)args[1];
	uint64_t size = *(uint64_t *)args[2], whole = size / 8, part = 0, tail = 0;

	(void)config;
	for (uint64_t i = 0; i < whole; i++)
		part += checksum_word(words[i], i);
	if (size % 8) {
		memcpy(&tail, words + whole, size % 8);
		part += checksum_word(tail, whole);
	}
	__atomic_fetch_add(sum, part, __ATOMIC_RELAXED);
}

GPUB_HOST_KERNEL(pack_rows, pack_rows, sizeof(uint32_t *), sizeof(uint32_t *), sizeof(uint64_t), sizeof(uint64_t),
		 sizeof(uint64_t));
GPUB_HOST_KERNEL(unpack_rows, unpack_rows, sizeof(uint32_t *), sizeof(uint32_t *), sizeof(uint64_t), sizeof(uint64_t),
		 sizeof(uint64_t));
GPUB_HOST_KERNEL(axpy, axpy, sizeof(float *), sizeof(float *), sizeof(float), sizeof(uint64_t));
GPUB_HOST_KERNEL(fill, fill, sizeof(uint32_t *), sizeof(uint32_t), sizeof(uint64_t));
GPUB_HOST_KERNEL(checksum, checksum, sizeof(uint64_t *), sizeof(void *), sizeof(uint64_t));
