/* SPDX-License-Identifier: Apache-2.0 */
/*
 * registry.h - the books: which names there are, which memory they stand for, who holds a grant on it.
 *
 * Owns buffers, allocations and grants, and is the only place that decides that memory may be freed: when
 * none of its buffers has a name any more and every grant on it is over (invariant 2). Counts stand in
 * private memory; what clients read is the word in the board, stored here and never read back.
 * Never does I/O, never allocates or frees device memory: it tells its hooks when to.
 */
#ifndef GPUB_REGISTRY_H
#define GPUB_REGISTRY_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "accounting.h"
#include "common/name.h"
#include "device/device.h"
#include "places.h"
#include "tables.h"

struct create_wait;
struct drain_wait;
struct identity;
struct once;
struct session;

/* One export of whole granules on one device. Holds one buffer now, many small ones of one owner later. */
struct allocation {
	unsigned             device; /* the broker's index */
	uint64_t             span;   /* bytes, whole granules */
	void                *ptr;
	struct device_handle handle;
	bool                 freeing;
	unsigned             named;  /* buffers in it that still have their name */
	unsigned             open;   /* grants on it that are not over, those that are held among them */
	unsigned             held;
	struct buffer       *buffers;
	struct grant        *grants;
	struct charge        charge;
	void                *release_job; /* malloc'd with it: a free must not want for memory */
	struct allocation   *prev, *next;
};

enum buffer_state { BUFFER_CREATING, BUFFER_LIVE, BUFFER_DRAINING };

/* A name's memory in one generation. */
struct buffer {
	char               name[NAME_SIZE];
	uint64_t           serial; /* never reused */
	uint32_t           place;  /* its word in the board */
	enum buffer_state  state;
	uint64_t           size, offset;
	struct allocation *allocation;
	uid_t              owner;
	uint32_t           tenure; /* how often it changed its owner */
	gid_t              group;
	unsigned           mode, flags;
	uint64_t           creator; /* session that made it; 0: the broker itself */
	struct timeline   *timeline;
	struct drain_wait *drain;   /* who waits for its end */
	struct once       *tickets; /* delegable ones that may be redeemed once */
	struct charge      charge;
	UT_hash_handle     hh;          /* by name, while it has it */
	UT_hash_handle     by_serial;   /* by serial, as long */
	struct buffer     *prev, *next; /* in its allocation */
};

/*
 * One session's right to one allocation on one device. It is held once the session said that it is closed and is not
 * believed: it then waits for the process's death, without a ticket, and counts against the free as before.
 */
struct grant {
	uint64_t           id; /* never reused */
	struct session    *session;
	uid_t              uid; /* the session's */
	struct allocation *allocation;
	unsigned           device, rights;
	uint32_t           ticket; /* its place in the board */
	bool               held;
	struct charge      charge;
	UT_hash_handle     hh;          /* by id, in its session */
	struct grant      *prev, *next; /* in its allocation */
};

struct registry_hooks {
	/* The grant's session should close: a buffer under it lost its name. */
	void (*notice)(void *context, struct grant *grant);
	/* Nothing and nobody can touch this memory any more: free it, then call registry_released(). */
	void (*release)(void *context, struct allocation *allocation);
};

/* Whose word that a mapping is closed counts. Everybody's death does. */
enum believe { BELIEVE_OWNER, BELIEVE_NOBODY };

struct registry {
	struct buffer         *names;   /* CREATING and LIVE buffers */
	struct buffer         *serials; /* the same, by serial */
	enum believe           believe;
	struct allocation     *allocations;
	struct places          words, tickets;
	_Atomic uint64_t      *board_words;
	uint64_t               next_serial, next_grant;
	struct accounting     *accounting;
	struct registry_hooks  hooks;
	void                  *context;
	unsigned               buffer_count, grant_count; /* all buffers, and grants that are not held: for people and tests */
	uint64_t               bytes;                     /* in all allocations */
};

/* What a buffer shall be. */
struct buffer_spec {
	const char *name;
	uint64_t    size, span; /* span: size in whole granules */
	unsigned    device;
	uid_t       owner;
	gid_t       group;
	unsigned    mode, flags;
	uint64_t    creator;
};

int registry_init(struct registry *registry, _Atomic uint64_t *words, uint32_t buffers, uint32_t tickets,
		  struct accounting *accounting, const struct registry_hooks *hooks, void *context);
/* Forgets also what is not freed yet; the sessions' tables of grants must not be used after. */
void registry_deinit(struct registry *registry);
bool registry_empty(const struct registry *registry);

/* Takes the name and charges its owner; the memory is yet to be made. -EEXIST, -EDQUOT, -ENOMEM. */
int registry_reserve(struct registry *registry, const struct buffer_spec *spec, struct buffer **buffer);

/* The device has made it: the buffer is LIVE from now on. */
void registry_ready(struct registry *registry, struct buffer *buffer, void *ptr,
		    const struct device_handle *handle);

/* The device could not make it: name, charge and buffer are gone. */
void registry_abandon(struct registry *registry, struct buffer *buffer);

/* The CREATING or LIVE buffer of that name, or NULL. */
struct buffer *registry_find(const struct registry *registry, const char *name);

/* The LIVE buffer with that serial, or NULL. */
struct buffer *registry_find_serial(const struct registry *registry, uint64_t serial);

/* Another user owns it, and is charged with it, from now on. -EDQUOT, -ENOMEM: all as before. */
int registry_change_owner(struct registry *registry, struct buffer *buffer, uid_t owner);

/* Takes the name of a LIVE buffer away: its word says so, its grants get their notice, then it may go. */
void registry_unlink(struct registry *registry, struct buffer *buffer);

/*
 * A new grant for the session on a LIVE buffer's allocation, added to *grants (the session's table).
 * -EDQUOT, -ENOSPC all tickets of the board are taken, -ENOMEM.
 */
int registry_grant(struct registry *registry, struct buffer *buffer, struct session *session, uid_t uid,
		   struct grant **grants, unsigned device, unsigned rights, struct grant **grant);

/* The session's grant with that id, unless it is held; or NULL. */
struct grant *registry_find_grant(struct grant *grants, uint64_t id);

/*
 * Its session says that its mapping is closed. True: believed, and the grant is over; false: it is held until the
 * process is dead. Believed is who owns the memory: anybody else may go on writing to it (design.md, "Other users").
 */
bool registry_grant_closed(struct registry *registry, struct grant **grants, struct grant *grant);

/* The grant is over, by CLOSED or by death; frees it, and its memory when it was the last. */
void registry_grant_over(struct registry *registry, struct grant **grants, struct grant *grant);

/* The memory that hooks.release() was told of is freed: its buffers and the allocation are gone. */
void registry_released(struct registry *registry, struct allocation *allocation);

/* The buffer with that serial under the grant, or NULL. */
struct buffer *allocation_find(const struct allocation *allocation, uint64_t serial);

/* The rights that the buffer's mode bits give to that user: the first of owner, group and others that applies. */
unsigned buffer_rights(const struct buffer *buffer, const struct identity *identity);

#endif
