/* SPDX-License-Identifier: Apache-2.0 */
/*
 * machines-nccl.c - edges to and from another machine by NCCL, in stream order: no CPU waits. See machines.h.
 *
 * Each link has a communicator of two, the upper worker and the lower one, so that workers may share a GPU with others
 * of their machine. The links of a row of workers are opened from the top down, each by two workers that wait for each
 * other. If the network is cut, a stream waits for ever; the solver notices that no step ends. Owns the communicators.
 */
#include <dlfcn.h>
#include <nccl.h>

#include "machines.h"

/* From libnccl, which is opened when it is asked for: heat without --nccl does not need it. */
#define FUNCTIONS(X) \
	X(GetErrorString) X(GetUniqueId) X(CommInitRank) X(CommDestroy) X(GroupStart) X(GroupEnd) X(Send) X(Recv)

#define MEMBER(function) __typeof__(&nccl##function) function;
static struct { FUNCTIONS(MEMBER) } nccl;

static void *nccl_find(void *library, const char *function)
{
	void *found = dlsym(library, function);

	if (!found)
		heat_fail("--nccl: libnccl.so.2 has no %s: it is too old, take 2.7 or later", function);
	return found;
}

#define FIND(function) \
	nccl.function = (__typeof__(&nccl##function))nccl_find(library, "nccl" #function); \
	if (!nccl.function)                                                                 \
		return -1;

static int nccl_load(void)
{
	void *library = dlopen("libnccl.so.2", RTLD_NOW);

	if (!library)
		return heat_fail("--nccl: %s; install it, or name its folder in LD_LIBRARY_PATH", dlerror());
	FUNCTIONS(FIND)
	return 0;
}

static int nccl_fail(const char *what, ncclResult_t result)
{
	return heat_fail("%s: NCCL says: %s", what, nccl.GetErrorString(result));
}

static bool is_upper(const struct heat *heat, const struct link *link)
{
	return heat->options.rank < link->rank;
}

int nccl_check(void)
{
	return 0;
}

int nccl_open(const struct heat *heat, struct link *link)
{
	bool         upper = is_upper(heat, link);
	ncclUniqueId id;
	ncclComm_t   pair;
	ncclResult_t result;

	if (heat->peers[heat->options.rank].buffer[0].device == GPUB_HOST)
		return heat_fail("--nccl needs GPUs, and this broker serves the host device: take --mpi");
	if (!nccl.Recv && nccl_load())
		return -1;
	result = upper ? nccl.GetUniqueId(&id) : ncclSuccess;
	if (result != ncclSuccess)
		return nccl_fail("cannot begin", result);
	if (upper ? machines_tell(heat, link->rank, &id, sizeof(id)) : machines_take(heat, link->rank, &id, sizeof(id)))
		return -1;
	result = nccl.CommInitRank(&pair, 2, id, upper ? 0 : 1);
	if (result != ncclSuccess)
		return nccl_fail("cannot reach a worker of another machine", result);
	link->nccl = pair;
	return 0;
}

int nccl_swap(const struct heat *heat, uint64_t k)
{
	const float *own = heat->peers[heat->options.rank].buffer[k % 2].ptr;
	uint32_t     columns = heat->options.nx;
	ncclResult_t result = nccl.GroupStart(), ended;

	for (const struct link *link = heat->link; link < heat->link + 2; link++) {
		int other = is_upper(heat, link) ? 1 : 0;

		if (!link->nccl)
			continue;
		if (result == ncclSuccess)
			result = nccl.Send(own + (size_t)link->row * columns, columns, ncclFloat, other, link->nccl,
					   heat->edges);
		if (result == ncclSuccess)
			result = nccl.Recv((float *)link->ghost.ptr + k % 2 * columns, columns, ncclFloat, other,
					   link->nccl, heat->edges);
	}
	ended = nccl.GroupEnd();
	if (result == ncclSuccess)
		result = ended;
	return result == ncclSuccess ? 0 : nccl_fail("cannot exchange edges", result);
}

void nccl_close(struct link *link)
{
	if (link->nccl)
		nccl.CommDestroy(link->nccl);
	link->nccl = NULL;
}
