/* SPDX-License-Identifier: Apache-2.0 */
/*
 * board-owner.h - creates the board, the memory that the broker writes and all clients read (layout: common/board.h).
 *
 * Owns the memfd and its only writable mapping. The memfd is sealed once that mapping exists, so the kernel refuses any
 * other writable mapping, also one through /proc. The broker reads back only the header and the last values of ended
 * timelines.
 */
#ifndef GPUB_BOARD_OWNER_H
#define GPUB_BOARD_OWNER_H

#include "common/board.h"

struct owner_facts;

struct board_owner {
	struct board         board;  /* addresses of the board's parts within the writable mapping */
	struct board_header *header; /* address of the broker's writable mapping, which begins with the header */
	int                  fd;     /* read-only descriptor of the memfd, which is sent to clients */
};

/*
 * Creates a board with `buffers` words and `handles` handle places, with all of its memory allocated. Enters the
 * devices in its header. Returns 0, or -ENOSPC, -ENOMEM, -EMFILE or -ENFILE with the error message set.
 */
int board_create(struct board_owner *owner, const char *instance, const struct owner_facts *facts, uint32_t buffers,
		 uint32_t handles);
void board_destroy(struct board_owner *owner);

/* Returns 0 if `device` is the index of a device of the broker, or -ENODEV with the error message set. */
int board_check_device(const struct board_owner *owner, unsigned device);

#endif
