/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mappings.h - the part of the registry that records which session maps which allocation (mappings), and of which of
 * its buffers the session may have leases (grants).
 *
 * Owns mappings and grants from the ACQUIRE or REDEEM to their end, and the rule which sessions' CLOSED and QUIESCED
 * are trusted. Calls registry_end_buffer() when a grant has ended whose allocation stays, and memory_decide_free() when
 * a mapping has. Looks mappings and grants up in tables of their session, so a message costs the same however many
 * mappings other sessions have (invariant 5).
 */
#ifndef GPUB_MAPPINGS_H
#define GPUB_MAPPINGS_H

#include "registry.h"

/* A session's request for a grant of a buffer. */
struct grant_order {
	struct session *session;
	uid_t           uid;    /* uid of the session's user */
	struct session_mappings *mappings; /* the mappings of that session */
	unsigned        device; /* device on which the session maps the buffer: its index in the broker */
	unsigned        rights; /* rights that the session asks for: bits GPUB_READ, GPUB_WRITE */
	bool            own;    /* the request gets a mapping of its own, which no other acquire shares */
};

/*
 * Sets *grant to the session's grant of a LIVE buffer under the mapping that its acquires share, and adds the rights to
 * it. Creates the grant if there is none since the buffer's last rename or resize. Creates a mapping, too, and sets
 * *fresh to true, if the session has no shared mapping of the allocation on the device, or order->own is set. Returns
 * 0; -EDQUOT; -ENOSPC: all handle places are taken; -ENOMEM.
 */
int grant_open(struct registry *registry, struct buffer *buffer, const struct grant_order *order, struct grant **grant,
	       bool *fresh);

/*
 * Returns the number of descriptors that the session would be sent with the buffer: one for each part of the allocation
 * that the session does not have yet. Returns 0 if the memory is exported without descriptors.
 */
unsigned mapping_missing(const struct buffer *buffer, const struct grant_order *order);

/* Sets mapping->bytes to the present size of the allocation. Returns the former value. */
uint64_t mapping_update_size(struct registry *registry, struct mapping *mapping);

/*
 * Returns true if a grant of the buffer has GPUB_WRITE, other than the grants that acquires by name gave the session of
 * `mappings` since the buffer's last rename or resize. The session's own grants by a ticket or from before count as
 * others'.
 */
bool grants_others_write(const struct session_mappings *mappings, const struct buffer *buffer);

/*
 * Returns one of the grants that make grants_others_write() return true, for an error message. Looks at a limited
 * number of grants. NULL: none of them was one.
 */
const struct grant *grants_find_writer(const struct session_mappings *mappings, const struct buffer *buffer);

/*
 * Takes GPUB_WRITE away from the grants of the buffer that acquires by name gave the session since the buffer's last
 * rename or resize.
 */
void grants_stop_writing(struct registry *registry, struct session_mappings *mappings, struct buffer *buffer);

/* Adds `rights` to the rights of the grant. */
void grant_add_rights(struct registry *registry, struct grant *grant, unsigned rights);

/* Returns the session's mapping with the id. NULL: there is none, or it is orphaned. */
struct mapping *mappings_find(const struct session_mappings *mappings, uint64_t id);

/*
 * Handles the CLOSED of a mapping. Returns true if the mapping has ended and is freed. Returns false if the session is
 * not trusted: the mapping is orphaned until its process is dead, because a process of another user than the memory's
 * owner may keep the mapping and go on writing (docs/lifetime.md, "Other users"). If such a session has an orphaned
 * mapping of the allocation already, that one takes over the grants, and true is returned.
 */
bool mapping_closed(struct registry *registry, struct mapping *mapping);

/* Ends and frees a mapping and its grants. Frees the allocation, too, if nothing else keeps it. */
void mapping_end(struct registry *registry, struct mapping *mapping);

/* Returns the grant under `mapping` that began when its buffer had the generation `serial`. NULL: there is none. */
struct grant *mapping_find_grant(const struct mapping *mapping, uint64_t serial);

/*
 * Handles the QUIESCED of a grant: the session says that the device is done with all leases of the buffer. Ends the
 * grant, or asks for the CLOSED of the whole mapping if only that helps; the grant stays until then. Returns false if
 * the session is not trusted: it is asked, too, but the grant stays.
 */
bool grant_quiesced(struct registry *registry, struct grant *grant);

/* ---- for the ledger, and for the broker that loads it ---- */

void mapping_note(const struct mapping *mapping, struct mapping_record *record);
void grant_note(const struct grant *grant, struct grant_record *record);

/* Whose a restored mapping is. */
struct mapping_party {
	struct session          *session;
	struct session_mappings *mappings; /* those of the session */
	uid_t                    uid;      /* of the session's user */
};

/*
 * Makes the mapping that the record is of, and the grant under a restored mapping. Return 0; -ENOMEM; -EBADMSG: there
 * can be no such mapping or grant, or there is one. The error message is set.
 */
int mapping_restore(struct registry *registry, const struct mapping_record *record, const struct mapping_party *party,
		    struct allocation *allocation, struct mapping **mapping);
int grant_restore(struct registry *registry, const struct grant_record *record, struct mapping *mapping,
		  struct buffer *buffer);

/*
 * Frees all mappings and grants of a session, at the broker's end. Frees no device memory: the driver does when the
 * broker exits.
 */
void mappings_free(struct registry *registry, struct session_mappings *mappings);

#endif
