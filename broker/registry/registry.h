/* SPDX-License-Identifier: Apache-2.0 */
/*
 * registry.h - which names there are, which buffers they stand for, and who uses them.
 *
 * Owns buffers, grants and uses. It counts the names and grants of each allocation, and asks broker/memory/ for a range, for its
 * end, and to decide whether an allocation is freed. It decides that a range may serve another buffer of the same owner: when its
 * buffer has no name and no use any more. Counts are in private memory; clients read the word in the board, which is
 * stored here and never read back. Never does I/O; messages are sent by its hooks.
 */
#ifndef GPUB_REGISTRY_H
#define GPUB_REGISTRY_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <time.h>

#include "broker/base/tracked.h"
#include "broker/users/accounting.h"
#include "common/name.h"
#include "device/device.h"
#include "gpubroker.h"
#include "places.h"
#include "broker/memory/memory.h"
#include "common/tables.h"

struct identity;
struct once;
struct session;

enum buffer_state { BUFFER_CREATING, BUFFER_LIVE, BUFFER_DRAINING };

/* A name's memory in one generation. */
struct buffer {
	char               name[NAME_SIZE];
	uint64_t           serial; /* never reused; another one since it was renamed */
	uint32_t           place;  /* its word in the board */
	enum buffer_state  state;
	uint64_t           size, offset;
	uint64_t           reserve; /* bytes that it may grow to; 0: it keeps its size */
	struct provision  *growing; /* request/resize.c's: the memory that it is to get; NULL: none */
	struct allocation *allocation;
	struct use        *uses;
	struct notices     notices; /* to the grants of its uses, that it lost the name that they know */
	struct tracked     tracked;
	unsigned           used, orphaned, writers; /* how many; those of orphaned grants; those with GPUB_WRITE */
	uid_t              owner;
	uint32_t           tenure; /* how many owners it had before */
	gid_t              group;
	unsigned           mode, flags;
	gpub_layout       *layout;  /* NULL: nothing is said of its bytes */
	time_t             created; /* shown to people */
	struct timeline   *timeline;
	struct once       *tickets; /* delegable ones that may be redeemed once */
	struct charge      charge, descriptors; /* its timeline's */
	UT_hash_handle     hh;          /* by name, while it has it */
	UT_hash_handle     by_serial;   /* by serial, to its end */
	struct buffer     *prev, *next; /* in its allocation */
	struct buffer    **ephemerals; /* its creator's list, where it ends with its creator: that it is in, while it has its name */
	struct buffer     *ephemeral_prev, *ephemeral_next;
};

/* What one session has to close. It is kept until the session has closed it or is dead. */
struct grants {
	struct grant      *by_id;
	struct attachment *attachments; /* by allocation */
	struct use        *uses;        /* by grant and buffer */
	unsigned           orphaned; /* grants of them */
	unsigned           used; /* buffers, under all of them */
	uint64_t           bytes;
};

/* All grants that one session has on one allocation. There is one as long as there are such grants. */
struct attachment {
	struct allocation *allocation;
	unsigned           grants;   /* how many */
	struct grant      *shared;   /* those that later acquires share: one a device */
	struct grant      *orphaned; /* the one that is */
	UT_hash_handle     hh;       /* by allocation, in its session */
};

/*
 * One session's right to one allocation on one device: what it has to close. It is orphaned once the session said that it is
 * closed and is not trusted: it then waits for the process's death, without a sealed handle, and counts against the free as before.
 */
struct grant {
	uint64_t           id; /* never reused */
	struct session    *session;
	struct grants     *among; /* the session's */
	struct attachment *attachment;
	uid_t              uid; /* the session's */
	struct allocation *allocation;
	unsigned           device;
	uint32_t           place; /* its place in the board */
	struct charge      charge; /* for that place; empty once it is orphaned */
	uint64_t           bytes;  /* of the allocation, that the session was given: it may have grown since */
	bool               shared; /* serves later acquires of the session, too */
	bool               orphaned;
	struct use        *uses;
	unsigned           used; /* how many */
	struct tracked     tracked;
	UT_hash_handle     hh;          /* by id, in its session */
	struct grant      *prev, *next; /* in its allocation */
	struct grant      *shared_prev, *shared_next; /* in its attachment, as long as it is shared and not orphaned */
};

/* What a use is found by. Hashed as bytes: no padding. */
struct use_key {
	uint64_t grant, serial;
};

_Static_assert(sizeof(struct use_key) == 16, "keys are compared as bytes: no padding");

/*
 * A session may have leases of the buffer, under that grant. Over when it says that none can touch the buffer any more. It keeps the
 * serial that the buffer had then: a session that uses a buffer from before and after a rename has two uses of it.
 */
struct use {
	struct grant  *grant;
	struct buffer *buffer;
	unsigned       rights; /* what the session asked for so far */
	bool           told;   /* the session was sent the notice */
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
	/* The buffer is about to be gone: what others keep of it goes, too. NULL: nobody keeps any. */
	void (*forget)(void *context, struct buffer *buffer);
	/* The memory of the buffer with that serial is freed, or clean for its owner's next buffer. NULL: nobody waits for that. */
	void (*ended)(void *context, uint64_t serial);
};

/* Who is trusted to report that a mapping is closed, or a buffer quiesced. Everybody's death does. */
enum trust { TRUST_OWNER, TRUST_NOBODY };

