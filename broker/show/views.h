/* SPDX-License-Identifier: Apache-2.0 */
/*
 * views.h - indexes of the records of a status file: each view has the records of one type, sorted by one of their
 * numbers, the key.
 *
 * A search finds a record by its number, and all records with a key, which are next to each other and always in the
 * same order. Owns the arrays of pointers; the caller owns the records.
 */
#ifndef GPUB_SHOW_VIEWS_H
#define GPUB_SHOW_VIEWS_H

#include <stdbool.h>
#include <stddef.h>

#include "broker/status/format.h"

/* Sums over mappings, or over the mappings of grants. */
struct sums {
	uint64_t orphaned; /* number of orphaned mappings */
	uint64_t bytes;    /* bytes of the mappings */
	uint64_t grants;   /* number of grants under the mappings; 0 in the views up to OF_MAPPING */
};

/* An index. Prefix sums give the sums of all records with a key by two searches, however many records have the key. */
struct view {
	const union status_record **at;         /* the records, sorted by key */
	struct sums                *before;     /* before[i]: sums over the records 0 to i - 1; has count + 1 entries */
	size_t                      count, key; /* number of records; offset of the key in a record */
};

/*
 * The views, each with its key. A mapping whose session is missing, and a grant whose mapping is missing, are in no
 * view. A view depends only on views before it in this list.
 */
enum {
	DEVICES,       /* devices, by index in the broker */
	USERS,         /* users, by uid */
	SESSIONS,      /* sessions, by id */
	BUFFERS,       /* buffers, by generation */
	MAPPINGS,      /* mappings, by id */
	GRANTS,        /* grants, by generation of their buffer */
	OF_MAPPING,    /* all grants, sorted by the id of their mapping */
	OF_SESSION,    /* all mappings, sorted by the id of their session */
	OF_ALLOCATION, /* all mappings, sorted by the serial of their allocation */
	TIMELINES,     /* timelines, by generation of their buffer */
	WAITS,         /* waits of streams, by id of their session */
	REQUESTS,      /* requests that wait, by id of their session */
	ADDRESSES,     /* the broker's address */
	JOBS,          /* the broker's job */
	OWNERS,        /* the owner of the device memory */
	BROKERS,       /* the broker's process */
	PROGRAMS,      /* its program */
	TIMES,         /* histograms, by enum histogram_id */
	VIEWS
};

struct views {
	struct view view[VIEWS];
};

/* A range of a view: the indexes from `begin` to end - 1. */
struct range {
	size_t begin, end;
};

/* Makes all views of the records. Returns false if there is no memory; the caller calls views_free() in either case. */
bool views_make(struct views *views, const union status_record *records, size_t count);
void views_free(struct views *views);

/* Returns the index of the first record whose key is `key` or greater; view->count: there is none. */
size_t view_find(const struct view *view, uint64_t key);

/* Returns true if index i is in the view, and the record there has the key. */
bool view_has(const struct view *view, size_t i, uint64_t key);

/* Returns the first record with the key, or NULL. */
const union status_record *view_one(const struct view *view, uint64_t key);

/* Returns the range of all records with the key. */
struct range view_range(const struct view *view, uint64_t key);

/* Returns the sums over the records in a range of the view. */
struct sums  view_sums(const struct view *view, struct range range);

/* Returns the mapping of a grant, or NULL. */
const union status_record *views_mapping_of(const struct views *views, const union status_record *grant);

#endif
