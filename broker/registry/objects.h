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

/*
 * A buffer: memory that has, or had, a name. Exists, also without the name, from its create until its memory is freed
 * or pooled, or its range is zeroed for another buffer.
 */
struct buffer {
	char               name[NAME_SIZE]; /* the buffer's name, or its last name if it is DRAINING */
	/* the buffer's generation: never reused; a rename and a resize give the buffer a new one */
	uint64_t           serial;
	uint64_t           first;      /* the buffer's first serial, by which the ledger names it */
	uint32_t           place;      /* index of the buffer's word in the board */
	enum buffer_state  state;
	uint64_t           size;       /* bytes of the buffer, as asked for in its create or last resize */
	uint64_t           offset;     /* where the buffer begins, in bytes from the beginning of its allocation */
	uint64_t           reserve;    /* bytes that the buffer may grow to; 0: the buffer keeps its size */
	/* request for memory that the buffer grows by; NULL: none. Owned by request/resize.c */
	struct provision  *growing;
	/* the allocation that the buffer is in; NULL: its memory is freed or pooled (registry_released()) */
	struct allocation *allocation;
	struct grant      *grants;
	/* progress of the NOTICEs to the buffer's grants, after the buffer lost its name or got a new serial */
	struct notices     notices;
	struct tracked     tracked;
	unsigned           grant_count; /* number of the buffer's grants, by all sessions */
	unsigned           orphaned;    /* number of grants under orphaned mappings */
	unsigned           writers;     /* number of grants with GPUB_WRITE */
	uid_t              owner;
	/* how often the buffer's owner has changed; a ticket with another count is void */
	uint32_t           owner_changes;
	gid_t              group;
	unsigned           mode, flags;
	/* shape and type of the elements; NULL: the buffer was created without a layout */
	gpub_layout       *layout;
	time_t             created;    /* time of the create, shown to people */
	struct timeline   *timeline;   /* the buffer's timeline; NULL: it has none */
	/* list of notes of the buffer's tickets that can be redeemed once. Owned by request/delegation.c */
	struct once       *tickets;
	struct charge      charge;      /* charge of the owner for the buffer itself */
	struct charge      descriptors; /* charge of the owner for the descriptors of the timeline */
	UT_hash_handle     hh;          /* handle in the hash table registry->names, while the buffer has its name */
	UT_hash_handle     by_serial;   /* handle in the hash table registry->serials */
	struct buffer     *prev, *next; /* links in the list allocation->buffers */
	uint64_t           creator;    /* id of the session that created the buffer; 0: the broker did */
	/* head of the list of its creator's ephemeral buffers; NULL: the buffer is in no such list */
	struct buffer    **ephemerals;
	struct buffer     *ephemeral_prev, *ephemeral_next; /* links in the list *ephemerals */
};

/*
 * The mappings and grants of one session. A mapping stays until a trusted session reports it closed, or its process is
 * dead.
 */
struct session_mappings {
	uint64_t         session;       /* id of the session */
	struct mapping  *by_id;         /* table of all mappings of the session, by id */
	struct siblings *by_allocation; /* table of the session's mappings, grouped by allocation */
	struct grant    *grants;        /* table of all grants of the session, by struct grant_key */
	unsigned         orphaned;      /* number of the session's mappings that are orphaned */
	unsigned         grant_count;   /* number of the session's grants */
	uint64_t         bytes;         /* sum over all mappings of the bytes of their allocations */
};

/* The mappings that one session has of one allocation. Exists while there is such a mapping. */
struct siblings {
	struct allocation *allocation;
	unsigned           count;    /* number of mappings that the session has of the allocation */
	/* list of the mappings that later acquires of the session share: one for each device */
	struct mapping    *shared;
	/* the orphaned mapping; NULL: none. A session has at most one orphaned mapping of an allocation */
	struct mapping    *orphaned;
	UT_hash_handle     hh;       /* handle in the hash table session_mappings.by_allocation */
};

/*
 * One session's right to map one allocation on one device. The mapping ends when the session reports it closed. If the
 * session is not trusted, the mapping is orphaned then: it has no sealed handle any more, keeps the memory from being
 * freed as before, and ends with the session's process. A second one of the allocation ends, and leaves its grants to
 * the first.
 */
