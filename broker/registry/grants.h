/* SPDX-License-Identifier: Apache-2.0 */
/*
 * grants.h - the part of the registry that records which session maps which allocation (grants), and which of its
 * buffers the session uses (uses).
 *
 * Owns grants and uses from the ACQUIRE to their end, and the rule whose CLOSED and QUIESCED are trusted. Calls
 * registry_end_buffer() when a use has ended, and memory_decide_free() when a grant has. Looks grants and uses up in
 * tables of their session, so a message costs the same however many grants other sessions have (invariant 5).
 */
#ifndef GPUB_GRANTS_H
#define GPUB_GRANTS_H

#include "registry.h"

/* A session's request for a buffer. */
struct grant_order {
	struct session *session;
	uid_t           uid;    /* of the session's user */
	struct grants  *grants; /* the session's */
	unsigned        device; /* where the session maps the buffer: the broker's index */
	unsigned        rights; /* GPUB_READ, GPUB_WRITE */
	bool            own;    /* the request gets a grant that no other acquire shares */
};

/*
 * Returns in *use the session's use of a LIVE buffer, and creates it if the session has none. Creates a grant, too, if
 * the session has no shared one on the allocation and device, or order->own is set; *fresh says whether it did.
 * -EDQUOT; -ENOSPC: all places for sealed handles are taken; -ENOMEM.
 */
int grant_open(struct registry *registry, struct buffer *buffer, const struct grant_order *order, struct use **use,
	       bool *fresh);

/*
 * Returns the number of descriptors that the session would be sent with the buffer: one for each chunk of the
 * allocation that the session does not have yet. 0 if the memory is exported without descriptors.
 */
unsigned grant_missing(const struct buffer *buffer, const struct grant_order *order);

/* Sets grant->bytes to the present size of the allocation. Returns what it was before. */
uint64_t grant_extend(struct registry *registry, struct grant *grant);

/*
 * Whether a use of the buffer has GPUB_WRITE, other than the uses that acquires by its present name gave the session of
 * `grants`. The session's own uses by a ticket or by an earlier name count as others.
 */
bool grants_others_write(const struct grants *grants, const struct buffer *buffer);

/*
 * Returns one of the uses that grants_others_write() found, for an error message. NULL: it was not among the uses
 * looked at.
 */
const struct use *grants_find_writer(const struct grants *grants, const struct buffer *buffer);

/* Takes GPUB_WRITE away from the uses that acquires by the buffer's name gave the session. */
void grants_stop_writing(struct grants *grants, struct buffer *buffer);

/* Adds `rights` to those of the use. */
void use_add_rights(struct use *use, unsigned rights);

/* Returns the session's grant with the id. NULL: there is none, or it is orphaned. */
struct grant *grant_find(const struct grants *grants, uint64_t id);

/*
 * Handles the CLOSED of a grant. True: the grant has ended and is freed. False: the session is not trusted, and the
 * grant is orphaned until its process is dead, because a process of another user than the memory's owner may keep the
 * mapping and go on writing (docs/lifetime.md, "Other users").
 */
bool grant_closed(struct registry *registry, struct grant *grant);

/* Ends and frees a grant and its uses. Frees the allocation, too, if nothing else keeps it. */
void grant_end(struct registry *registry, struct grant *grant);

/* Returns the use under `grant` of the buffer with the generation `serial`. NULL: there is none. */
struct use *grant_find_use(const struct grant *grant, uint64_t serial);

/*
 * Handles the QUIESCED of a use: the session says that the device is done with all leases of the buffer. Ends the use,
 * or asks the session for the CLOSED of the whole mapping where only that helps. False: the session is not trusted; the
 * use stays.
 */
bool use_quiesced(struct registry *registry, struct use *use);

/*
 * Frees all grants and uses of a session, at the broker's end. Frees no device memory: the driver does when the broker
 * exits.
 */
void grants_forget(struct registry *registry, struct grants *grants);

#endif
