/* SPDX-License-Identifier: Apache-2.0 */
/*
 * board-owner.h - the board as its one writer has it (layout: common/board.h).
 *
 * Owns the memfd and the only writable mapping there will ever be: after sealing, the kernel refuses every
 * further one, also through /proc. Never reads back what it published.
 */
#ifndef GPUB_BOARD_OWNER_H
#define GPUB_BOARD_OWNER_H

#include "common/board.h"

struct device;

struct board_owner {
	struct board         board;
	struct board_header *header; /* the same, writable */
	int                  fd; /* for clients: can only be read */
};

/*
 * Makes a board of that many places, allocated in full. The devices are filled in from the table.
 * -ENOSPC, -ENOMEM, -EMFILE.
 */
int board_create(struct board_owner *owner, const char *instance, const struct device *device, uint32_t buffers,
		 uint32_t handles);
void board_destroy(struct board_owner *owner);

/* Checks that the broker has a device of that number. -ENODEV with the error message set. */
int board_check_device(const struct board_owner *owner, unsigned device);

#endif
