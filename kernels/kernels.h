/* SPDX-License-Identifier: Apache-2.0 */
/*
 * kernels.h - the kernels of the module "kernels": their parameters, and fast grids for them.
 *
 * Each kernel exists twice, for CUDA (NAME.cu) and as a host twin (NAME.c). Both give the same bytes, because they do
 * the same float operations in the same order, round each to nearest, fuse no multiply-add, and keep subnormals.
 * Never compile them with -use_fast_math, -ftz or -ffast-math.
 *
 * The CUDA kernels, the host twins and programs that launch the kernels include this header. Owns nothing. args[i] of
 * gpub_launch() points to parameter i, in the order and of the types given here. Pointers are device pointers:
 * gpub_lease.ptr, or offsets from it. On CUDA, kernels are correct for any grid of blocks and threads in x (heat_step
 * and heat_edges: in x and y), because they stride over the elements; those of spin do their work in one thread. The
 * host twins ignore the grid.
 *
 *   heat_step(float *next, const float *now, const float *north, const float *south,
 *             uint32_t rows, uint32_t columns, float r)
 *       One explicit step of the heat equation on rows x columns cells, row-major, without padding:
 *       next = now + r ((north + south) + (west + east) - 4 now). The parameters north and south are the row above the
 *       first row and the row below the last row, of columns cells each. NULL: the domain ends there, and cells outside
 *       are 0. next must not overlap the other arrays. Grid: heat_grid().
 *
 *   heat_edges(float *next, const float *now, const float *north, const float *south,
 *              uint32_t rows, uint32_t columns, float r)
 *       Does the step of heat_step() for the first row and the last row only. Grid: heat_grid(2, columns).
 *
 *   pack_rows(uint32_t *packed, const uint32_t *strided, uint64_t rows, uint64_t columns, uint64_t stride)
 *   unpack_rows(uint32_t *strided, const uint32_t *packed, uint64_t rows, uint64_t columns, uint64_t stride)
 *       Copy rows that begin stride elements apart to (from) rows without gaps. A row has columns elements of 4 bytes
 *       (stride >= columns). With columns = 1 they copy a column of a matrix. Elements between the rows do not change.
 *       Grid: linear_grid(rows * columns).
 *
 *   axpy(float *y, const float *x, float a, uint64_t count)
 *       y = a x + y for count elements; x may be y. Grid: linear_grid(count).
 *
 *   fill(uint32_t *words, uint32_t value, uint64_t count)
 *       Sets count words of 4 bytes to value. Grid: linear_grid(count).
 *
 *   checksum(uint64_t *sum, const void *data, uint64_t size)
 *       Adds the checksum of size bytes at data (8-byte aligned) to *sum, which the caller zeroes before. The checksum
 *       is the sum modulo 2^64 of checksum_word() over the 8-byte words of the data, the last word padded with zeros.
 *       Grid, order and device do not change the sum. Does not protect against deliberate changes.
 *       Grid: linear_grid(size / 8 + 1).
 *
 *   late_write(uint64_t *word, uint64_t value, uint64_t milliseconds)
 *       Runs for the given number of milliseconds, then writes value to *word. Grid: single_grid().
 *
 *   managed_increment(uint64_t amount)
 *       Adds amount to the module's __managed__ variable kernels_managed_counter (uint64_t, 0 at first; on the host
 *       device, a global variable of the shared object). Grid: single_grid().
 *
 *   stamp(uint64_t *words, uint64_t round, uint64_t count)
 *       Sets words[i] to stamp_word(round, i), from which round and i can be read. Grid: linear_grid(count).
 *
 *   stamp_check(uint64_t *verdict, const uint64_t *words, uint64_t round, uint64_t count)
 *       Adds the number of wrong words, where words[i] != stamp_word(round, i), to verdict[0]. The caller zeroes the
 *       four words of verdict before the first check. The first wrong word found sets verdict[1] to the round of the
 *       check (not 0), verdict[2] to the word's index and verdict[3] to its value. Grid: linear_grid(count).
 *
 *   tree_build(struct tree *tree, uint64_t count)
 *       Makes a balanced search tree of count nodes (at least 1) with the keys tree_key(0) to tree_key(count - 1), in
 *       tree_bytes(count) bytes. The nodes point to each other. Grid: linear_grid(count).
 *
 *   tree_search(const struct tree *tree, uint64_t *result, uint64_t count)
 *       Searches the tree for the keys 0 to count - 1. Adds the number of keys found to result[0], and the sum of their
 *       values to result[1]. The caller zeroes both before. Grid: linear_grid(count).
 */
#ifndef GPUB_KERNELS_H
#define GPUB_KERNELS_H

#include <stdint.h>

#include "gpubroker.h"

#ifdef __CUDACC__
#define KERNELS_INLINE static __host__ __device__ inline
#else
#define KERNELS_INLINE static inline
#endif

