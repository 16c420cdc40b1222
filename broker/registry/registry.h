/* SPDX-License-Identifier: Apache-2.0 */
/*
 * registry.h - which names there are, which buffers they stand for, and who uses them.
 *
 * Owns buffers, grants and uses. It counts the names and grants of each allocation, and asks broker/memory/ for a
 * range, for its end, and to decide whether an allocation is freed. It decides that a range may serve another buffer of
 * the same owner: when its buffer has no name and no use any more. Counts are in private memory; clients read the word
 * in the board, which is stored here and never read back. Never does I/O; messages are sent by its hooks.
 */
#ifndef GPUB_REGISTRY_H
#define GPUB_REGISTRY_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "objects.h"

struct identity;

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

int registry_init(struct registry *registry, struct memory *memory, _Atomic uint64_t *words, uint32_t buffers,
		  uint32_t handles, const struct registry_hooks *hooks, void *context);
/*
 * Forgets all buffers, also those whose memory is not freed yet; grants_forget() comes first, memory_deinit() behind
 * it.
 */
void registry_deinit(struct registry *registry);
bool registry_empty(const struct registry *registry);

/*
 * Takes the name and charges its owner. Where an allocation of its kind has room that is taken, and
 * allocation_is_made() says so; otherwise the memory is yet to be made. Then registry_live(). -EEXIST, -EDQUOT,
 * -ENOMEM. Where only bytes of the quota are missing, and the owner's idle memory has as many, sessions are asked to
 * close that much: a later try may succeed.
 */
int registry_reserve(struct registry *registry, const struct buffer_spec *spec, struct buffer **buffer);

/*
 * The buffer's memory is in its allocation: it is LIVE from now on. -ENOMEM: there are no addresses for it, with
 * GPUB_SAME_ADDRESS, and it is to be abandoned.
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
 * Takes the name of a LIVE buffer away: its word says so, its grants get a notice, and it ends with its last use. A few
 * get the notice at once, the others, who may be as many as all users' quotas allow, in the next passes of the loop.
 */
void registry_unlink(struct registry *registry, struct buffer *buffer);

/*
 * Gives a LIVE buffer a name that no buffer has, and a serial of its own: who knows it by the name that it had asks
 * again. Its uses go on, and get their notices in the next passes of the loop. It cannot fail.
 */
void registry_rename(struct registry *registry, struct buffer *buffer, const char *to);

/*
 * A LIVE buffer has that size from now on, with an array as large as fits, and a serial of its own, as by a rename. Its
 * allocation has as much. It cannot fail.
 */
void registry_resize(struct registry *registry, struct buffer *buffer, uint64_t size);

/* It does not end with its creator any more. */
void registry_persist(struct registry *registry, struct buffer *buffer);

/* ---- for whoever carries out the memory's orders ---- */

/* The allocation is about to be freed, or zeroed for the pool. */
void registry_freeing(struct registry *registry, const struct allocation *allocation);

/*
 * That is done: the allocation is the caller's. Returns the buffers that were in it, which have no memory any more and
 * are not shown, for registry_forget().
 */
struct buffer *registry_released(struct registry *registry, struct allocation *allocation);

/* Forgets the first of those buffers. Returns its serial, by which drains wait for it; 0: none is left. */
uint64_t registry_forget(struct registry *registry, struct buffer **buffers);

/* Takes the buffer out of its creator's list of those that end with it. Does nothing if it is in no such list. */
void registry_disown(struct buffer *buffer);

/*
 * For grants.c: a use of it has ended. Where it was the last one of an unlinked buffer, the buffer may be gone
 * afterwards.
 */
void registry_end_buffer(struct registry *registry, struct buffer *buffer);

/* For grants.c: its memory, or its range of it, is of use to others when the buffer has ended. */
bool registry_keeps(const struct registry *registry, const struct buffer *buffer);

/*
 * The rights that the buffer's mode bits give to that user: the first of owner, group and others that applies. A sealed
 * one: no GPUB_WRITE.
 */
unsigned buffer_rights(const struct buffer *buffer, const struct identity *identity);

#endif
