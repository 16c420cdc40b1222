/* SPDX-License-Identifier: Apache-2.0 */
/*
 * registry.h - the books: which names there are, which memory they stand for, who holds a grant on it.
 *
 * Owns buffers, allocations, grants and uses, and is the only place that decides that memory may be freed: when
 * none of its buffers has a name any more and every grant on it is over (invariant 2); and that a range of it may serve
 * another buffer of the same owner: when its buffer has no name and no use any more. Counts stand in
 * private memory; what clients read is the word in the board, stored here and never read back.
 * Never does I/O, never allocates, cleans or frees device memory: it tells its hooks when to.
 */
#ifndef GPUB_REGISTRY_H
#define GPUB_REGISTRY_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "broker/base/tracked.h"
#include "broker/users/accounting.h"
#include "common/name.h"
#include "device/device.h"
#include "places.h"
#include "broker/memory/allocation.h"
#include "common/tables.h"

struct identity;
struct once;
struct session;

/* Who waits for a buffer's end. It is pointed to from one place: the buffer, then the job that zeroes its range. */
struct drain {
	struct drain **place;
	void (*done)(struct drain *drain); /* the memory is freed, or clean for its owner's next buffer */
	struct drain  *self, *next;        /* reclaim.c's: where it is pointed to when the buffer is gone */
};

enum buffer_state { BUFFER_CREATING, BUFFER_LIVE, BUFFER_DRAINING };

/* A name's memory in one generation. */
struct buffer {
	char               name[NAME_SIZE];
	uint64_t           serial; /* never reused */
	uint32_t           place;  /* its word in the board */
	enum buffer_state  state : 8;
	bool               noticing; /* it is among the registry's whose uses' grants have the notice yet to come */
	uint64_t           size, offset;
	struct allocation *allocation;
	struct use        *uses;
	struct use        *unnoticed; /* from here on its uses' grants have the notice of its end yet to come */
	struct tracked     tracked;
	unsigned           used, held; /* how many; those of grants that are held */
	uid_t              owner;
	uint32_t           tenure; /* how often it changed its owner */
	gid_t              group;
	unsigned           mode, flags;
	struct timeline   *timeline;
	struct drain      *drain;   /* who waits for its end */
	struct once       *tickets; /* delegable ones that may be redeemed once */
	struct charge      charge, descriptors; /* its timeline's */
	UT_hash_handle     hh;          /* by name, while it has it */
	UT_hash_handle     by_serial;   /* by serial, to its end */
	struct buffer     *prev, *next; /* in its allocation */
	struct buffer    **ephemerals; /* its creator's list, where it ends with its creator: that it is in, while it has its name */
	struct buffer     *ephemeral_prev, *ephemeral_next;
	struct buffer     *notice_prev, *notice_next;
};

/* What one session has to close, and is kept until it has, or is dead. */
struct grants {
	struct grant      *by_id;
	struct attachment *attachments; /* by allocation */
	struct use        *uses;        /* by grant and buffer */
	unsigned           held; /* grants of them */
	unsigned           used; /* buffers, under all of them */
	uint64_t           bytes;
};

/* All grants that one session has on one allocation. There is one as long as there are such grants. */
struct attachment {
	struct allocation *allocation;
	unsigned           grants; /* how many */
	struct grant      *shared; /* those that later acquires share: one a device */
	struct grant      *held;   /* the one that is */
	UT_hash_handle     hh;     /* by allocation, in its session */
};

/*
 * One session's right to one allocation on one device: what it has to close. It is held once the session said that it is
 * closed and is not believed: it then waits for the process's death, without a ticket, and counts against the free as before.
 */
struct grant {
	uint64_t           id; /* never reused */
	struct session    *session;
	struct grants     *among; /* the session's */
	struct attachment *attachment;
	uid_t              uid; /* the session's */
	struct allocation *allocation;
	unsigned           device;
	uint32_t           ticket; /* its place in the board */
	struct charge      charge; /* for that place; empty once it is held */
	bool               shared; /* serves later acquires of the session, too */
	bool               held;
	struct use        *uses;
	unsigned           used; /* how many */
	struct tracked     tracked;
	UT_hash_handle     hh;          /* by id, in its session */
	struct grant      *prev, *next; /* in its allocation */
	struct grant      *shared_prev, *shared_next; /* in its attachment, as long as it is shared and not held */
};

/* What a use is found by. Hashed as bytes: no padding. */
struct use_key {
	uint64_t grant, serial;
};

_Static_assert(sizeof(struct use_key) == 16, "keys are compared as bytes: no padding");

/* A session may have leases of the buffer, under that grant. Over when it says that none can touch the buffer any more. */
struct use {
	struct grant  *grant;
	struct buffer *buffer;
	unsigned       rights;
	struct tracked tracked;
	struct charge  charge;
	struct use    *prev, *next;             /* of its buffer */
	struct use    *grant_prev, *grant_next; /* of its grant */
	struct use_key key;
	UT_hash_handle hh; /* by key, in its session; not in there: it is found no more, and ends with its grant */
};

struct registry_hooks {
	/* The grant's session should let go of the buffer with that serial, which lost its name; 0: of all of the mapping. */
	void (*notice)(void *context, struct grant *grant, uint64_t serial);
	/*
	 * Nothing uses the buffer any more; it is about to be forgotten, and its memory stays. Zero its range, then call
	 * registry_cleaned(). False: it cannot be, and serves nobody any more.
	 */
	bool (*clean)(void *context, struct buffer *buffer, uint32_t range);
	/* Nothing and nobody can touch this memory any more: free it, then call registry_released(). */
	void (*release)(void *context, struct allocation *allocation);
	/* The buffer is about to be gone: what others keep of it goes, too. NULL: nobody keeps any. */
	void (*forget)(void *context, struct buffer *buffer);
};

