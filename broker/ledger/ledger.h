/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ledger.h - memory in which a broker notes what must survive it: records in slots, which change together in commits.
 *
 * A process that is killed loses no store that it made, so a ledger needs no disk and no flush: only that a reader
 * finds each commit either whole or not at all, wherever the writer was killed, and however many records it changes.
 * Each slot has room for two versions of its record, each with the number of its commit. A change overwrites the older
 * version; the commit itself is one store of its number. A reader takes the newest version of each slot that is
 * committed.
 *
 * The memory is a memfd of whoever keeps it (ledger_fd); one broker at a time writes it. A successor reads it, and then
 * goes on with it or makes one of its own. It can grow and never shrinks, so no reader's mapping loses a page. Owns a
 * descriptor of the memfd and its mapping. Knows no record's contents. Not thread-safe.
 */
#ifndef GPUB_LEDGER_H
#define GPUB_LEDGER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LEDGER_VERSION 384 /* bytes of a version of a record, with its head */
#define LEDGER_TYPES   32  /* types of records are 1 to LEDGER_TYPES - 1 */
#define LEDGER_HAND    16384 /* bytes that the writer may use as it likes, outside of commits (ledger_hand()) */
#define LEDGER_RECORD_MAX (LEDGER_VERSION - sizeof(struct ledger_head))

/* Stands in front of each version of a record. All zeroes: there is none. */
struct ledger_head {
	uint64_t checksum; /* of the bytes after this field, to the end of the record */
	uint64_t commit;   /* number of the commit that the version belongs to */
	uint32_t slot;     /* index of the slot, so that a record at another place is damage */
	uint16_t type;     /* 0: the slot is free from that commit on */
	uint16_t size;     /* bytes of the record, of whole words of 8 */
};

struct ledger {
	int      fd;
	uint8_t *base;    /* the mapping */
	void    *hand;    /* another mapping, of ledger_hand(): `base` moves when the ledger grows */
	size_t   size;    /* of the mapping, in bytes */
	uint32_t slots;   /* number of slots that there is room for */
	uint64_t commit;  /* number of the last commit */
	bool     changed; /* records were put or freed since then */
};

/* Makes a ledger with room for so many records. Returns 0, or a negative errno with the error message set. */
int ledger_create(struct ledger *ledger, uint32_t slots);

/*
 * Becomes the writer of a ledger whose writer has ended. fd stays the caller's. The ledger has the records that the
 * last commit left, which ledger_open() reads, until the next one. Before that one the caller puts or frees each slot,
 * because some may have what that writer put and did not commit. Returns 0, or a negative errno as ledger_open() does.
 */
int ledger_go_on(struct ledger *ledger, int fd);

/* Does nothing if the ledger was not created: all zeros. */
void ledger_destroy(struct ledger *ledger);

/* A descriptor for whoever keeps the ledger, which stays the ledger's. */
int ledger_fd(const struct ledger *ledger);

/*
 * Makes room for at least so many slots. Called before an object gets a slot, because a put cannot fail. Returns 0, or
 * -ENOMEM or another negative errno with the error message set: then nothing has changed.
 */
int ledger_reserve(struct ledger *ledger, uint32_t slots);

/*
 * Changes the record of a slot in the next commit. size: bytes of the record, of whole words of 8, at most
 * LEDGER_RECORD_MAX; words of zeroes at the end are not stored. What is put into a slot twice before the commit has the
 * later contents.
 */
void ledger_put(struct ledger *ledger, uint32_t slot, uint16_t type, const void *record, size_t size);

/* Frees the slot in the next commit. Does nothing if it is free. */
void ledger_free(struct ledger *ledger, uint32_t slot);

/* Commits what was put and freed. Does nothing if nothing was. */
void ledger_commit(struct ledger *ledger);

/* LEDGER_HAND bytes, aligned to a page, whose stores a reader finds as they were made. They never move. */
void *ledger_hand(const struct ledger *ledger);

/* ---- for a successor ---- */

/* The ledger of a broker that has ended. */
struct ledger_view {
	const uint8_t *base;
	size_t         size;
	uint32_t       slots;
	uint64_t       commit;  /* number of the last commit */
	uint32_t       writing; /* index of the slot that the writer was changing when it ended, plus 1; 0: none */
};

/*
 * Reads a ledger whose writer has ended. fd stays the caller's. -EBADMSG: it is none, or its header is damaged; other
 * negative errnos are those of mmap(2). The error message is set.
 */
int ledger_open(struct ledger_view *view, int fd);
void ledger_close(struct ledger_view *view);

/* The writer's ledger_hand(). */
const void *ledger_view_hand(const struct ledger_view *view);

/* A record that stands in a ledger; bytes is within the view, and aligned to 8. */
struct ledger_record {
	uint32_t    slot;
	uint16_t    type;
	uint16_t    size;
	const void *bytes;
};

/*
 * Calls take() for each record, in the order of the slots. Returns the number of slots that are neither free nor a
 * whole record: damage, which says nothing of what stood there.
 */
uint32_t ledger_each(const struct ledger_view *view, void (*take)(const struct ledger_record *record, void *context),
		     void *context);

/*
 * Copies a record into a struct of this program's size: what the record lacks is zero, as words of zeroes at its end
 * and members that an older broker did not know, and what a newer one's has more is left out.
 */
void ledger_copy(const struct ledger_record *record, void *to, size_t size);

#endif
