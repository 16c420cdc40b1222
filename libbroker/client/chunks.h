/* SPDX-License-Identifier: Apache-2.0 */
/*
 * chunks.h - the chunks of memory that have come in MEMORY messages for the broker's next GRANT, with their
 * descriptors.
 *
 * Memory that is exported by descriptors comes as one chunk, or as several if it has grown, each in a MEMORY message.
 * Owns the descriptors until chunks_drop(). Used only by the reader (receiver.h). mapping.c opens the memory.
 */
#ifndef GPUB_CHUNKS_H
#define GPUB_CHUNKS_H

#include <stdint.h>

#include "common/export.h"
#include "common/owned-fd.h"
#include "common/wire.h"

struct chunk {
	uint64_t        offset; /* bytes from the beginning of the allocation */
	uint64_t        span;   /* bytes of the chunk */
	struct owned_fd file;   /* opens the chunk's memory; file.fd -EMFILE: this process had no descriptor left */
};

struct chunks {
	uint64_t     mapping; /* id of the mapping that the chunks belong to */
	unsigned     count;
	struct chunk chunk[EXPORT_CHUNKS_MAX];
};

/*
 * Adds the chunk of a MEMORY message, and takes over its descriptor *fd, which becomes -1. First drops all earlier
 * chunks if they belong to another mapping, or if chunks->chunk is full. Replaces a chunk that has come for the same
 * offset before, from a broker that has ended since; unless that chunk has a descriptor and this one has none (*fd
 * negative), because this process had none left.
 */
void chunks_keep(struct chunks *chunks, const struct wire_memory *memory, int *fd);

/* Drops the chunks that begin before byte `offset` of the allocation, with their descriptors. */
void chunks_drop_before(struct chunks *chunks, uint64_t offset);
void chunks_drop(struct chunks *chunks); /* drops all chunks */

/*
 * Checks that the chunks are exactly the memory of the GRANT's allocation from byte `offset` to its end. Returns 0;
 * -EPROTO if they are not; -EMFILE if this process had no descriptor left for a chunk; -ECONNRESET if the program has
 * closed the descriptor of a chunk.
 */
int chunks_check(const struct chunks *chunks, const struct wire_grant *grant, uint64_t offset);

#endif
