/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mapping.h - mappings: memory that this process has opened, and the records of all buffers in it.
 *
 * Several small buffers of an owner lie in one allocation, and the broker gives one mapping for all of them: the
 * allocation is opened once and closed once. Owns the handle from the open to the close, and the list of the records.
 * Never sends CLOSED or QUIESCED (close.c does). Functions are under client->lock, unless their comment says
 * otherwise.
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

/* What a pass of cache.c closes: only mappings that are due, or all. */
enum cache_scope { CACHE_DUE, CACHE_ALL, CACHE_SCOPES };

struct mapping {
	uint64_t          id;     /* of the broker's mapping; GRANT and NOTICE name it */
	struct wire_grant opened; /* the GRANT that opened it; the board has its sealed handle until the CLOSED */
	int               ordinal; /* the device's ordinal in this process */
	uint64_t          epoch; /* the device's epoch at the open; in another epoch the mapping is lost */
	uint64_t          size; /* bytes that are mapped; the allocation may have grown since */
	void             *base[VIEWS]; /* address of each view; NULL: no lease has needed that view yet */
	bool              wanted;  /* the broker wants it back; also in client->wanted if a close may need no wait */
	bool              quiesced; /* at the last attempt to close it, returns proved that the device was done */
	bool              closing; /* a thread is closing the mapping */
	bool              lost;    /* the closing thread found that the device was reset: no device work is left */
	unsigned          syncing; /* threads in mapping_sync(), _view() and _extend(); no close begins until 0 */
	bool              changing; /* a thread is in mapping_view() or _extend(); the next such thread waits */
	bool              leaked;  /* the close failed: it stays open, and granted, until this process ends */
	struct record    *records; /* list of the mapping's records, OPEN or CLOSING */
	uint64_t          acquires; /* cache.c: the mapping's acquire count at the last scan */
	uint64_t          used;     /* cache.c: number of the last scan that found another acquire count than before */
	struct mapping   *wanted_prev, *wanted_next; /* in client->wanted */
	uint64_t          passed_wanted; /* number of the last pass over client->wanted that visited the mapping */
	uint64_t          passed[CACHE_SCOPES]; /* by scope: last pass that visited it; at first the last pass so far */
	struct mapping   *prev, *next; /* in client->mappings */
	UT_hash_handle    hh;          /* in client->mappings_by_id */
};

/*
 * Opens what was granted: by its handle or, if it is exported by descriptors, by client->chunks, which chunks_check()
 * has passed. 0 and *mapping, for mapping_add(), or a negative errno. Without client->lock, because it may take long.
 */
int mapping_open(struct gpub_client *client, const struct wire_grant *grant, int ordinal, struct mapping **mapping);

/*
 * Maps the memory by which the allocation has grown (client->chunks) behind what is mapped. -EAGAIN: the device was
 * reset meanwhile. After another error the mapping is shorter than the GRANT says. Releases client->lock meanwhile.
 */
int mapping_extend(struct gpub_client *client, struct mapping *mapping, const struct wire_grant *grant);

/*
 * Maps the view, unless it is mapped. -EAGAIN: the device was reset meanwhile. Releases client->lock meanwhile: the
 * caller has a hold of a record in the mapping.
 */
int mapping_view(struct gpub_client *client, struct mapping *mapping, enum view view);

/* How the broker exported the memory. */
static inline const struct export *mapping_export(const struct mapping *mapping)
{
	return export_of(mapping->opened.exported);
}

/* Whether a close of the mapping need not wait for the device. */
static inline bool mapping_closes_at_once(const struct mapping *mapping)
{
	return !mapping_export(mapping)->close_waits && mapping->quiesced;
}

/* Notes that the broker wants the mapping back. */
void mapping_want(struct gpub_client *client, struct mapping *mapping);

/* Whether the device was reset after the open. With or without client->lock. */
bool mapping_is_lost(const struct gpub_client *client, const struct mapping *mapping);

/* Only closes the handle or unmaps the views; 0 also if a reset has closed the handle. Without client->lock. */
int mapping_unmap(struct gpub_client *client, struct mapping *mapping);

/* Adds an open mapping to the client. -ENOMEM: the mapping stays the caller's. */
int mapping_add(struct gpub_client *client, struct mapping *mapping);

/* Removes and frees a mapping whose handle is closed and that has no records. */
void mapping_remove(struct gpub_client *client, struct mapping *mapping);

/* Marks a mapping that fails to close. mapping_find() still finds it, because the broker may name it again. */
void mapping_leak(struct gpub_client *client, struct mapping *mapping);

/* At disconnect: frees the structures of the leaked mappings. */
void mappings_forget(struct gpub_client *client);

/* Returns the mapping with the id, or NULL. */
struct mapping *mapping_find(struct gpub_client *client, uint64_t id);

void mapping_attach(struct mapping *mapping, struct record *record);
void mapping_detach(struct record *record);

/* The mapping's record of the buffer with that serial, or NULL. */
struct record *mapping_record(const struct mapping *mapping, uint64_t serial);

/*
 * Waits until the device has done all work that this process has queued on it. Nobody closes the mapping meanwhile.
 * -ENOTSUP: no call of this driver waits for work. Releases client->lock meanwhile.
 */
int mapping_sync(struct gpub_client *client, struct mapping *mapping);

#endif
