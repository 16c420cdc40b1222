/* SPDX-License-Identifier: Apache-2.0 */
/*
 * board.h - the broker's board: one memfd that only the broker can write and every client reads.
 *
 *     struct board_header | words: W[buffers] | ends: E[buffers] | sealed handles: H[handles]
 *
 * A buffer has one place, an index into words and ends. Its word W is serial << 2 | state (enum board_state). Serials
 * are never reused, so a client that finds the word unchanged knows that its buffer is still live. Its end E says how
 * its timeline ended. The timeline's own page does not prove how the timeline ended, because the timeline's writer
 * can write to that page. Each handle H is sealed to one session (sealed.h).
 *
 * Owns the board's layout, and the checks that a client makes before it maps a board. The broker makes the board
 * (broker/registry/board-owner.c).
 */
#ifndef GPUB_BOARD_H
#define GPUB_BOARD_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "handle.h"
#include "name.h"
#include "sealed.h"

#define BOARD_MAGIC       0x6472616f62757067ull
#define BOARD_SEALS       (F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW) /* that a client asks for */
#define BOARD_HANDLES_MAX  (1u << 22)
#define BOARD_BUFFERS_MAX (1u << 20)

enum board_state { BOARD_FREE = 0, BOARD_LIVE = 1, BOARD_DRAINING = 2 };

#define BOARD_WORD(serial, state) ((uint64_t)(serial) << 2 | (uint64_t)(state))

/* RUNS: the timeline has not ended. LEFT: its writer disconnected in order. DIED: its writer died or hung up. */
enum board_ended { BOARD_RUNS = 0, BOARD_LEFT = 1, BOARD_DIED = 2 };

/*
 * How the timeline of the buffer at one place of the board ended. If `how` is 0, or has an older serial than the
 * buffer, the timeline has not ended.
 */
struct board_end {
	_Atomic uint64_t how;  /* BOARD_WORD(serial, enum board_ended); stored after `last` */
	_Atomic uint64_t last; /* the last value that the timeline reached */
};

struct board_device {
	uint8_t  uuid[16];
	char     name[64];
	uint64_t memory, granule;
};

struct board_header {
	uint64_t magic;
	uint32_t version, device_kind; /* WIRE_VERSION; enum device_kind */
	uint8_t  instance_id[16];      /* random, drawn at each start of a broker */
	char     instance[24];         /* name of the broker instance */
	uint32_t devices, buffers, handles;
	uint32_t host_total; /* number of host devices, with those that the broker does not see; 0 for CUDA devices */
	uint64_t words_offset, ends_offset, handles_offset; /* bytes from the beginning of the board */
	uint64_t size;                                      /* bytes of the board */
	struct board_device device[DEVICE_MAX];
};

/*
 * A mapped board, writable in the broker and read-only in a client. In a client, `header` points to a copy of the
 * board's header, because the server may change the board after the check.
 */
struct board {
	const struct board_header *header;
	void                      *base;
	_Atomic uint64_t          *words;
	struct board_end          *ends;
	struct sealed_handle             *handles;
	size_t                     size;
};

/* Sets the counts of words and handle places in *header, and the offsets and the size that follow from them. */
void board_layout(struct board_header *header, uint32_t buffers, uint32_t handles);

/* Fills *board for the `size` bytes mapped at base, which begin with a header that the caller trusts or has checked. */
void board_place(struct board *board, void *base, size_t size);

/*
 * Checks the board in a descriptor that a broker sent, and maps it read-only. -EPROTO: the descriptor is not a board of
 * this library's version, or is not sealed. -ENOMEM or an errno of mmap(2): it cannot be mapped.
 */
int board_map(struct board *board, int fd);

void board_unmap(struct board *board);

/*
 * Returns how the timeline of a buffer has ended. end: the struct board_end of the buffer's place. serial: the serial
 * that the buffer has, or had before a rename or resize. The caller uses the buffer, so the place serves no other
 * buffer, and a later serial in end->how is the same buffer's.
 */
static inline enum board_ended board_end_of(const struct board_end *end, uint64_t serial)
{
	uint64_t how = atomic_load_explicit(&end->how, memory_order_acquire);

	return how >> 2 >= serial ? (enum board_ended)(how & 3) : BOARD_RUNS;
}

/*
 * Returns the broker's index of the device with this UUID. -ENODEV, error message set: the broker has no such device.
 */
int board_find_device(const struct board *board, const uint8_t uuid[16]);

/* Returns the terms to which the handle of the GRANT's allocation is sealed for a session. */
struct seal_terms board_grant_terms(const struct board_header *header, uint64_t session,
				    const struct wire_grant *grant);

#endif
