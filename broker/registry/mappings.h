/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mappings.h - the part of the registry that records which session maps which allocation (mappings), and of which of
 * its buffers the session may have leases (grants).
 *
 * Owns mappings and grants from the ACQUIRE to their end, and the rule whose CLOSED and QUIESCED are trusted. Calls
 * registry_end_buffer() when a grant has ended, and memory_decide_free() when a mapping has. Looks mappings and grants
 * up in tables of their session, so a message costs the same however many mappings other sessions have (invariant 5).
 */
#ifndef GPUB_MAPPINGS_H
#define GPUB_MAPPINGS_H

#include "registry.h"

/* A session's request for a buffer. */
struct grant_order {
	struct session *session;
	uid_t           uid;    /* of the session's user */
	struct session_mappings *mappings; /* the session's */
	unsigned        device; /* where the session maps the buffer: the broker's index */
	unsigned        rights; /* GPUB_READ, GPUB_WRITE */
	bool            own;    /* the request gets a mapping that no other acquire shares */
};

/*
 * Returns in *grant the session's grant of a LIVE buffer, and creates it if the session has none. Creates a mapping,
 * too, if the session has no shared one on the allocation and device, or order->own is set; *fresh says whether it did.
 * -EDQUOT; -ENOSPC: all handle places are taken; -ENOMEM.
 */
int grant_open(struct registry *registry, struct buffer *buffer, const struct grant_order *order, struct grant **grant,
	       bool *fresh);

/*
 * Returns the number of descriptors that the session would be sent with the buffer: one for each chunk of the
 * allocation that the session does not have yet. 0 if the memory is exported without descriptors.
 */
unsigned mapping_missing(const struct buffer *buffer, const struct grant_order *order);

/* Sets mapping->bytes to the present size of the allocation. Returns what it was before. */
uint64_t mapping_update_size(struct registry *registry, struct mapping *mapping);

/*
 * Whether a grant of the buffer has GPUB_WRITE, other than the grants that acquires by its present name gave the
 * session of `mappings`. The session's own grants by a ticket or by an earlier name count as others.
 */
bool grants_others_write(const struct session_mappings *mappings, const struct buffer *buffer);

/*
 * Returns one of the grants that grants_others_write() found, for an error message. NULL: it was not among the grants
 * looked at.
 */
const struct grant *grants_find_writer(const struct session_mappings *mappings, const struct buffer *buffer);

/* Takes GPUB_WRITE away from the grants that acquires by the buffer's name gave the session. */
void grants_stop_writing(struct session_mappings *mappings, struct buffer *buffer);

/* Adds `rights` to those of the grant. */
void grant_add_rights(struct grant *grant, unsigned rights);

/* Returns the session's mapping with the id. NULL: there is none, or it is orphaned. */
struct mapping *mappings_find(const struct session_mappings *mappings, uint64_t id);

/*
 * Handles the CLOSED of a mapping. True: the mapping has ended and is freed. False: the session is not trusted, and the
 * mapping is orphaned until its process is dead, because a process of another user than the memory's owner may keep the
 * mapping and go on writing (docs/lifetime.md, "Other users").
 */
bool mapping_closed(struct registry *registry, struct mapping *mapping);

/* Ends and frees a mapping and its grants. Frees the allocation, too, if nothing else keeps it. */
void mapping_end(struct registry *registry, struct mapping *mapping);

/* Returns the grant under `mapping` of the buffer with the generation `serial`. NULL: there is none. */
struct grant *mapping_find_grant(const struct mapping *mapping, uint64_t serial);

/*
 * Handles the QUIESCED of a grant: the session says that the device is done with all leases of the buffer. Ends the
 * grant, or asks the session for the CLOSED of the whole mapping where only that helps. False: the session is not
 * trusted; the grant stays.
 */
bool grant_quiesced(struct registry *registry, struct grant *grant);

/*
 * Frees all mappings and grants of a session, at the broker's end. Frees no device memory: the driver does when the
 * broker exits.
 */
void mappings_free(struct registry *registry, struct session_mappings *mappings);

#endif
