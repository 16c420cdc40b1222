/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mapping.h - an open handle: its grant, and the records of all buffers in it.
 *
 * Several small buffers of an owner lie in one allocation, and the broker gives one grant for all of them: it is opened
 * once and closed once. Owns the handle from the open to the close, and the list of its records. Never sends CLOSED or
 * QUIESCED (close.c does). All of it is under the client's lock, except opening.
 */
#ifndef GPUB_MAPPING_H
#define GPUB_MAPPING_H

#include <stdbool.h>
#include <stdint.h>

#include "common/export.h"
#include "common/handle.h"
#include "common/tables.h"
#include "common/wire.h"
#include "view.h"

struct gpub_client;
struct record;

/* What a pass of cache.c closes: it marks the mappings that it has come to. */
enum cache_scope { CACHE_DUE, CACHE_ALL, CACHE_SCOPES };

struct mapping {
	uint64_t          grant;
	struct wire_grant opened; /* the GRANT that it was opened by: its sealed handle stays in the board as long as the grant */
	int               ordinal;
	uint64_t          epoch; /* of the device; in another epoch the handle is not open */
	uint64_t          size; /* bytes that it maps: the allocation may have grown since */
	void             *base[VIEWS]; /* NULL: no lease has needed it yet */
	bool              wanted;  /* the broker wants it back; in client->wanted, too, if its close need not wait */
	bool              quiesced; /* its returns prove that the device is done with it, as the last close found */
	bool              closing; /* a thread is closing it */
	bool              lost;    /* the closing thread found that the device was reset: no handle is open, and no work left */
	unsigned          syncing; /* threads in mapping_sync(), mapping_view(), mapping_extend(): none may close it meanwhile */
	bool              changing; /* one of them makes a view, or maps more */
	bool              leaked;  /* it failed to close: it is open, and granted, until this process ends */
	struct record    *records; /* OPEN or CLOSING */
	uint64_t          acquires, used; /* cache.c's: its acquire count at the last scan; the last scan that saw it used */
	struct mapping   *wanted_prev, *wanted_next;
	uint64_t          passed_wanted; /* the last pass that came to it in client->wanted */
	uint64_t          passed[CACHE_SCOPES]; /* the last pass of each scope that came to it, or before which it was added */
	struct mapping   *prev, *next; /* in client->mappings */
	UT_hash_handle    hh;          /* by grant */
};

/*
 * Opens what the broker granted: by its handle, or by the chunks that came, which chunks_check() has passed. 0 and *mapping, which is yet to be
 * added; or the errno. Not locked: it may take long.
 */
int mapping_open(struct gpub_client *client, const struct wire_grant *grant, int ordinal, struct mapping **mapping);

/*
 * Maps the chunks that came behind what it maps already. -EAGAIN: a reset came between. After another error it is
 * too short for the grant. Locked; releases the lock meanwhile.
 */
int mapping_extend(struct gpub_client *client, struct mapping *mapping, const struct wire_grant *grant);

/*
 * Maps it for leases of that kind as well, unless it is. -EAGAIN: a reset came between. Locked; releases the lock meanwhile: the caller has a
 * hold in it.
 */
int mapping_view(struct gpub_client *client, struct mapping *mapping, enum view view);

/* How the broker exported the memory. */
static inline const struct export *mapping_export(const struct mapping *mapping)
{
	return export_of(mapping->opened.exported);
}

/* Whether a close of the mapping waits for nothing. */
static inline bool mapping_closes_at_once(const struct mapping *mapping)
{
	return !mapping_export(mapping)->close_waits && mapping->quiesced;
}

/* The broker wants it back. */
void mapping_want(struct gpub_client *client, struct mapping *mapping);

/* The device was reset after the open, which closed the handle. Locked or not. */
bool mapping_is_lost(const struct gpub_client *client, const struct mapping *mapping);

/* Closes its handle, or unmaps it, only; 0 also if a reset has closed the handle meanwhile. Not locked. */
int mapping_unmap(struct gpub_client *client, struct mapping *mapping);

/* Adds it to the client. -ENOMEM: it stays the caller's. */
int mapping_add(struct gpub_client *client, struct mapping *mapping);

/* Its handle is closed: removes and frees it. It has no records. */
void mapping_remove(struct gpub_client *client, struct mapping *mapping);

/* Its handle does not close. It leaves client->mappings, but mapping_find() finds it: the broker may still name its grant. */
void mapping_leak(struct gpub_client *client, struct mapping *mapping);

/* At disconnect: frees those that leaked. */
void mappings_forget(struct gpub_client *client);

/* The mapping under that grant, or NULL. */
struct mapping *mapping_find(struct gpub_client *client, uint64_t grant);

void mapping_attach(struct mapping *mapping, struct record *record);
void mapping_detach(struct record *record);

/* The record of the buffer with that serial in it, or NULL. */
struct record *mapping_record(const struct mapping *mapping, uint64_t serial);

/* Waits until the device has done what this process has queued on it. Releases the lock meanwhile; the mapping stays. */
int mapping_sync(struct gpub_client *client, struct mapping *mapping);

#endif
