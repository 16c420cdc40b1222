/* SPDX-License-Identifier: Apache-2.0 */
/* allocation.c - see allocation.h */
#include "allocation.h"

#include <stdlib.h>
#include <string.h>

#include "common/export.h"
#include "workers.h"

void allocation_made(struct allocation *allocation, struct job *job)
{
	allocation->memory = job->order.memory;
	allocation->handle = job->outcome.handle;
	allocation->descriptor = export_of(job->order.exported)->by_descriptor ? job->outcome.descriptor : -1;
	explicit_bzero(&job->outcome.handle, sizeof job->outcome.handle);
	allocation->job = job;
}

void allocation_adopt(struct allocation *allocation, struct allocation *pooled)
{
	allocation->memory = pooled->memory;
	allocation->handle = pooled->handle;
	allocation->descriptor = pooled->descriptor;
	allocation->job = pooled->job;
	pooled->job = NULL;
	allocation_free(pooled);
}

void allocation_free(struct allocation *allocation)
{
	explicit_bzero(&allocation->handle, sizeof allocation->handle);
	free(allocation->job);
	free(allocation);
}
