/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tree.c - one worker builds a search tree in GPU memory, and kernels of all others follow its pointers.
 *
 *     broker-run -n 4 -- tree                          a tree of 1000000 nodes
 *     broker-run -n 4 --device host -- tree 1000       the same without a GPU, of 1000 nodes
 *
 * The nodes point to each other by plain device pointers. Elsewhere such a pointer means something in the process that
 * wrote it alone, because each process maps a buffer at addresses of its own. A buffer with GPUB_SAME_ADDRESS is mapped
 * at one address by all of them. Those who
 * only search acquire it to read: their kernels cannot change it by mistake.
 *
 * The tree is ready when its timeline is 1: searches are queued behind a wait for that, and no process waits on the
 * processor.
 */
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "gpubroker.h"
#include "kernels/kernels.h"

#define NAME        "tree"
#define NODES_MAX   (64u << 20)
#define PATIENCE_MS 20000 /* how long the tree is waited for, which another process is about to create */

static gpub_client *client;
static gpub_module *module;
static void        *stream;
static unsigned     rank;
static uint64_t     nodes = 1000000;

static void must(int error, const char *what)
{
	if (!error)
		return;
	fprintf(stderr, "tree: worker %u: %s: %s\n", rank, what, gpub_strerror_last());
	exit(1);
}

static void launch(const char *kernel, void **args)
{
	gpub_launch_config config = linear_grid(nodes, stream);
	gpub_kernel found;

	must(gpub_module_kernel(module, kernel, &found), "find the kernel");
	must(gpub_launch(found, &config, args), kernel);
}

/* ---- worker 0 builds it ---- */

static gpub_lease build(void)
{
	gpub_spec  spec = GPUB_SPEC_INIT;
	gpub_lease tree;

	spec.size = tree_bytes(nodes);
	spec.device = GPUB_CURRENT;
	spec.flags = GPUB_SAME_ADDRESS | GPUB_TIMELINE;
	must(gpub_create(client, NAME, &spec), "create the tree");
	must(gpub_acquire(client, NAME, GPUB_READ | GPUB_WRITE, 0, &tree), "acquire the tree");
	launch("tree_build", (void *[]){ &tree.ptr, &nodes });
	must(gpub_signal_on(&tree, 1, stream), "say that the tree is ready");
	return tree;
}

/* ---- the others search it ---- */

static gpub_lease find(void)
{
	gpub_lease tree;

	must(gpub_acquire(client, NAME, GPUB_READ, PATIENCE_MS, &tree), "acquire the tree");
	must(gpub_wait_on(&tree, 1, stream), "wait for the tree");
	return tree;
}

/* Where the kernel adds up what it found: this worker's own. */
static gpub_lease result_make(void)
{
	gpub_spec  spec = GPUB_SPEC_INIT;
	gpub_lease result;
	char       name[32];

	snprintf(name, sizeof name, "found/%u", rank);
	spec.size = 2 * sizeof(uint64_t);
	spec.device = GPUB_CURRENT;
	spec.flags = GPUB_EPHEMERAL;
	must(gpub_create(client, name, &spec), name);
	must(gpub_acquire(client, name, GPUB_READ | GPUB_WRITE, 0, &result), name);
	return result;
}

/* Every second key is in the tree. */
static void search(const gpub_lease *tree)
{
	gpub_lease result = result_make();
	uint64_t   keys = 2 * nodes, seen[2] = { 0 }, sum = 0;

	launch("tree_search", (void *[]){ (void *)&tree->ptr, &result.ptr, &keys });
	must(gpub_copy_on(client, seen, result.ptr, sizeof seen, stream), "read the result");
	must(gpub_stream_sync(stream), "finish");
	for (uint64_t i = 0; i < nodes; i++)
		sum += tree_value(tree_key(i));
	printf("worker %u: %" PRIu64 " of %" PRIu64 " keys found, their values are %s, the tree is at %p\n", rank,
	       seen[0], nodes, seen[1] == sum ? "right" : "wrong", tree->ptr);
	if (seen[0] != nodes || seen[1] != sum)
		exit(1);
}

/* ---- both ---- */

static unsigned number_from(const char *text, unsigned otherwise)
{
	return text ? (unsigned)strtoul(text, NULL, 10) : otherwise;
}

int main(int argc, char **argv)
{
	gpub_lease tree;

	rank = number_from(getenv("GPUBROKER_RANK"), 0);
	if (argc > 1)
		nodes = number_from(argv[1], 0);
	if (nodes < 1 || nodes > NODES_MAX || argc > 2) {
		fprintf(stderr, "usage: broker-run -n WORKERS -- tree [NODES]\n");
		return 2;
	}
	must(gpub_connect(&client, NULL), "connect");
	must(gpub_stream_create(client, GPUB_CURRENT, &stream), "make a stream");
	must(gpub_module_open(&module, client, "kernels"), "open the module");
	tree = rank ? find() : build();
	search(&tree);
	must(gpub_module_close(module), "close the module");
	gpub_stream_destroy(stream);
	gpub_disconnect(client); /* returns all leases */
	return 0;
}
