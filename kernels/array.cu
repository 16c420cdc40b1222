/* SPDX-License-Identifier: Apache-2.0 */
/* array.cu - pack, unpack, axpy, fill and checksum, on CUDA. array.c is its host twin: change both or none. */
#include "kernels.h"

extern "C" __global__ void pack_rows(uint32_t *__restrict__ packed, const uint32_t *__restrict__ strided, uint64_t rows,
				     uint64_t columns, uint64_t stride)
{
	for (uint64_t i = linear_first(); i < rows * columns; i += linear_stride())
		packed[i] = strided[i / columns * stride + i % columns];
}

extern "C" __global__ void unpack_rows(uint32_t *__restrict__ strided, const uint32_t *__restrict__ packed,
				       uint64_t rows, uint64_t columns, uint64_t stride)
{
	for (uint64_t i = linear_first(); i < rows * columns; i += linear_stride())
		strided[i / columns * stride + i % columns] = packed[i];
}

/* The pointers are not __restrict__, because x may equal y. */
extern "C" __global__ void axpy(float *y, const float *x, float a, uint64_t count)
{
	for (uint64_t i = linear_first(); i < count; i += linear_stride())
		y[i] = __fadd_rn(__fmul_rn(a, x[i]), y[i]);
}

extern "C" __global__ void fill(uint32_t *words, uint32_t value, uint64_t count)
{
	for (uint64_t i = linear_first(); i < count; i += linear_stride())
		words[i] = value;
}

/* Returns the last word of the data, whose `size` bytes (less than 8) are in memory order, padded with zeros. */
static __device__ uint64_t checksum_tail(const uint8_t *bytes, uint64_t size)
{
	uint64_t word = 0;

	for (uint64_t i = 0; i < size; i++)
		word |= (uint64_t)bytes[i] << (8 * i);
	return word;
}

extern "C" __global__ void checksum(uint64_t *sum, const void *data, uint64_t size)
{
	const uint64_t *words = (const uint64_t *)data;
	uint64_t whole = size / 8, part = 0;

	for (uint64_t i = linear_first(); i < whole; i += linear_stride())
		part += checksum_word(words[i], i);
	if (linear_first() == 0 && size % 8)
		part += checksum_word(checksum_tail((const uint8_t *)(words + whole), size % 8), whole);
	if (part)
		atomicAdd((unsigned long long *)sum, (unsigned long long)part);
}
