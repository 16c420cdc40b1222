/* SPDX-License-Identifier: Apache-2.0 */
/* inherited.c - see inherited.h */
#include "inherited.h"

#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#include "broker/base/log.h"
#include "broker/keeper/kept.h"
#include "broker/keeper/line.h"
#include "common/error.h"
#include "common/tables.h"
#include "common/thread.h"
#include "keep.h"

struct inherited_key {
	uint64_t       key;
	UT_hash_handle hh;
};

/* ---- what was taken ---- */

/* Without memory the key is not remembered: the descriptor is then put again, and if nobody has it, not dropped. */
static void remember(struct inherited *inherited, uint64_t key)
{
	struct inherited_key *taken = calloc(1, sizeof *taken);

	if (!taken)
		return;
	taken->key = key;
	HASH_ADD(hh, inherited->taken, key, sizeof taken->key, taken);
	if (!table_added(taken))
		free(taken);
}

static void forget(struct inherited *inherited, struct inherited_key *taken)
{
	HASH_DEL(inherited->taken, taken);
	free(taken);
}

/* Whether the key was taken. Forgets it, because it belongs to an object now. */
static bool was_taken(void *context, uint64_t key)
{
	struct inherited *inherited = context;
	struct inherited_key *taken;

	HASH_FIND(hh, inherited->taken, &key, sizeof key, taken);
	if (taken)
		forget(inherited, taken);
	return taken;
}

/* ---- for the load ---- */

static int take_key(struct inherited *inherited, uint64_t key)
{
	int fd = key ? kept_take(inherited->kept, key) : -1;

	if (fd >= 0)
		remember(inherited, key);
	return fd;
}

static int take(void *context, enum kept_kind kind, uint64_t number)
{
	return take_key(context, keep_key(kind, number));
}

static void find_pidfd(void *context, uint64_t key, int fd)
{
	uint64_t *found = context;

	(void)fd;
	if (!*found && keep_kind_of(key) == KEPT_PIDFD)
		*found = key;
}

/* The load has taken most of the table before, so this looks at few. */
static int rest(void *context, uint64_t *session)
{
	struct inherited *inherited = context;
	uint64_t key = 0;

	kept_each(inherited->kept, find_pidfd, &key);
	*session = keep_number_of(key);
	return take_key(inherited, key);
}

struct kept_descriptors inherited_descriptors(struct inherited *inherited)
{
	return (struct kept_descriptors){ take, rest, inherited };
}

void inherited_loaded(struct inherited *inherited, struct keep *keep)
{
	keep_loaded(keep, was_taken, inherited);
}

/* ---- what no object has ---- */

/* Descriptors that a thread closes when the keeper has closed its duplicates. */
struct closing {
	struct inherited *inherited;
	struct line      *line;
	int               fence; /* can be read when the keeper has carried out the DROPs; negative: none */
	unsigned          count;
	int               fd[];
};

static bool is_of_object(uint64_t key)
{
	return keep_kind_of(key) >= KEPT_SOCKET && keep_kind_of(key) <= KEPT_PAGE;
}

static void drop(void *context, uint64_t key, int fd)
{
	struct closing *closing = context;

	if (!is_of_object(key))
		return;
	(void)line_drop(closing->line, key);
	closing->fd[closing->count++] = fd;
	kept_take(closing->inherited->kept, key);
}

static void *close_all(void *argument)
{
	struct closing *closing = argument;

	if (closing->fence >= 0) {
		poll(&(struct pollfd){ .fd = closing->fence, .events = POLLIN }, 1, -1);
		close(closing->fence);
	}
	for (unsigned i = 0; i < closing->count; i++)
		close(closing->fd[i]);
	free(closing);
	return NULL;
}

static void drop_untaken(struct inherited *inherited, struct line *line)
{
	unsigned count = kept_count(inherited->kept);
	struct closing *closing = count ? malloc(sizeof *closing + count * sizeof *closing->fd) : NULL;
	pthread_t thread;

	if (!count)
		return;
	if (!closing) {
		log_say("the broker is out of memory: what the one before it left stays open");
		return;
	}
	*closing = (struct closing){ .inherited = inherited, .line = line };
	kept_each(inherited->kept, drop, closing);
	closing->fence = keep_fence(line, 2);
	if (closing->count && !thread_start(&thread, close_all, closing)) {
		pthread_detach(thread);
		return;
	}
	if (closing->count)
		log_say("%u descriptors that the broker before this one left stay open: %s", closing->count,
			error_text());
	if (closing->fence >= 0)
		close(closing->fence);
	free(closing);
}

void inherited_close(struct inherited *inherited, struct keep *keep)
{
	struct inherited_key *taken, *next;

	HASH_ITER(hh, inherited->taken, taken, next) {
		(void)line_drop(keep->line, taken->key);
		forget(inherited, taken);
	}
	drop_untaken(inherited, keep->line);
}

void inherited_forget(struct inherited *inherited)
{
	struct inherited_key *taken, *next;

	HASH_ITER(hh, inherited->taken, taken, next)
		forget(inherited, taken);
}