struct mapping {
	uint64_t                 id;     /* id by which messages name the mapping; never reused */
	struct session          *session;
	struct session_mappings *among;    /* all mappings of the session */
	struct siblings         *siblings; /* all mappings of this session and this allocation */
	uid_t                    uid;    /* uid of the session's user */
	struct allocation       *allocation;
	unsigned                 device; /* device on which the session maps the allocation: its index in the broker */
	/* index of the mapping's handle place in the board; valid until the mapping is orphaned */
	uint32_t                 place;
	struct charge            charge; /* charge for the handle place; empty once the mapping is orphaned */
	/* size of the allocation when it was last sent to the session; the allocation can have grown since */
	uint64_t                 bytes;
	bool                     shared; /* true: later acquires of the session use this mapping, too */
	bool                     orphaned;
	struct grant            *grants;
	unsigned                 grant_count; /* number of the grants under the mapping */
	struct tracked           tracked;
	UT_hash_handle           hh;          /* handle in the hash table among->by_id */
	struct mapping          *prev, *next; /* links in the list allocation->mappings */
	/* links in the list siblings->shared, if the mapping is shared and not orphaned */
	struct mapping          *shared_prev, *shared_next;
};

/* Key of a grant in its session's table. It is hashed as bytes, so it has no padding. */
struct grant_key {
	uint64_t mapping; /* id of the grant's mapping */
	/* the buffer's serial when the grant began; under an orphaned mapping ORPHAN_KEY() (mappings.c) */
	uint64_t serial;
};

_Static_assert(sizeof(struct grant_key) == 16, "keys are compared as bytes: no padding");

/*
 * One session's right to have leases of a buffer, under one of its mappings. The grant ends when the session says that
 * the device is done with all leases of the buffer. A session that uses a buffer from before and from after a rename
 * has two grants of it.
 */
struct grant {
	struct mapping  *mapping;
	struct buffer   *buffer;
	unsigned         rights; /* rights that the session has asked for and got: bits GPUB_READ, GPUB_WRITE */
	/*
	 * a NOTICE has told the session that the buffer has lost the name or the serial that the session knows; also
	 * set for a grant under an orphaned mapping, which gets no NOTICE
	 */
	bool             told;
	struct tracked   tracked;
	struct charge    charge;
	struct grant    *prev, *next;                 /* links in the list buffer->grants */
	struct grant    *mapping_prev, *mapping_next; /* links in the list mapping->grants */
	struct grant_key key;
	/*
	 * handle in the hash table mapping->among->grants. Not in it if there was no memory when its mapping was
	 * orphaned or merged; the grant then ends with its mapping
	 */
	UT_hash_handle   hh;
};

/* Functions of higher rooms that the registry calls, from within its own functions. */
struct registry_hooks {
	/*
	 * Sends a NOTICE to the session of `mapping`: the buffer with the generation `serial` has lost its name or this
	 * serial, and the session is to end its grant. `serial` 0: the session is to close the whole mapping.
	 */
	void (*notice)(void *context, struct mapping *mapping, uint64_t serial);
	/* Called before `buffer` is freed, so that other rooms drop their pointers to it. May be NULL. */
	void (*forget)(void *context, struct buffer *buffer);
};

/*
 * Says which sessions' CLOSED and QUIESCED end a mapping or a grant. TRUST_OWNER: those of sessions of the user who
 * owns the allocation. TRUST_NOBODY: no session's; only the death of a process ends its mappings.
 */
enum trust { TRUST_OWNER, TRUST_NOBODY };

#define PLACE_NONE UINT32_MAX

/* What the word of a place in the board is to be. */
struct next_word {
	uint64_t word;
	uint32_t next;    /* the next place with a word to store */
	bool     changed; /* the word is to be stored */
};

struct registry {
	struct buffer         *names;   /* table of the CREATING and LIVE buffers, by name */
	struct buffer         *serials; /* table of all buffers, by serial */
	enum trust             trust;
	struct memory         *memory;
	struct notices        *notices; /* list of the buffers' and allocations' notices that wait to be sent */
	struct places          words;   /* the free words of the board, by index */
	struct places          handles; /* the free handle places of the board, by index */
	/* array of all buffers, by the index of their word in the board; NULL: the word is free */
	struct buffer        **by_place;
	/* the board's words, with serial and state of each buffer; clients read them */
	_Atomic uint64_t      *board_words;
	struct next_word      *next_words; /* what each of them is to be */
	uint32_t               changed;    /* the first place with a word to store; PLACE_NONE: there is none */
	/* true: words wait for registry_store_words(), because nobody may see a change that is not noted yet */
	bool                   defers;
	uint64_t               next_serial;  /* the next serial to give */
	uint64_t               next_mapping; /* the next id to give to a mapping */
	struct tracking       *tracking;     /* objects that the status file shows; NULL: no status file shows them */
	struct marks          *marks;        /* has the timelines that have ended; NULL: no buffer has a timeline */
	struct accounting     *accounting;   /* where buffers, grants, mappings and descriptors are charged */
	struct registry_hooks  hooks;
	void                  *context;      /* the first argument of the hooks */
	unsigned               buffer_count; /* number of all buffers, for the status file and tests */
	/* number of mappings that are not orphaned (struct mapping); shown in the status file */
	unsigned               mapping_count;
};

#endif
