/* SPDX-License-Identifier: Apache-2.0 */
/*
 * objects.h - what the registry is made of: buffers, mappings and grants, and the tables that they are in.
 *
 * A buffer has grants. Each grant is one session's, under one of its mappings. A mapping is the session's right to map
 * the allocation that the buffer is in. registry.c owns buffers, mappings.c mappings and grants, notices.c the list of
 * notices.
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
	uint64_t           reserve;    /* bytes that the buffer may grow to; 0: the buffer keeps its size */
	struct provision  *growing;    /* request/resize.c: the memory that it waits for to grow; NULL: none */
	struct allocation *allocation; /* NULL: the memory is freed (registry_released()) */
	struct grant      *grants;
	struct notices     notices;    /* to its grants, when it has lost the name that they know */
	struct tracked     tracked;
	unsigned           grant_count; /* number of grants */
	unsigned           orphaned;    /* number of grants under orphaned mappings */
	unsigned           writers;     /* number of grants with GPUB_WRITE */
	uid_t              owner;
	uint32_t           owner_changes; /* how often the owner has changed: tickets of an earlier owner are void */
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

/*
 * The mappings and grants of one session. A mapping stays until the session reports it closed, or its process is dead.
 */
struct session_mappings {
	struct mapping  *by_id;         /* all mappings */
	struct siblings *by_allocation; /* the mappings, in one struct siblings for each allocation */
	struct grant    *grants;        /* all grants, by struct grant_key */
	unsigned         orphaned;      /* number of mappings that are orphaned */
	unsigned         grant_count;   /* number of grants */
	uint64_t         bytes;         /* of the allocations, once for each mapping */
};

/* The mappings that one session has of one allocation. Exists while there is such a mapping. */
struct siblings {
	struct allocation *allocation;
	unsigned           count;    /* number of mappings */
	struct mapping    *shared;   /* list: those that later acquires of the session share, one for each device */
	struct mapping    *orphaned; /* the orphaned mapping; NULL: none. A session has at most one of an allocation */
	UT_hash_handle     hh;       /* in session_mappings.by_allocation */
};

/*
 * One session's right to map one allocation on one device. It ends when the session reports the mapping closed. If the
 * session is not trusted, the mapping is orphaned then: it has no sealed handle any more, keeps the memory from being
 * freed as before, and ends with the session's process.
 */
struct mapping {
	uint64_t                 id;     /* never reused */
	struct session          *session;
	struct session_mappings *among;    /* all mappings of the session */
	struct siblings         *siblings; /* all mappings of the session and allocation */
	uid_t                    uid;    /* of the session's user */
	struct allocation       *allocation;
	unsigned                 device; /* where the session maps it: the broker's index */
	uint32_t                 place;  /* its handle place in the board; valid until it is orphaned */
	struct charge            charge; /* for the handle place; empty once it is orphaned */
	uint64_t                 bytes;  /* of the allocation when it was last sent to the session: it can have grown */
	bool                     shared; /* later acquires of the session use it, too */
	bool                     orphaned;
	struct grant            *grants;
	unsigned                 grant_count; /* number of grants */
	struct tracked           tracked;
	UT_hash_handle           hh;          /* in among->by_id */
	struct mapping          *prev, *next; /* in its allocation */
	struct mapping          *shared_prev, *shared_next; /* in siblings->shared, if it is shared and not orphaned */
};

/* Key of a grant. Hashed as bytes: no padding. */
struct grant_key {
	uint64_t mapping; /* id of its mapping */
	uint64_t serial;  /* that the buffer had when the grant began */
};

_Static_assert(sizeof(struct grant_key) == 16, "keys are compared as bytes: no padding");

/*
 * One session's right to have leases of a buffer, under one of its mappings. It ends when the session says that the
 * device is done with all leases of the buffer. A session that uses a buffer from before and from after a rename has
 * two grants of it.
 */
struct grant {
	struct mapping  *mapping;
	struct buffer   *buffer;
	unsigned         rights; /* GPUB_READ, GPUB_WRITE: those that the session has asked for */
	bool             told;   /* the session was told that the buffer has lost the name that it knows */
	struct tracked   tracked;
	struct charge    charge;
	struct grant    *prev, *next;                 /* in its buffer */
	struct grant    *mapping_prev, *mapping_next; /* in its mapping */
	struct grant_key key;
	UT_hash_handle   hh; /* in among->grants; not in it after -ENOMEM, so that the grant ends with its mapping */
};

/* What the registry's owner does for it. Called from within functions of the registry. */
struct registry_hooks {
	/*
	 * Sends a NOTICE to the session of `mapping`: the buffer with the generation `serial` has lost its name, and
	 * the session is to end its grant. `serial` 0: the session is to close the whole mapping.
	 */
	void (*notice)(void *context, struct mapping *mapping, uint64_t serial);
	/* Called before `buffer` is freed: the other rooms drop their pointers to it. NULL: no room has any. */
	void (*forget)(void *context, struct buffer *buffer);
};

/*
 * Whose CLOSED and QUIESCED end a mapping or a grant. TRUST_OWNER: those of sessions of the user who owns the
 * allocation. TRUST_NOBODY: no session's; only the death of the process ends its mappings.
 */
enum trust { TRUST_OWNER, TRUST_NOBODY };

struct registry {
	struct buffer         *names;   /* CREATING and LIVE buffers, by name */
	struct buffer         *serials; /* all buffers, by serial */
	enum trust             trust;
	struct memory         *memory;
	struct notices        *notices; /* list of the notices that wait to be sent */
	struct places          words;   /* the board's word places */
	struct places          handles; /* the board's handle places */
	struct buffer        **by_place; /* all buffers, by the index of their word in the board */
	_Atomic uint64_t      *board_words;  /* the board's words: the epoch of each buffer, read by clients */
	uint64_t               next_serial;  /* of the next buffer */
	uint64_t               next_mapping; /* id of the next mapping */
	struct tracking       *tracking;     /* of buffers, mappings and grants for the status file; NULL: not shown */
	struct marks          *marks;        /* where timelines end; NULL: no buffer has one */
	struct accounting     *accounting;   /* where places and descriptors are charged */
	struct registry_hooks  hooks;
	void                  *context;      /* the first argument of hooks */
	unsigned               buffer_count; /* all buffers, for the status file and tests */
	unsigned               mapping_count; /* number of mappings that are not orphaned (struct mapping); shown in the status file */
};

#endif
