/* SPDX-License-Identifier: Apache-2.0 */
/* chunks.c - see chunks.h */
#include "chunks.h"

#include <errno.h>
#include <stdbool.h>

#include "common/error.h"

void chunks_drop_before(struct chunks *chunks, uint64_t offset)
{
	unsigned kept = 0;

	for (unsigned i = 0; i < chunks->count; i++) {
		if (chunks->chunk[i].offset >= offset)
			chunks->chunk[kept++] = chunks->chunk[i];
		else
			owned_fd_close(&chunks->chunk[i].file);
	}
	chunks->count = kept;
}

void chunks_drop(struct chunks *chunks)
{
	chunks_drop_before(chunks, UINT64_MAX);
}

/* Returns the chunk that begins at byte `offset` of the allocation, or NULL. */
static struct chunk *chunk_find(struct chunks *chunks, uint64_t offset)
{
	for (unsigned i = 0; i < chunks->count; i++)
		if (chunks->chunk[i].offset == offset)
			return &chunks->chunk[i];
	return NULL;
}

/* Returns a chunk behind the others. Drops all others first if chunks->chunk is full. */
static struct chunk *chunk_append(struct chunks *chunks)
{
	if (chunks->count == EXPORT_CHUNKS_MAX)
		chunks_drop(chunks);
	return &chunks->chunk[chunks->count++];
}

void chunks_keep(struct chunks *chunks, const struct wire_memory *memory, int *fd)
{
	struct chunk *chunk;

	if (chunks->mapping != memory->mapping)
		chunks_drop(chunks);
	chunks->mapping = memory->mapping;
	chunk = chunk_find(chunks, memory->offset);
	if (chunk && chunk->file.fd >= 0 && *fd < 0)
		return;
	if (chunk)
		owned_fd_close(&chunk->file);
	else
		chunk = chunk_append(chunks);
	chunk->offset = memory->offset;
	chunk->span = memory->span;
	owned_fd_take(&chunk->file, *fd);
	*fd = -1;
}

int chunks_check(const struct chunks *chunks, const struct wire_grant *grant, uint64_t offset)
{
	bool is_short = false, is_lost = false;

	for (unsigned i = 0; i < chunks->count; i++) {
		const struct chunk *chunk = &chunks->chunk[i];

		if (chunks->mapping != grant->mapping || chunk->file.fd == -1 || chunk->offset != offset ||
		    !chunk->span || chunk->span > grant->span - offset)
			return error_set(-EPROTO, "the broker sent a descriptor that does not belong to the mapping");
		offset += chunk->span;
		is_short |= chunk->file.fd < 0;
		is_lost |= chunk->file.fd >= 0 && !owned_fd_stands(&chunk->file);
	}
	if (offset != grant->span)
		return error_set(-EPROTO, "the broker sent a mapping without its descriptor");
	if (is_lost)
		return error_set(-ECONNRESET, "%s", OWNED_FD_LOST);
	if (is_short)
		return error_set(-EMFILE,
				 "no descriptor is left in this process for memory: close some, or raise ulimit -n");
	return 0;
}
