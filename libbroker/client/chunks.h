/* SPDX-License-Identifier: Apache-2.0 */
/*
 * chunks.h - the chunks of memory that came for the next GRANT: of each a descriptor, and its sealed handle.
 *
 * Memory that is exported by descriptors comes in one chunk, or in several if it grew. Owns the descriptors until chunks_drop(). Only the
 * reader uses it (receiver.h). Trusts nothing: mapping.c opens what is sealed.
 */
#ifndef GPUB_CHUNKS_H
#define GPUB_CHUNKS_H

#include <stdint.h>

#include "common/export.h"
#include "common/handle.h"
#include "common/owned-fd.h"
#include "common/sealed.h"
#include "common/wire.h"

struct chunk {
	uint64_t             offset, span; /* in the allocation */
	struct sealed_handle sealed;       /* of the first chunk: unused */
	struct owned_fd      file;         /* its fd -EMFILE: this process had no descriptor left */
};

struct chunks {
	uint64_t     grant;
	unsigned     count;
	struct chunk chunk[EXPORT_CHUNKS_MAX];
};

/* Keeps what a MEMORY brought, and takes the descriptor. What came for another grant, or is too much, is dropped. */
void chunks_keep(struct chunks *chunks, const struct wire_memory *memory, int *fd);
void chunks_drop(struct chunks *chunks);

/* Whether they are all of the grant's memory behind that offset. -EPROTO: they are not; -EMFILE: a descriptor is missing. */
int chunks_check(const struct chunks *chunks, const struct wire_grant *grant, uint64_t offset);

#endif