struct registry {
	struct buffer         *names;   /* CREATING and LIVE buffers */
	struct buffer         *serials; /* all buffers, by serial */
	enum trust             trust;
	struct memory         *memory;
	struct notices        *notices; /* that are yet to be sent */
	struct places          words, handles;
	struct buffer        **by_place; /* all buffers, by their word of the board */
	_Atomic uint64_t      *board_words;
	uint64_t               next_serial, next_grant;
	struct tracking        *tracking; /* where buffers, grants and uses are shown; NULL: nowhere */
	struct accounting     *accounting;
	struct registry_hooks  hooks;
	void                  *context;
	unsigned               buffer_count, grant_count; /* all buffers, and grants that are not orphaned: for people and tests */
};

/* What a buffer shall be. */
struct buffer_spec {
	const char *name;
	uint64_t    size, span; /* span: bytes of an allocation that holds it, whole granules */
	uint64_t    range;      /* what it takes of that */
	uint64_t    reserve;    /* bytes that it may grow to, whole granules; 0: it keeps its size */
	unsigned    device;
	uid_t       owner;
	gid_t       group;
	unsigned    mode, flags;
	unsigned exported; /* the kind of export by its number (export.h) */
	gpub_layout layout;
	struct buffer **ephemerals; /* the creator's list of those that end with it; NULL: the broker is the creator */
};

/* What is said of its bytes: all zeroes where that is nothing. */
gpub_layout buffer_layout(const struct buffer *buffer);

/* It takes the memory's hooks. */
int registry_init(struct registry *registry, struct memory *memory, _Atomic uint64_t *words, uint32_t buffers,
		  uint32_t handles, const struct registry_hooks *hooks, void *context);
/* Forgets all buffers, also those whose memory is not freed yet; grants_forget() comes first, memory_deinit() behind it. */
void registry_deinit(struct registry *registry);
bool registry_empty(const struct registry *registry);

/*
 * Takes the name and charges its owner. Where an allocation of its kind has room that is taken, and allocation_is_made() says
 * so; otherwise the memory is yet to be made. Then registry_live(). -EEXIST, -EDQUOT, -ENOMEM. Where only bytes of the quota are
 * missing, and the owner's idle memory has as many, sessions are asked to close that much: a later try may succeed.
 */
int registry_reserve(struct registry *registry, const struct buffer_spec *spec, struct buffer **buffer);

/*
 * The buffer's memory is in its allocation: it is LIVE from now on. -ENOMEM: there are no addresses for it, with GPUB_SAME_ADDRESS, and
 * it is to be abandoned.
 */
int registry_live(struct registry *registry, struct buffer *buffer);

/* The device could not make it: name, charge and buffer are gone. */
void registry_abandon(struct registry *registry, struct buffer *buffer);

/* The CREATING or LIVE buffer of that name, or NULL. */
struct buffer *registry_find(const struct registry *registry, const char *name);

/* The LIVE buffer of that name. -ENOENT, or what is wrong with the name. */
int registry_find_live(const struct registry *registry, const char *name, struct buffer **buffer);

/* The buffer with that serial, whatever its state, or NULL; and the LIVE one. */
struct buffer *registry_find_any(const struct registry *registry, uint64_t serial);
struct buffer *registry_find_serial(const struct registry *registry, uint64_t serial);

/* Whether others than its mode says may map the buffer's memory. -EBUSY: there is, or was, something else in it. */
int registry_may_part(const struct buffer *buffer);

/* They may, and no other buffer joins this one there. It cannot be undone: call it when nothing can fail any more. */
void registry_part(struct registry *registry, struct buffer *buffer);

/* Another user owns it, and is charged with it, from now on. -EBUSY, -EDQUOT, -ENOMEM: all as before. */
int registry_change_owner(struct registry *registry, struct buffer *buffer, uid_t owner);

/*
 * Takes the name of a LIVE buffer away: its word says so, its grants get a notice, and it ends with its last use. A few get the
 * notice at once, the others, who may be as many as all users' quotas allow, in the next passes of the loop.
 */
void registry_unlink(struct registry *registry, struct buffer *buffer);

/*
 * Gives a LIVE buffer a name that no buffer has, and a serial of its own: who knows it by the name that it had asks again. Its uses go on,
 * and get their notices in the next passes of the loop. It cannot fail.
 */
void registry_rename(struct registry *registry, struct buffer *buffer, const char *to);

/*
 * A LIVE buffer has that size from now on, with an array as large as fits, and a serial of its own, as by a rename. Its allocation has as much. It
 * cannot fail.
 */
void registry_resize(struct registry *registry, struct buffer *buffer, uint64_t size);

/* It does not end with its creator any more. */
void registry_persist(struct registry *registry, struct buffer *buffer);

/* A pass of the loop: some of the notices that are yet to come. True: there are more. */
bool registry_notify(struct registry *registry);

/* Takes the buffer out of its creator's list of those that end with it. Does nothing if it is in no such list. */
void registry_disown(struct buffer *buffer);

/* For grants.c: a use of it has ended. Where it was the last one of an unlinked buffer, the buffer may be gone afterwards. */
void registry_end_buffer(struct registry *registry, struct buffer *buffer);

/* For grants.c: the notices of its buffer go on behind it; it is told, or is not in the list any more. */
void notices_pass(const struct use *use);

/* For grants.c: its memory, or its range of it, is of use to others when the buffer has ended. */
bool registry_keeps(const struct registry *registry, const struct buffer *buffer);

/* The rights that the buffer's mode bits give to that user: the first of owner, group and others that applies. A sealed one: no GPUB_WRITE. */
unsigned buffer_rights(const struct buffer *buffer, const struct identity *identity);

#endif