#define LINEAR_BLOCK 256u     /* number of threads in a block of linear_grid() */
#define LINEAR_GRID  65536ull /* number of blocks of linear_grid() at most: enough to fill any device */
#define HEAT_BLOCK   128u     /* number of threads in a block of heat_grid(), side by side in one row of cells */
#define HEAT_STRIP   8u       /* number of rows that one thread of heat_step() processes, from the top down */
#define HEAT_GRID_Y  65535ull /* number of blocks of heat_grid() in y at most: CUDA's limit */

/* Returns what the 8-byte word at `index` adds to the checksum (the finaliser of splitmix64). */
KERNELS_INLINE uint64_t checksum_word(uint64_t word, uint64_t index)
{
	uint64_t x = word + (index + 1) * 0x9e3779b97f4a7c15ull;

	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
	x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
	return x ^ (x >> 31);
}

/* Returns the word that stamp() writes: round and index, each below 2^32, in one word. */
KERNELS_INLINE uint64_t stamp_word(uint64_t round, uint64_t index)
{
	return round << 32 | index;
}

/*
 * A node of a search tree in a buffer. Its pointers are valid where the buffer has the address that it had when the
 * tree was built.
 */
struct tree_node {
	struct tree_node *left, *right; /* roots of the subtrees of smaller and of larger keys; NULL: empty subtree */
	uint64_t          key, value;
};

struct tree {
	struct tree_node *root;
	uint64_t          reserved[3];
	/* as many nodes as the tree was built with (tree_bytes()), in the order of their keys */
	struct tree_node  nodes[1];
};

KERNELS_INLINE uint64_t tree_bytes(uint64_t count)
{
	return sizeof(struct tree) + (count - 1) * sizeof(struct tree_node);
}

KERNELS_INLINE uint64_t tree_key(uint64_t index)
{
	return 2 * index + 1;
}

KERNELS_INLINE uint64_t tree_value(uint64_t key)
{
	return checksum_word(key, 0);
}

/* Returns the root of the subtree that has the nodes begin to end - 1, or NULL if begin is end. */
KERNELS_INLINE struct tree_node *tree_middle(struct tree *tree, uint64_t begin, uint64_t end)
{
	return begin < end ? &tree->nodes[begin + (end - begin) / 2] : (struct tree_node *)0;
}

/*
 * Fills in node number `index` of a tree of `count` nodes. Narrows [begin, end) to the node's subtree, as a search for
 * its key does.
 */
KERNELS_INLINE void tree_link(struct tree *tree, uint64_t index, uint64_t count)
{
	struct tree_node *node = &tree->nodes[index];
	uint64_t begin = 0, end = count, middle;

	while ((middle = begin + (end - begin) / 2) != index) {
		if (index < middle)
			end = middle;
		else
			begin = middle + 1;
	}
	node->left = tree_middle(tree, begin, index);
	node->right = tree_middle(tree, index + 1, end);
	node->key = tree_key(index);
	node->value = tree_value(node->key);
}

/* Returns the tree's node with this key, or NULL. */
KERNELS_INLINE const struct tree_node *tree_find(const struct tree *tree, uint64_t key)
{
	const struct tree_node *node = tree->root;

	while (node && node->key != key)
		node = key < node->key ? node->left : node->right;
	return node;
}

KERNELS_INLINE uint64_t kernels_blocks(uint64_t count, uint64_t each, uint64_t most)
{
	uint64_t blocks = count / each + (count % each != 0);

	if (blocks == 0)
		return 1;
	return blocks < most ? blocks : most;
}

/* Returns a grid of one thread, on the current device. */
KERNELS_INLINE gpub_launch_config single_grid(void *stream)
{
	gpub_launch_config config = GPUB_LAUNCH_INIT;

	config.stream = stream;
	return config;
}

/* Returns a grid for kernels over `count` elements, on the current device. */
KERNELS_INLINE gpub_launch_config linear_grid(uint64_t count, void *stream)
{
	gpub_launch_config config = single_grid(stream);

	config.block[0] = LINEAR_BLOCK;
	config.grid[0] = (uint32_t)kernels_blocks(count, LINEAR_BLOCK, LINEAR_GRID);
	return config;
}

/* Returns a grid for heat_step() or heat_edges() over rows x columns cells, on the current device. */
KERNELS_INLINE gpub_launch_config heat_grid(uint32_t rows, uint32_t columns, void *stream)
{
	gpub_launch_config config = single_grid(stream);

	config.block[0] = HEAT_BLOCK;
	config.grid[0] = (uint32_t)kernels_blocks(columns, HEAT_BLOCK, UINT32_MAX);
	config.grid[1] = (uint32_t)kernels_blocks(rows, HEAT_STRIP, HEAT_GRID_Y);
	return config;
}

#ifdef __CUDACC__
/* A thread of a kernel over count elements does: for (i = linear_first(); i < count; i += linear_stride()). */
static __device__ __forceinline__ uint64_t linear_first(void)
{
	return (uint64_t)blockIdx.x * blockDim.x + threadIdx.x;
}

static __device__ __forceinline__ uint64_t linear_stride(void)
{
	return (uint64_t)gridDim.x * blockDim.x;
}
#endif

#endif
