/* SPDX-License-Identifier: Apache-2.0 */
/*
 * registry.h - the table of buffers by name, and the lives of buffers from their create to their end.
 *
 * Owns buffers, mappings and grants. Counts the names and mappings of each allocation. Takes ranges from
 * broker/memory/, returns them, and has broker/memory/ decide whether an allocation is freed. Decides when a range may
 * serve another buffer of the same owner: when its buffer has neither a name nor a grant. All counts are in private
 * memory; clients read a word in the board, which the registry stores and never reads back. Never does I/O; its hooks
 * send messages.
 */
#ifndef GPUB_REGISTRY_H
#define GPUB_REGISTRY_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "objects.h"

struct identity;

/* The properties of a buffer that is to be created. */
struct buffer_spec {
	const char *name;
	uint64_t    size;     /* bytes */
	uint64_t    span;     /* bytes of a new allocation for the buffer, in whole granules */
	uint64_t    range;    /* bytes of the allocation that the buffer takes; 0: all of it */
	uint64_t    reserve;  /* bytes that the buffer may grow to, in whole granules; 0: it keeps its size */
	unsigned    device;   /* the broker's index */
	uid_t       owner;
	gid_t       group;
	unsigned    mode;     /* permission bits, as of a file */
	unsigned    flags;    /* GPUB_DEDICATED and so on */
	unsigned    exported; /* number of the kind of export (export.h) */
	gpub_layout layout;   /* shape and type of the elements; all zeros: none */
	struct buffer **ephemerals; /* list of the creating session; NULL: the broker creates the buffer */
};

/* Returns the layout that the buffer was created with. All zeros if it has none. */
gpub_layout buffer_layout(const struct buffer *buffer);

/*
 * words: the board's words, one for each of at most `buffers` buffers. handles: the number of the board's handle
 * places. context: the first argument of the hooks. -ENOMEM with the error message set.
 */
int registry_init(struct registry *registry, struct memory *memory, _Atomic uint64_t *words, uint32_t buffers,
		  uint32_t handles, const struct registry_hooks *hooks, void *context);

/* Frees all buffers, also those whose memory is not freed. Call mappings_free() before it, memory_deinit() after it. */
void registry_deinit(struct registry *registry);

/* Whether there is no allocation. */
bool registry_empty(const struct registry *registry);

/*
 * Creates a CREATING buffer: takes the name, charges the owner, and takes a range of an allocation of the same kind, or
 * creates an allocation whose device memory the caller has to make if allocation_is_made() is false. The caller then
 * calls registry_live(), or registry_abandon(). -EEXIST, -EDQUOT, -ENOMEM. On -EDQUOT for bytes, sessions are asked to
 * close idle memory of the owner if that frees enough, so a later try can succeed.
 */
int registry_reserve(struct registry *registry, const struct buffer_spec *spec, struct buffer **buffer);

/*
 * Makes a CREATING buffer LIVE. The device memory of its allocation exists. -ENOMEM: the buffer has GPUB_SAME_ADDRESS
 * and no address range is free; the caller calls registry_abandon().
 */
int registry_live(struct registry *registry, struct buffer *buffer);

/* Frees a CREATING buffer that cannot be made, with its name, its charge and its range. */
void registry_abandon(struct registry *registry, struct buffer *buffer);

/* Returns the CREATING or LIVE buffer with the name. NULL: there is none. */
struct buffer *registry_find(const struct registry *registry, const char *name);

/* Finds the LIVE buffer with the name. -ENOENT, or the error of name_check(), with the error message set. */
int registry_find_live(const struct registry *registry, const char *name, struct buffer **buffer);

/* Return the buffer with the serial: in any state, and only if it is LIVE. NULL: there is none. */
struct buffer *registry_find_any(const struct registry *registry, uint64_t serial);
struct buffer *registry_find_serial(const struct registry *registry, uint64_t serial);

/*
 * Checks that the allocation of the buffer contains no bytes of another buffer, past or present, so that a user whom
 * the mode bits do not allow may map it. -EBUSY with the error message set.
 */
int registry_may_part(const struct buffer *buffer);

/*
 * Makes the buffer's allocation private, so that no other buffer gets a range of it. registry_may_part() has returned
 * 0. Cannot be undone: call it when nothing can fail afterwards.
 */
void registry_part(struct registry *registry, struct buffer *buffer);

/* Makes `owner` the owner of the buffer, and charges that user. Changes nothing on -EBUSY, -EDQUOT, -ENOMEM. */
int registry_change_owner(struct registry *registry, struct buffer *buffer, uid_t owner);

/*
 * Takes the name of a LIVE buffer away: the buffer is DRAINING, its word says so, and it ends with its last grant.
 * Sends notices to the sessions that use the buffer: some at once, the others in later passes of the loop. May free the
 * buffer.
 */
void registry_unlink(struct registry *registry, struct buffer *buffer);

/*
 * Gives a LIVE buffer another name, which no buffer has, and a new serial, so that clients that know the old name ask
 * the broker again. Its grants stay; their sessions get notices in later passes of the loop. Cannot fail.
 */
void registry_rename(struct registry *registry, struct buffer *buffer, const char *to);

/*
 * Sets the size of a LIVE buffer in bytes, at most that of its allocation, fits its layout to it, and gives the buffer
 * a new serial. Its grants stay; their sessions get notices in later passes of the loop. Cannot fail.
 */
void registry_resize(struct registry *registry, struct buffer *buffer, uint64_t size);

/* Makes the buffer outlive the session that created it. */
void registry_persist(struct registry *registry, struct buffer *buffer);

/* ---- for request/reclaim.c, which frees and zeroes memory ---- */

/*
 * Marks the buffers in the allocation as changed for the status file. The allocation is about to be freed, or zeroed
 * for the pool.
 */
void registry_freeing(struct registry *registry, const struct allocation *allocation);

/*
 * Takes the buffers out of an allocation whose memory is freed. Returns the list of them for registry_forget(). The
 * buffers have no allocation, and the status file does not show them.
 */
struct buffer *registry_released(struct registry *registry, struct allocation *allocation);

/*
 * Frees the first buffer of a list from registry_released(). Returns its serial, for drain_ended(); 0: the list is
 * empty.
 */
uint64_t registry_forget(struct registry *registry, struct buffer **buffers);

/* Takes the buffer out of its creating session's list of ephemeral buffers. Does nothing if it is in none. */
void registry_disown(struct buffer *buffer);

/*
 * Ends the timeline of a buffer that no session can write any more, as if the writer had died: the buffer is DRAINING
 * or sealed, no session is the writer, and no grant has GPUB_WRITE. Called when one of these has changed.
 */
void registry_end_unwritable(struct registry *registry, struct buffer *buffer);

/* For mappings.c, after a grant of the buffer has ended. Ends a DRAINING buffer without grants, and may free it. */
void registry_end_buffer(struct registry *registry, struct buffer *buffer);

/*
 * For mappings.c. Whether the buffer's memory is kept after the buffer's end: its range for the next buffer of the
 * owner, or the whole allocation for the pool. False: the memory is freed.
 */
bool registry_keeps(const struct registry *registry, const struct buffer *buffer);

/*
 * Returns the rights (GPUB_READ, GPUB_WRITE) that the buffer's mode bits give to a user: those of the owner, else of
 * the group, else of others. Root has all. A sealed buffer gives nobody GPUB_WRITE.
 */
unsigned buffer_rights(const struct buffer *buffer, const struct identity *identity);

#endif
