/* SPDX-License-Identifier: Apache-2.0 */
/*
 * views.h - the records of a status file, those of one type in the order of a number that they hold: an index.
 *
 * A record is found by its number, and those that name it lie side by side, always in the same order. Owns arrays of pointers;
 * the records are the caller's.
 */
#ifndef GPUB_SHOW_VIEWS_H
#define GPUB_SHOW_VIEWS_H

#include <stdbool.h>
#include <stddef.h>

#include "broker/status/format.h"

/* What records add up to. */
struct sums {
	uint64_t orphaned, bytes, uses;
};

/*
 * A view has sums, too: what the records in front of each one add up to. So whatever the records of a key come to, and however
 * many have it, takes two searches.
 */
struct view {
	const union status_record **at;
	struct sums                *before; /* one more than there are records */
	size_t                      count, key; /* key: where it stands in the record */
};

/* A record that names what is not there is in no view. Each view looks at those above it. */
enum {
	DEVICES,
	USERS,
	SESSIONS,
	BUFFERS,
	GRANTS,
	USES,          /* by generation */
	OF_GRANT,      /* uses, by grant */
	OF_SESSION,    /* grants, by session */
	OF_ALLOCATION, /* grants, by allocation */
	TIMELINES,     /* by generation */
	WAITS,         /* of streams, by session */
	REQUESTS,      /* by session */
	ADDRESSES,
	JOBS,
	TIMES,         /* by what is timed */
	VIEWS
};

struct views {
	struct view view[VIEWS];
};

/* Those with one key. */
struct range {
	size_t begin, end;
};

/* False: no memory; views_free() is fine then, too. */
bool views_make(struct views *views, const union status_record *records, size_t count);
void views_free(struct views *views);

/* Where those with that key begin, or with a greater one. */
size_t view_find(const struct view *view, uint64_t key);

/* Whether there is an i-th one, and it has that key. */
bool view_has(const struct view *view, size_t i, uint64_t key);

/* The first one with that key, or NULL. */
const union status_record *view_one(const struct view *view, uint64_t key);

struct range view_range(const struct view *view, uint64_t key);
struct sums  view_sums(const struct view *view, struct range range);

/* A use's grant. */
const union status_record *views_grant_of(const struct views *views, const union status_record *use);

#endif
