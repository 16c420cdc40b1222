/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mapping.h - mappings: memory that this process has opened, and the records of all buffers in it.
 *
 * Several small buffers of an owner lie in one allocation, and the broker gives one mapping for all of them: the
 * allocation is opened once and closed once. Owns the opened memory from the open to the close, and each mapping's list
 * of records. Never sends CLOSED or QUIESCED (close.c and messages.c do). Functions are called under client->lock,
 * unless their comment says otherwise.
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

/* Which mappings a pass of cache.c closes: those that are due, or all that no lease holds (cache.h). */
enum cache_scope { CACHE_DUE, CACHE_ALL, CACHE_SCOPES };

struct mapping {
	uint64_t          id;     /* id of the mapping in the broker, in GRANT, NOTICE and CLOSED */
	/* the GRANT by which the mapping was opened; its sealed handle stays in the board until CLOSED is sent */
	struct wire_grant opened;
	int               ordinal; /* ordinal, in this process, of the device that maps the memory */
	uint64_t          epoch; /* the device's epoch when the memory was opened; a new epoch means that it is lost */
	uint64_t          size; /* bytes of the allocation that are mapped; the allocation may have grown since */
	void             *base[VIEWS]; /* address of each view; NULL: no lease has needed that view yet */
	/*
	 * the broker wants the mapping back, or messages.c, because it lacks chunks; it is also in client->wanted if
	 * its close may need no wait
	 */
	bool              wanted;
	/* at the last attempt to close the mapping, returns in stream order proved that the device was done with it */
	bool              quiesced;
	bool              closing; /* a thread is closing the mapping */
	bool              lost;    /* the closing thread found that the device was reset, so no device work is left */
	/*
	 * number of threads in mapping_sync(), mapping_view() and mapping_extend(); no close begins while it is not 0
	 */
	unsigned          syncing;
	bool              changing; /* a thread is in mapping_view() or mapping_extend(); the next such thread waits */
	bool              leaked;  /* the close failed: the mapping stays open, and granted, until this process ends */
	struct record    *records; /* list of the mapping's records, OPEN or CLOSING */
	uint64_t          acquires; /* the mapping's acquire count when cache.c last read the counts of all mappings */
	uint64_t          used;     /* value of cache.scans when `acquires` was last found changed */
	struct mapping   *wanted_prev, *wanted_next; /* links of the list client->wanted */
	/* number of the last pass over client->wanted that visited it, or that had begun before it was added there */
	uint64_t          passed_wanted;
	/*
	 * number of the last pass of each scope that visited the mapping, or that had begun before the mapping was
	 * added
	 */
	uint64_t          passed[CACHE_SCOPES];
	struct mapping   *prev, *next; /* links of the list client->mappings */
	UT_hash_handle    hh;          /* entry of the table client->mappings_by_id */
};

/*
 * Opens the memory of the GRANT on the device with this ordinal: by the handle or, if the memory is exported by
 * descriptors, by client->chunks, which chunks_check() has passed. Returns 0 and *mapping, for mapping_add(), or a
 * negative errno with the error message set. Call it without client->lock, because it may take long.
 */
int mapping_open(struct gpub_client *client, const struct wire_grant *grant, int ordinal, struct mapping **mapping);

/*
 * Maps the chunks by which the allocation has grown (client->chunks) behind the mapping's mapped bytes. -EAGAIN: the
 * device was reset meanwhile. After another error the mapping is shorter than the GRANT says. Releases client->lock
 * meanwhile.
 */
int mapping_extend(struct gpub_client *client, struct mapping *mapping, const struct wire_grant *grant);

/*
 * Maps the view of the mapping, unless it is mapped already. -EAGAIN: the device was reset meanwhile. Releases
 * client->lock meanwhile, so the caller must have a hold of a record of the mapping.
 */
int mapping_view(struct gpub_client *client, struct mapping *mapping, enum view view);

/* Returns the kind of export by which the broker exported the mapping's memory. */
static inline const struct export *mapping_export(const struct mapping *mapping)
{
	return export_of(mapping->opened.exported);
}

/* Whether a close of the mapping need not wait for the device. */
static inline bool mapping_closes_at_once(const struct mapping *mapping)
{
	return !mapping_export(mapping)->close_waits && mapping->quiesced;
}

/* Records in the mapping that it is wanted: it is to be closed as soon as possible. */
void mapping_want(struct gpub_client *client, struct mapping *mapping);

/*
 * Whether the device was reset, and can be used again, after the mapping was opened. May be called with or without
 * client->lock.
 */
bool mapping_is_lost(const struct gpub_client *client, const struct mapping *mapping);

/*
 * Closes the mapping's handle, or unmaps its views, and does no more. Returns 0 also if a reset has closed the handle
 * before. Call it without client->lock.
 */
int mapping_unmap(struct gpub_client *client, struct mapping *mapping);

/* Adds an open mapping to the client's table and list of mappings. -ENOMEM: the mapping stays the caller's. */
int mapping_add(struct gpub_client *client, struct mapping *mapping);

/* Removes from the client, and frees, a mapping whose memory is closed and that has no records. */
void mapping_remove(struct gpub_client *client, struct mapping *mapping);

/*
 * Marks a mapping that failed to close as leaked. mapping_find() still finds the mapping, because the broker may name
 * it again.
 */
void mapping_leak(struct gpub_client *client, struct mapping *mapping);

/* For a disconnect: frees the structures of the leaked mappings, whose memory stays mapped. */
void mappings_forget(struct gpub_client *client);

/* Returns the mapping with the id, or NULL. */
struct mapping *mapping_find(struct gpub_client *client, uint64_t id);

void mapping_attach(struct mapping *mapping, struct record *record);
void mapping_detach(struct record *record);

/* Returns the mapping's record of the buffer with this serial, or NULL. */
struct record *mapping_record(const struct mapping *mapping, uint64_t serial);

/*
 * Waits until the mapping's device has done all work that this process has queued on it. No thread closes the mapping
 * meanwhile. -ENOTSUP: this CUDA driver has no call that waits for the work. Releases client->lock meanwhile.
 */
int mapping_sync(struct gpub_client *client, struct mapping *mapping);

#endif
