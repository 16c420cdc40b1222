/* SPDX-License-Identifier: Apache-2.0 */
/*
 * registry.h - the table of buffers by name, and the lives of buffers from their create to their end.
 *
 * Owns buffers, mappings and grants. Counts the names and mappings of each allocation. Takes ranges from
 * broker/memory/, returns them, and has broker/memory/ decide whether an allocation is freed. Decides when a range may
 * serve another buffer of the same owner: when its buffer has neither a name nor a grant. All counts are in private
 * memory; clients read a word in the board for each buffer, which the registry stores and never reads back. Does no I/O
 * but on the pages of timelines; its hooks send messages.
 */
#ifndef GPUB_REGISTRY_H
#define GPUB_REGISTRY_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "objects.h"
#include "records.h"

struct identity;

/* The properties of a buffer that is to be created. */
struct buffer_spec {
	const char *name;
	uint64_t    size;     /* bytes that the buffer shall have */
	uint64_t    span;     /* bytes of the allocation that is made if no present one has room; whole granules */
	uint64_t    range;    /* bytes of its allocation that the buffer takes; 0: the whole allocation */
	uint64_t    reserve;  /* bytes that the buffer may grow to, in whole granules; 0: the buffer keeps its size */
	unsigned    device;   /* index of the device in the broker */
	uid_t       owner;
	gid_t       group;
	unsigned    mode;     /* permission bits, as those of a file */
	unsigned    flags;    /* GPUB_DEDICATED and so on */
	unsigned    exported; /* kind of export, as numbered in common/export.h */
	gpub_layout layout;   /* shape and type of the elements; all zeros: no layout */
	uint64_t    creator;  /* id of the creating session; 0: the broker creates the buffer */
	/* head of the creating session's list of ephemeral buffers; NULL: the broker creates the buffer */
	struct buffer **ephemerals;
};

/*
 * Returns the layout that the buffer was created with, as later resizes have adapted it. All zeros if the buffer has
 * none.
 */
gpub_layout buffer_layout(const struct buffer *buffer);

/*
 * Makes an empty registry. words: the board's words, one for each of at most `buffers` buffers. handles: number of the
 * board's handle places. context: the first argument of the hooks. Returns 0, or -ENOMEM with the error message set.
 */
int registry_init(struct registry *registry, struct memory *memory, _Atomic uint64_t *words, uint32_t buffers,
		  uint32_t handles, const struct registry_hooks *hooks, void *context);

/*
 * Frees all buffers, also those whose memory is not freed. The caller calls mappings_free() before and memory_deinit()
 * after.
 */
void registry_deinit(struct registry *registry);

/* Stores the words of the board that have changed. Does nothing unless registry->defers. */
void registry_store_words(struct registry *registry);

/* Returns true if there is no allocation. */
bool registry_empty(const struct registry *registry);

/*
 * Creates a CREATING buffer: takes the name, charges the owner, and takes a range of an allocation of the same kind, or
 * creates an allocation whose device memory the caller has to make if allocation_is_made() is false. The caller then
 * calls registry_live(), or registry_abandon(). -EEXIST, -EDQUOT, -ENOMEM. On -EDQUOT for bytes, sessions are asked to
 * close idle memory of the owner if that frees enough, so a later try can succeed.
 */
int registry_reserve(struct registry *registry, const struct buffer_spec *spec, struct buffer **buffer);

/*
 * Makes a CREATING buffer LIVE, whose allocation has its device memory. Returns 0, or -ENOMEM: the buffer has
 * GPUB_SAME_ADDRESS and no address range is free; the caller then calls registry_abandon().
 */
int registry_live(struct registry *registry, struct buffer *buffer);

/* Frees a CREATING buffer that cannot become LIVE, with its name, its charge and its range. */
void registry_abandon(struct registry *registry, struct buffer *buffer);

/* Returns the CREATING or LIVE buffer with the name. NULL: there is none. */
struct buffer *registry_find(const struct registry *registry, const char *name);

/*
 * Sets *buffer to the LIVE buffer with the name. Returns 0, or -ENOENT or the error of name_check() with the error
 * message set.
 */
int registry_find_live(const struct registry *registry, const char *name, struct buffer **buffer);

/*
 * Return the buffer with the serial: registry_find_any() in any state, registry_find_serial() only if it is LIVE. NULL:
 * there is none.
 */
struct buffer *registry_find_any(const struct registry *registry, uint64_t serial);
struct buffer *registry_find_serial(const struct registry *registry, uint64_t serial);

/*
 * Checks that the allocation of the buffer contains no bytes of another buffer, past or present, so that a user whom
 * the mode bits of those buffers do not allow may map it. Returns 0, or -EBUSY with the error message set.
 */
int registry_may_part(const struct buffer *buffer);

