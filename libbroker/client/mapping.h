/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mapping.h - what this process has open: one handle, under one grant, with the records of all buffers in it.
 *
 * Several small buffers of an owner lie in one allocation, and the broker gives one grant for all of them: opened once,
 * closed once. Owns the open handle from the open to the close, and the list of records that stand on it; says CLOSED and
 * IDLE to nobody (close.c does). All of it is under the client's lock, but opening.
 */
#ifndef GPUB_MAPPING_H
#define GPUB_MAPPING_H

#include <stdbool.h>
#include <stdint.h>

#include "common/tables.h"
#include "common/wire.h"

struct gpub_client;
struct record;

/* What a pass of cache.c closes: it marks the mappings that it has come to. */
enum cache_scope { CACHE_DUE, CACHE_ALL, CACHE_SCOPES };

struct mapping {
	uint64_t          grant;
	struct wire_grant opened; /* the GRANT that it was opened by: its ticket stands in the board as long as the grant */
	int               ordinal;
	uint64_t          epoch; /* of the device; in another one the handle is not open any more */
	void             *base;
	bool              wanted;  /* the broker wants it back */
	bool              closing; /* a thread is closing it */
	bool              lost;    /* which has found that the device was reset: there is no handle to close */
	unsigned          syncing; /* threads that have it open once more: none may close it meanwhile */
	bool              leaked;  /* it failed to close: it is open, and granted, until this process ends */
	struct record    *records; /* OPEN, or CLOSING, on it */
	uint64_t          acquires, used; /* cache.c's: its acquire count at the last scan; the last scan that saw it used */
	uint64_t          passed[CACHE_SCOPES]; /* the last pass of each scope that came to it, or before which it was added */
	struct mapping   *prev, *next; /* in client->mappings */
	UT_hash_handle    hh;          /* by grant */
};

/* Opens what the broker granted. 0 and *mapping, yet to be added; or the errno. Not locked: it takes as long as it takes. */
int mapping_open(struct gpub_client *client, const struct wire_grant *grant, int ordinal, struct mapping **mapping);

/* The device was reset since, which has closed its handle. Locked or not. */
bool mapping_is_lost(const struct gpub_client *client, const struct mapping *mapping);

/* Closes its handle, and nothing else of it; 0 also where a reset has done that meanwhile. Not locked. */
int mapping_unmap(struct gpub_client *client, const struct mapping *mapping);

/* From now on it can be found. -ENOMEM: it stays the caller's. */
int mapping_add(struct gpub_client *client, struct mapping *mapping);

/* Its handle is closed: it cannot be found any more, and is freed. No record stands on it. */
void mapping_remove(struct gpub_client *client, struct mapping *mapping);

/* Its handle does not close. It can be found still, for the broker may name its grant, but is none of client->mappings. */
void mapping_leak(struct gpub_client *client, struct mapping *mapping);

/* At disconnect: frees those. */
void mappings_forget(struct gpub_client *client);

/* The one under that grant, or NULL. */
struct mapping *mapping_find(struct gpub_client *client, uint64_t grant);

void mapping_attach(struct mapping *mapping, struct record *record);
void mapping_detach(struct record *record);

/* The record of the buffer with that serial on it, or NULL. */
struct record *mapping_record(const struct mapping *mapping, uint64_t serial);

/* Waits until the device has done what this process queued on it so far. Gives the lock up meanwhile; the mapping stays. */
int mapping_sync(struct gpub_client *client, struct mapping *mapping);

#endif
