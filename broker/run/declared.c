/* SPDX-License-Identifier: Apache-2.0 */
/* declared.c - see declared.h */
#include "declared.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "broker/registry/registry.h"
#include "common/error.h"

static int declared_twice(const struct declared_buffer *first)
{
	if (!first->file)
		return error_set(-EEXIST, "the buffer '%s' is declared twice: keep one", first->name);
	return error_set(-EEXIST, "the buffer '%s' is declared twice, first in %.80s:%u: keep one", first->name,
			 first->file, first->line);
}

int declared_add(struct declared_buffers *buffers, const struct declared_buffer *buffer)
{
	struct declared_buffer *grown;
	int error = name_check(buffer->name);

	if (error)
		return error;
	if (buffer->amount.reserve && buffer->amount.reserve < buffer->amount.size)
		return error_set(-EINVAL,
				 "of the buffer '%s' the reserve is less than the size: write the size that the buffer "
				 "may grow to, or leave it out",
				 buffer->name);
	for (unsigned i = 0; i < buffers->count; i++)
		if (!strcmp(buffers->list[i].name, buffer->name))
			return declared_twice(&buffers->list[i]);
	grown = reallocarray(buffers->list, buffers->count + 1, sizeof *grown);
	if (!grown)
		return error_set(-ENOMEM, "out of memory");
	buffers->list = grown;
	buffers->list[buffers->count++] = *buffer;
	return 0;
}

void declared_free(struct declared_buffers *buffers)
{
	free(buffers->list);
	*buffers = (struct declared_buffers){ 0 };
}
