/* SPDX-License-Identifier: Apache-2.0 */
/*
 * board.h - the broker's board: one memfd that only the broker can write and every client reads.
 *
 *     struct board_header | words: W[buffers] | ends: E[buffers] | sealed handles: H[handles]
 *
 * A generation word W is serial << 2 | state of the buffer in that place. Serials are never reused, so an equal word means that
 * the same buffer is still live. An end E says how the timeline of the buffer in that place ended; the timeline's own page does
 * not prove it, because its writer can write there. A handle is sealed to one session (sealed.h). Owns the layout and its
 * checks. The broker makes it (broker/registry/board-owner.c), a client maps it here.
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
#define BOARD_SEALS       (F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE)
#define BOARD_SEALED_MAX  (1u << 22)
#define BOARD_BUFFERS_MAX (1u << 20)

enum board_state { BOARD_FREE = 0, BOARD_LIVE = 1, BOARD_DRAINING = 2 };

#define BOARD_WORD(serial, state) ((uint64_t)(serial) << 2 | (uint64_t)(state))

enum board_ended { BOARD_RUNS = 0, BOARD_LEFT = 1, BOARD_DIED = 2 };

/* Zeros, or of an earlier buffer of the place: the timeline has not ended. */
struct board_end {
	_Atomic uint64_t how;  /* BOARD_WORD(serial, enum board_ended); stored last */
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
	uint8_t  instance_id[16];      /* random: another run of the same instance differs */
	char     instance[24];         /* its name */
	uint32_t devices, buffers, handles;
	uint32_t host_total; /* all host devices, also those that the broker does not see; 0 on cuda */
	uint64_t words_offset, ends_offset, sealed_offset, size; /* bytes */
	struct board_device device[DEVICE_MAX];
};

/*
 * A mapped board, writable in the broker and read-only in a client. A client's header is a copy, because the server may
 * change the board after the check.
 */
struct board {
	const struct board_header *header;
	void                      *base;
	_Atomic uint64_t          *words;
	struct board_end          *ends;
	struct sealed_handle             *handles;
	size_t                     size;
};

/* Computes offsets and size from the counts. */
void board_layout(struct board_header *header, uint32_t buffers, uint32_t handles);

/* Points *board into size bytes at base, whose header the caller trusts or has checked. */
void board_place(struct board *board, void *base, size_t size);

/* Maps a descriptor that a broker sent, read-only, after checking it. -EPROTO: not a board, or not sealed. */
int board_map(struct board *board, int fd);

void board_unmap(struct board *board);

/*
 * How the timeline of the buffer with that serial has ended. The buffer may have a later serial since it was renamed. While somebody uses
 * it, its place serves no other buffer.
 */
static inline enum board_ended board_end_of(const struct board_end *end, uint64_t serial)
{
	uint64_t how = atomic_load_explicit(&end->how, memory_order_acquire);

	return how >> 2 >= serial ? (enum board_ended)(how & 3) : BOARD_RUNS;
}

/* The board's index of the device with that UUID, or -ENODEV. */
int board_find_device(const struct board *board, const uint8_t uuid[16]);

/* What the sealed handle of a grant is bound to, by its GRANT; and that of a chunk at that offset of the allocation. */
struct seal_terms board_grant_terms(const struct board_header *header, uint64_t session,
				    const struct wire_grant *grant);
struct seal_terms board_chunk_terms(const struct board_header *header, uint64_t session, const struct wire_grant *grant,
				    uint64_t offset, uint64_t span);

#endif
