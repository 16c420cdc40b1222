/* SPDX-License-Identifier: Apache-2.0 */
/*
 * grants.h - the part of the registry that says who maps what, and who uses which buffer of it.
 *
 * Owns grants and uses from the ACQUIRE to their end, and the one rule about which user's CLOSED and QUIESCED is trusted. When
 * one has ended it calls registry_end_buffer() and memory_decide_free(). Finds each in a table of its session: a message costs the
 * same however many grants others have on an allocation (invariant 5).
 */
#ifndef GPUB_GRANTS_H
#define GPUB_GRANTS_H

#include "registry.h"

/* Who asks for a grant, and what for. */
struct grant_order {
	struct session *session;
	uid_t           uid;
	struct grants  *grants; /* the session's */
	unsigned        device, rights;
	bool            own; /* a grant of its own, which shares with no other acquire */
};

/*
 * A use of a LIVE buffer, under the grant that the session has on its allocation, or under a new one: *fresh.
 * -EDQUOT, -ENOSPC all places for sealed handles are taken, -ENOMEM.
 */
int grant_open(struct registry *registry, struct buffer *buffer, const struct grant_order *order, struct use **use,
	       bool *fresh);

/* How many pieces of the buffer's memory with a descriptor the session would be sent: those that it does not have under the grant. */
unsigned grant_missing(const struct buffer *buffer, const struct grant_order *order);

/* The session is given all that the allocation is now. Returns how many bytes of it the session had before. */
uint64_t grant_extend(struct registry *registry, struct grant *grant);

/* Whether another session than that one, or this one under a ticket or an earlier name, has asked to write the buffer. */
bool grants_others_write(const struct grants *grants, const struct buffer *buffer);

/* One of them, for an error message; NULL: it stands too far behind in the list of uses. */
const struct use *grants_find_writer(const struct grants *grants, const struct buffer *buffer);

/* The session asks for no more writes of the buffer. */
void grants_stop_writing(struct grants *grants, struct buffer *buffer);

/* The use has those rights, too. */
void use_add_rights(struct use *use, unsigned rights);

/* The session's grant with that id, unless it is orphaned; or NULL. */
struct grant *grant_find(const struct grants *grants, uint64_t id);

/*
 * Its session says that its mapping is closed. True: it is trusted, and the grant is over; false: the grant is orphaned until the
 * process is dead. Only the memory's owner is trusted: anybody else may go on writing to it (design.md, "Other users").
 */
bool grant_closed(struct registry *registry, struct grant *grant);

/* The grant is over, by CLOSED or by death; frees it, and its memory when it was the last. */
void grant_end(struct registry *registry, struct grant *grant);

/* Its use of that buffer under that grant; NULL: it has none. */
struct use *grant_find_use(const struct grant *grant, uint64_t serial);

/*
 * Its session says that the device is done with all leases of the buffer. False: it is not trusted, as for a CLOSED, and
 * nothing has changed.
 */
bool use_quiesced(struct registry *registry, struct use *use);

/* At the broker's end: forgets them. Memory that is still granted is left to the driver, until the process ends. */
void grants_forget(struct registry *registry, struct grants *grants);

#endif
