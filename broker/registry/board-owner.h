/* SPDX-License-Identifier: Apache-2.0 */
/*
 * board-owner.h - creates the board, the memory that the broker writes and all clients read (layout: common/board.h).
 *
 * Owns the memfd and its only writable mapping. The memfd is sealed once that mapping exists, so the kernel refuses any
 * other writable mapping, also one through /proc. Never reads back what it wrote.
 */
#ifndef GPUB_BOARD_OWNER_H
#define GPUB_BOARD_OWNER_H

#include "common/board.h"

struct device;

struct board_owner {
	struct board         board;  /* addresses within the mapping */
	struct board_header *header; /* the writable mapping */
	int                  fd;     /* read-only, sent to clients */
};

/*
 * Creates a board with `buffers` words and `handles` handle places, all of its memory allocated, and enters
 * all devices of the kind `device` in it. -ENODEV, -ENOSPC, -ENOMEM, -EMFILE, with the error message set.
 */
int board_create(struct board_owner *owner, const char *instance, const struct device *device, uint32_t buffers,
		 uint32_t handles);
void board_destroy(struct board_owner *owner);

/* Checks that `device` is the index of a device of the broker. -ENODEV with the error message set. */
int board_check_device(const struct board_owner *owner, unsigned device);

#endif
