/* SPDX-License-Identifier: Apache-2.0 */
/* kept.c - see kept.h */
#include "kept.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/error.h"
#include "common/tables.h"
#include "handover.h"

struct kept_fd {
	uint64_t       key;
	int            fd;
	UT_hash_handle hh;
};

static struct kept_fd *find(const struct kept *kept, uint64_t key)
{
	struct kept_fd *entry;

	HASH_FIND(hh, kept->by_key, &key, sizeof key, entry);
	return entry;
}

/* Returns a new entry of the table, without a descriptor; NULL: out of memory. */
static struct kept_fd *add(struct kept *kept, uint64_t key)
{
	struct kept_fd *entry = calloc(1, sizeof *entry);

	if (!entry)
		return NULL;
	entry->key = key;
	entry->fd = -1;
	HASH_ADD(hh, kept->by_key, key, sizeof entry->key, entry);
	if (table_added(entry))
		return entry;
	free(entry);
	return NULL;
}

int kept_put(struct kept *kept, uint64_t key, int fd)
{
	struct kept_fd *entry = find(kept, key);

	if (!entry)
		entry = add(kept, key);
	if (!entry)
		return error_set(-ENOMEM, "the keeper is out of memory");
	if (entry->fd >= 0)
		close(entry->fd);
	entry->fd = fd;
	return 0;
}

int kept_find(const struct kept *kept, uint64_t key)
{
	const struct kept_fd *entry = find(kept, key);

	return entry ? entry->fd : -1;
}

int kept_take(struct kept *kept, uint64_t key)
{
	struct kept_fd *entry = find(kept, key);
	int fd;

	if (!entry)
		return -1;
	fd = entry->fd;
	HASH_DEL(kept->by_key, entry);
	free(entry);
	return fd;
}

bool kept_drop(struct kept *kept, uint64_t key)
{
	int fd = kept_take(kept, key);

	if (fd >= 0)
		close(fd);
	return fd >= 0;
}

void kept_each(struct kept *kept, void (*visit)(void *context, uint64_t key, int fd), void *context)
{
	struct kept_fd *entry, *next;

	HASH_ITER(hh, kept->by_key, entry, next)
		visit(context, entry->key, entry->fd);
}

unsigned kept_count(const struct kept *kept)
{
	return HASH_COUNT(kept->by_key);
}

void kept_clear(struct kept *kept)
{
	struct kept_fd *entry, *next;

	HASH_ITER(hh, kept->by_key, entry, next)
		kept_drop(kept, entry->key);
}

static void pack(void *context, uint64_t key, int fd)
{
	handover_add(context, HANDOVER_KEPT, key, fd);
}

void kept_pack(struct kept *kept, struct handover *handover)
{
	kept_each(kept, pack, handover);
}

int kept_resume(struct kept *kept, const struct handover *from)
{
	int error = 0;

	for (size_t i = 0; i < from->count && !error; i++)
		if (from->entry[i].kind == HANDOVER_KEPT)
			error = kept_put(kept, from->entry[i].value, from->entry[i].fd);
	return error;
}
