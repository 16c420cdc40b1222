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

struct marks;
struct once;
struct session;

enum buffer_state { BUFFER_CREATING, BUFFER_LIVE, BUFFER_DRAINING };

/* Memory under a name: from the create to the free, also when it has lost the name. */
struct buffer {
	char               name[NAME_SIZE]; /* the name that it has, or had last */
	uint64_t           serial;     /* its generation: never reused, and a new one at each rename and resize */
	uint32_t           place;      /* index of its word in the board */
	enum buffer_state  state;
	uint64_t           size;       /* bytes */
	uint64_t           offset;     /* bytes from the beginning of its allocation */
	uint64_t           reserve;    /* bytes that it may grow to; 0: it keeps its size */
	struct provision  *growing;    /* request/resize.c: the memory that it waits for to grow; NULL: none */
	struct allocation *allocation; /* NULL: the memory is freed (registry_released()) */
	struct use        *uses;
	struct notices     notices;    /* to its uses, when it has lost the name that they know */
	struct tracked     tracked;
	unsigned           used;       /* number of uses */
	unsigned           orphaned;   /* number of uses under orphaned grants */
	unsigned           writers;    /* number of uses with GPUB_WRITE */
	uid_t              owner;
	uint32_t           tenure;     /* how many owners it had before: tickets of an earlier owner are void */
	gid_t              group;
	unsigned           mode, flags;
	gpub_layout       *layout;     /* NULL: nothing is said of its bytes */
	time_t             created;    /* for people */
	struct timeline   *timeline;   /* NULL: it has none */
	struct once       *tickets;    /* request/delegation.c: its tickets that can be redeemed once */
	struct charge      charge;      /* for the buffer */
	struct charge      descriptors; /* for those of its timeline */
	UT_hash_handle     hh;          /* in registry->names, while it has its name */
	UT_hash_handle     by_serial;   /* in registry->serials */
	struct buffer     *prev, *next; /* in allocation's list of buffers */
	struct buffer    **ephemerals;  /* list of the creating session's ephemeral buffers; NULL: not in one */
	struct buffer     *ephemeral_prev, *ephemeral_next; /* in *ephemerals */
};

/* All that one session may map. An entry stays until the session reports it closed, or its process is dead. */
struct grants {
	struct grant      *by_id;       /* all grants */
	struct attachment *attachments; /* the same, by allocation */
	struct use        *uses;        /* the uses under all grants, by grant and serial */
	unsigned           orphaned;    /* number of grants that are orphaned */
	unsigned           used;        /* number of uses */
	uint64_t           bytes;       /* of the allocations, once for each grant */
};

/* The grants that one session has on one allocation. Exists while there is such a grant. */
struct attachment {
	struct allocation *allocation;
	unsigned           grants;   /* number of grants */
	struct grant      *shared;   /* those that later acquires of the session share: one for each device */
	struct grant      *orphaned; /* the orphaned grant; NULL: none. A session has at most one for an allocation */
	UT_hash_handle     hh;       /* in grants->attachments */
};

/*
 * One session's right to map one allocation on one device. It ends when the session reports the mapping closed. If the
 * session is not trusted, the grant is orphaned then: it has no sealed handle any more, keeps the memory from being
 * freed as before, and ends with the session's process.
 */
struct grant {
	uint64_t           id;       /* never reused */
	struct session    *session;
	struct grants     *among;    /* all grants of the session */
	struct attachment *attachment;
	uid_t              uid;      /* of the session's user */
	struct allocation *allocation;
	unsigned           device;   /* where the session maps it: the broker's index */
	uint32_t           place;    /* index of its sealed handle in the board; valid until it is orphaned */
	struct charge      charge;   /* for that place; empty once it is orphaned */
	uint64_t           bytes;    /* of the allocation when it was last sent to the session: it can have grown */
	bool               shared;   /* later acquires of the session use it, too */
	bool               orphaned;
	struct use        *uses;
	unsigned           used;     /* number of uses */
	struct tracked     tracked;
	UT_hash_handle     hh;          /* in among->by_id */
	struct grant      *prev, *next; /* in its allocation */
	struct grant      *shared_prev, *shared_next; /* in attachment->shared, while it is shared and not orphaned */
};

/* Key of a use. Hashed as bytes: no padding. */
struct use_key {
	uint64_t grant;  /* id of its grant */
	uint64_t serial; /* that the buffer had when the use began */
};

_Static_assert(sizeof(struct use_key) == 16, "keys are compared as bytes: no padding");

/*
 * One session's right to have leases of a buffer, under one of its grants. It ends when the session says that the
 * device is done with all leases of the buffer. A session that uses a buffer from before and from after a rename has
 * two uses of it.
 */
struct use {
	struct grant  *grant;
	struct buffer *buffer;
	unsigned       rights; /* GPUB_READ, GPUB_WRITE: those that the session has asked for */
	bool           told;   /* the session was told that the buffer has lost the name that it knows */
	struct tracked tracked;
	struct charge  charge;
	struct use    *prev, *next;             /* in its buffer */
	struct use    *grant_prev, *grant_next; /* in its grant */
	struct use_key key;
	UT_hash_handle hh; /* in grants->uses; without memory for that it is in no table, and ends with its grant */
};

/* What the registry's owner does for it. Called from within functions of the registry. */
struct registry_hooks {
	/*
	 * Sends a NOTICE to the session of `grant`: the buffer with the generation `serial` has lost its name, and the
	 * session is to end its use. `serial` 0: the session is to close the whole mapping.
	 */
	void (*notice)(void *context, struct grant *grant, uint64_t serial);
	/* Called before `buffer` is freed: the other rooms drop their pointers to it. NULL: no room has any. */
	void (*forget)(void *context, struct buffer *buffer);
};

/*
 * Whose CLOSED and QUIESCED end a grant or a use. TRUST_OWNER: those of sessions of the user who owns the allocation.
 * TRUST_NOBODY: no session's; only the death of the process ends its grants.
 */
enum trust { TRUST_OWNER, TRUST_NOBODY };

struct registry {
	struct buffer         *names;   /* CREATING and LIVE buffers, by name */
	struct buffer         *serials; /* all buffers, by serial */
	enum trust             trust;
	struct memory         *memory;
	struct notices        *notices; /* list of the notices that wait to be sent */
	struct places          words;   /* places of the board for words of buffers */
	struct places          handles; /* places of the board for sealed handles */
	struct buffer        **by_place; /* all buffers, by the index of their word in the board */
	_Atomic uint64_t      *board_words;  /* the board's words: the epoch of each buffer, read by clients */
	uint64_t               next_serial;  /* of the next buffer */
	uint64_t               next_grant;   /* id of the next grant */
	struct tracking       *tracking;     /* of buffers, grants and uses for the status file; NULL: not shown */
	struct marks          *marks;        /* where timelines end; NULL: no buffer has one */
	struct accounting     *accounting;   /* where places and descriptors are charged */
	struct registry_hooks  hooks;
	void                  *context;      /* the first argument of hooks */
	unsigned               buffer_count; /* all buffers, for the status file and tests */
	unsigned               grant_count;  /* grants that are not orphaned, for the status file and tests */
};

#endif