/* Whose word that a mapping is closed, or a buffer idle, counts. Everybody's death does. */
enum believe { BELIEVE_OWNER, BELIEVE_NOBODY };

struct registry {
	struct buffer         *names;   /* CREATING and LIVE buffers */
	struct buffer         *serials; /* all buffers, by serial */
	enum believe           believe;
	struct slabs           slabs;
	struct allocation     *allocations;
	struct usages          usages; /* of allocations, and of what the pool keeps */
	struct buffer         *noticing_buffers; /* some of whose notices are yet to come */
	struct allocation     *noticing;
	struct places          words, tickets;
	struct buffer        **by_place; /* all buffers: whose that word of the board is */
	_Atomic uint64_t      *board_words;
	uint64_t               next_serial, next_grant, next_allocation;
	struct tracking        *tracking; /* where buffers, grants and uses are shown; NULL: nowhere */
	struct accounting     *accounting;
	unsigned               descriptors; /* that the device keeps open for an allocation */
	struct registry_hooks  hooks;
	void                  *context;
	unsigned               buffer_count, grant_count; /* all buffers, and grants that are not held: for people and tests */
	uint64_t               bytes;                     /* in all allocations */
};

/* What a buffer shall be. */
struct buffer_spec {
	const char *name;
	uint64_t    size, span; /* span: bytes of an allocation that holds it, whole granules */
	uint64_t    range;      /* what it takes of that */
	unsigned    device;
	uid_t       owner;
	gid_t       group;
	unsigned    mode, flags;
	struct buffer **ephemerals; /* the creator's list of those that end with it; NULL: the broker is the creator */
};

int registry_init(struct registry *registry, _Atomic uint64_t *words, uint32_t buffers, uint32_t tickets,
		  struct accounting *accounting, const struct registry_hooks *hooks, void *context);
/* Forgets also what is not freed yet; the sessions' tables of grants must not be used after. */
void registry_deinit(struct registry *registry);
bool registry_empty(const struct registry *registry);

/*
 * Takes the name and charges its owner. Where an allocation of its kind has room that is taken, and allocation_is_made() says
 * so: registry_live() then; else the memory is yet to be made. -EEXIST, -EDQUOT, -ENOMEM. Where bytes are all that the quota
 * lacks, and the owner's idle memory has as many, sessions are asked to close that much: a later try may succeed.
 */
int registry_reserve(struct registry *registry, const struct buffer_spec *spec, struct buffer **buffer);

/* The buffer's memory is there: it is LIVE from now on. */
void registry_live(struct registry *registry, struct buffer *buffer);

/* Its memory was made, and is in its allocation: the same. */
void registry_ready(struct registry *registry, struct buffer *buffer);

/* The device could not make it: name, charge and buffer are gone. */
void registry_abandon(struct registry *registry, struct buffer *buffer);

/* The CREATING or LIVE buffer of that name, or NULL. */
struct buffer *registry_find(const struct registry *registry, const char *name);

/* The LIVE buffer of that name; NULL with the error message of -ENOENT, or of what is wrong with the name. */
struct buffer *registry_find_live(const struct registry *registry, const char *name);

/* The LIVE buffer with that serial, or NULL. */
struct buffer *registry_find_serial(const struct registry *registry, uint64_t serial);

/* May others than its mode says map the buffer's memory? -EBUSY: there is, or was, something else in it. */
int registry_may_part(const struct buffer *buffer);

/* They may, and from now on nobody joins the buffer there: the last step of what lets them, for it is not undone. */
void registry_part(struct registry *registry, struct buffer *buffer);

/* Another user owns it, and is charged with it, from now on. -EBUSY, -EDQUOT, -ENOMEM: all as before. */
int registry_change_owner(struct registry *registry, struct buffer *buffer, uid_t owner);

/*
 * Takes the name of a LIVE buffer away: its word says so, its grants get their notice, then it may go. A few get it at once;
 * the others, who may be as many as all users' quotas allow, in the next passes of the loop.
 */
void registry_unlink(struct registry *registry, struct buffer *buffer);

/* A pass of the loop: some of the notices that are yet to come. True: there are more. */
bool registry_notify(struct registry *registry);

/* The creator of those is gone: nobody will unlink for it what it made. */
void registry_disown(struct buffer **ephemerals);

/* The memory that hooks.release() was told of is freed, or zeroed and kept: its buffers are gone, the allocation is the caller's. */
void registry_released(struct registry *registry, struct allocation *allocation);

/* The range is zeroed, or could not be. */
void registry_cleaned(struct registry *registry, struct allocation *allocation, uint32_t range, int error);

/* For grants.c: something about the buffer, or the allocation, has ended. Looks what may go now: either may be gone after. */
void registry_settle_buffer(struct registry *registry, struct buffer *buffer);
void registry_settle(struct registry *registry, struct allocation *allocation);

/* For grants.c: the grant's session is asked to close it. */
void registry_want_back(struct registry *registry, struct grant *grant);

/* For grants.c: its memory, or its range of it, is of use to others when the buffer is over. */
bool registry_keeps(const struct registry *registry, const struct buffer *buffer);

/* The rights that the buffer's mode bits give to that user: the first of owner, group and others that applies. */
unsigned buffer_rights(const struct buffer *buffer, const struct identity *identity);

#endif
