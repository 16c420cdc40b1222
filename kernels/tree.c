/* SPDX-License-Identifier: Apache-2.0 */
/* tree.c - a search tree whose nodes point to each other, the host twins of tree.cu: change both or none. */
#include "gpubroker-host.h"
#include "kernels.h"

static void tree_build_twin(const gpub_launch_config *config, void **args)
{
	struct tree *tree = *(struct tree **)args[0];
	uint64_t count = *(uint64_t *)args[1];

	(void)config;
	tree->root = tree_middle(tree, 0, count);
	for (uint64_t i = 0; i < count; i++)
		tree_link(tree, i, count);
}

/* Adds to `result` atomically, because several streams may add to one result at the same time, as on CUDA. */
static void tree_search_twin(const gpub_launch_config *config, void **args)
{
	const struct tree *tree = *(const struct tree **)args[0];
	uint64_t *result = *(uint64_t **)args[1], count = *(uint64_t *)args[2], found = 0, sum = 0;

	(void)config;
	for (uint64_t key = 0; key < count; key++) {
		const struct tree_node *node = tree_find(tree, key);

		found += node != NULL;
		sum += node ? node->value : 0;
	}
	__atomic_fetch_add(&result[0], found, __ATOMIC_RELAXED);
	__atomic_fetch_add(&result[1], sum, __ATOMIC_RELAXED);
}

GPUB_HOST_KERNEL(tree_build, tree_build_twin, sizeof(struct tree *), sizeof(uint64_t));
GPUB_HOST_KERNEL(tree_search, tree_search_twin, sizeof(struct tree *), sizeof(uint64_t *), sizeof(uint64_t));
