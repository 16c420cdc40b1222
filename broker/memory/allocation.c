/* SPDX-License-Identifier: Apache-2.0 */
/* allocation.c - see allocation.h */
#include "allocation.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <utlist.h>

#include "jobs.h"

void allocation_append(struct allocation *allocation, struct allocation *chunk)
{
	DL_APPEND2(allocation->chunks, chunk, chunk_prev, chunk_next);
	chunk->parent = allocation;
	chunk->place = ++allocation->chunk_count;
	allocation->size += chunk->span;
}

void allocation_made(struct allocation *allocation, struct job *job)
{
	allocation->memory = job->order.memory;
	allocation->handle = job->outcome.handle;
	allocation->descriptor = job->outcome.descriptor;
	explicit_bzero(&job->outcome.handle, sizeof job->outcome.handle);
	allocation->job = job;
}

void allocation_adopt(struct tracking *tracking, struct allocation *allocation, struct allocation *pooled)
{
	allocation->memory = pooled->memory;
	allocation->handle = pooled->handle;
	allocation->descriptor = pooled->descriptor;
	allocation->job = pooled->job;
	pooled->descriptor = -1;
	tracked_swap(tracking, &allocation->tracked, &pooled->tracked);
	pooled->job = NULL;
	allocation_free(tracking, pooled);
}

void allocation_order_release(struct allocation *allocation, struct job *job)
{
	job->order.kind = ORDER_RELEASE;
	job->descriptor = allocation->descriptor;
	allocation->descriptor = -1;
	allocation->releasing = true;
}

void allocation_free(struct tracking *tracking, struct allocation *allocation)
{
	tracked_end(tracking, &allocation->tracked);
	if (allocation->descriptor >= 0)
		close(allocation->descriptor);
	explicit_bzero(&allocation->handle, sizeof allocation->handle);
	free(allocation->job);
	free(allocation);
}
