/* SPDX-License-Identifier: Apache-2.0 */
/*
 * objects.h - what the registry is made of: buffers, grants and uses, and the tables that they are in.
 *
 * A buffer has uses; each use is one session's, under one of its grants; a grant is the session's right to map the
 * allocation that the buffer is in. registry.c owns buffers, grants.c grants and uses, notices.c the list of notices.
 */
#ifndef GPUB_OBJECTS_H
#define GPUB_OBJECTS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <time.h>

#include "broker/base/tracked.h"
#include "broker/memory/memory.h"
#include "broker/users/accounting.h"
#include "common/name.h"
#include "common/tables.h"
#include "gpubroker.h"
#include "places.h"

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
 * One session's right to one allocation on one device: what it has to close. It is orphaned once the session said that
 * it is closed and is not trusted: it then waits for the process's death, without a sealed handle, and counts against
 * the free as before.
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
 * A session may have leases of the buffer, under that grant. Over when it says that none can touch the buffer any more.
 * It keeps the serial that the buffer had then: a session that uses a buffer from before and after a rename has two
 * uses of it.
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
	/*
	 * The grant's session should let go of the buffer with that serial, which lost its name; 0: of all of the
	 * mapping.
	 */
	void (*notice)(void *context, struct grant *grant, uint64_t serial);
	/* The buffer is about to be gone: what others keep of it goes, too. NULL: nobody keeps any. */
	void (*forget)(void *context, struct buffer *buffer);
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

#endif