/*
 * Makes the buffer's allocation private, so that no other buffer gets a range of it. Called after registry_may_part()
 * returned 0. Cannot be undone, so the caller makes sure that nothing can fail afterwards.
 */
void registry_part(struct registry *registry, struct buffer *buffer);

/* Makes `owner` the owner of the buffer, and charges that user. Changes nothing on -EBUSY, -EDQUOT, -ENOMEM. */
int registry_change_owner(struct registry *registry, struct buffer *buffer, uid_t owner);

/*
 * Takes the name of a LIVE buffer away: the buffer is DRAINING, its word in the board says so, and it ends with its
 * last grant. Sends notices to the sessions that use the buffer (notices_send()). May free the buffer.
 */
void registry_unlink(struct registry *registry, struct buffer *buffer);

/*
 * Gives a LIVE buffer another name, which no other buffer has, and a new serial, so that clients that know the old name
 * ask the broker again. The buffer's grants stay; their sessions get notices (notices_send_later()). Cannot fail.
 */
void registry_rename(struct registry *registry, struct buffer *buffer, const char *to);

/*
 * Sets the size of a LIVE buffer, in bytes and at most that of its allocation, fits its layout to the size, and gives
 * the buffer a new serial. The buffer's grants stay; their sessions get notices (notices_send_later()). Cannot fail.
 */
void registry_resize(struct registry *registry, struct buffer *buffer, uint64_t size);

/* Makes the buffer outlive the session that created it. */
void registry_persist(struct registry *registry, struct buffer *buffer);

/* ---- for the ledger, and for the broker that loads it ---- */

/* Fills in what the ledger notes of a buffer that has an allocation. */
void buffer_note(const struct buffer *buffer, struct buffer_record *record);

/*
 * Makes the buffer that the record is of, in a restored allocation. ephemerals: its creator's list of ephemeral
 * buffers; NULL: the creator has ended. Returns 0; -ENOMEM; -EBADMSG: no buffer can have such a record, or another one
 * is in its place. The error message is set.
 */
int registry_restore_buffer(struct registry *registry, const struct buffer_record *record,
			    struct allocation *allocation, struct buffer **ephemerals, struct buffer **buffer);

/*
 * Called when all buffers, mappings and grants are restored: frees the other places of the board, stores the buffers'
 * words, has all notices sent again, and ends buffers that nothing keeps any more.
 */
void registry_restored(struct registry *registry);

/*
 * Ends the doubt about memory (memory.doubted), and frees what nothing keeps: all processes of the time of the broker
 * before this one are proven dead.
 */
void registry_trust(struct registry *registry);

/* ---- for request/reclaim.c, which frees and zeroes memory ---- */

/*
 * Marks the allocation and the buffers in it as changed for the status file and the ledger. Called when the allocation
 * is about to be freed, or zeroed for the pool, or when its memory has ended.
 */
void registry_freeing(struct registry *registry, const struct allocation *allocation);

/*
 * Takes all buffers out of an allocation whose memory is freed, or zeroed for the pool, and returns the list of them
 * for registry_forget(). The buffers then have no allocation, and the status file does not show them.
 */
struct buffer *registry_released(struct registry *registry, struct allocation *allocation);

/*
 * Frees the first buffer of a list from registry_released(). Returns its serial, for drain_ended(); 0: the list is
 * empty.
 */
uint64_t registry_forget(struct registry *registry, struct buffer **buffers);

/* Takes the buffer out of its creator's list of ephemeral buffers. Does nothing if the buffer is in no such list. */
void registry_disown(struct buffer *buffer);

/*
 * Ends the buffer's timeline, as if its writer had died, if no session can write it any more: the buffer is DRAINING or
 * sealed, no session is the writer, and no grant has GPUB_WRITE. Otherwise does nothing. Called when one of these has
 * changed.
 */
void registry_end_unwritable(struct registry *registry, struct buffer *buffer);

/*
 * Called after a grant of the buffer has ended, and after its unlink. Does nothing while memory is doubted. If the
 * buffer is DRAINING and has no grant: ends it, or has its allocation freed or evicted, with which it ends later.
 * Otherwise does nothing.
 */
void registry_end_buffer(struct registry *registry, struct buffer *buffer);

/*
 * For mappings.c. Returns true if the buffer's memory is kept after the buffer's end: its range, or the whole
 * allocation, for the next buffer of the owner. Returns false if the memory is freed.
 */
bool registry_keeps(const struct registry *registry, const struct buffer *buffer);

/*
 * Returns the rights (GPUB_READ, GPUB_WRITE) that the buffer's mode bits give to a user: those of the owner, else of
 * the group, else of others. Root has all. A sealed buffer gives nobody GPUB_WRITE.
 */
unsigned buffer_rights(const struct buffer *buffer, const struct identity *identity);

#endif
