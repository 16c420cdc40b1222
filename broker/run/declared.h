/* SPDX-License-Identifier: Apache-2.0 */
/*
 * declared.h - the buffers that broker-run creates at its start, from its command line and spec files, each name once.
 *
 * Owns the list. Creates nothing.
 */
#ifndef GPUB_RUN_DECLARED_H
#define GPUB_RUN_DECLARED_H

#include <stdint.h>

#include "broker/base/values.h"
#include "common/name.h"

struct declared_buffer {
	char     name[NAME_SIZE];
	struct amount amount;
	unsigned flags, mode;
	const char *file; /* the spec file that declares the buffer; NULL: the command line declares it */
	unsigned line;    /* number of the file's line with the closing brace of the declaration */
};

/* All zeroes is an empty list. */
struct declared_buffers {
	struct declared_buffer *list;
	unsigned                count;
};

/*
 * Appends a copy of the buffer to the list. Returns 0; -EEXIST: the name is listed already; -EINVAL: bad name, or
 * reserve < size; -ENAMETOOLONG; -ENOMEM.
 */
int declared_add(struct declared_buffers *buffers, const struct declared_buffer *buffer);
void declared_free(struct declared_buffers *buffers);

#endif
