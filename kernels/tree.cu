/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tree.cu - a search tree whose nodes point to each other, on CUDA.
 * tree.c is its host twin: change both or none.
 */
#include "kernels.h"

extern "C" __global__ void tree_build(struct tree *tree, uint64_t count)
{
	if (linear_first() == 0)
		tree->root = tree_middle(tree, 0, count);
	for (uint64_t i = linear_first(); i < count; i += linear_stride())
		tree_link(tree, i, count);
}

extern "C" __global__ void tree_search(const struct tree *tree, uint64_t *result, uint64_t count)
{
	uint64_t found = 0, sum = 0;

	for (uint64_t key = linear_first(); key < count; key += linear_stride()) {
		const struct tree_node *node = tree_find(tree, key);

		found += node != NULL;
		sum += node ? node->value : 0;
	}
	atomicAdd((unsigned long long *)&result[0], (unsigned long long)found);
	atomicAdd((unsigned long long *)&result[1], (unsigned long long)sum);
}
