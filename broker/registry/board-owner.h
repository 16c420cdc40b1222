/* SPDX-License-Identifier: Apache-2.0 */
/*
 * board-owner.h - creates the board, the memory that the broker writes and all clients read (layout: common/board.h).
 *
 * Owns the memfd and its only writable mapping. The memfd is sealed once that mapping exists, so the kernel refuses any
 * other writable mapping, also one through /proc. The board of a program that goes on by an exec (board_adopt()) lacks
 * that seal: other users cannot write it, because its mode is 0444, and other processes of the broker's user can. The
 * broker reads back the last values of ended timelines, and, where it takes over a board, the header, of which it takes
 * a copy and checks that.
 *
 * Where a process forks brokers one after the other, it makes memory and mapping by board_reserve() before it forks
 * the first broker. Each broker inherits the mapping, which the seal does not touch. The first one calls board_fill(),
 * and the later ones board_restore(), so clients read one board while brokers come and go. A broker that begins with
 * nothing needs memory of its own: serials begin anew, and a client of the last instance must not take its words for
 * those of its buffers. An owner of devices that is forked from that process unmaps the board (board_destroy()).
 */
#ifndef GPUB_BOARD_OWNER_H
#define GPUB_BOARD_OWNER_H

#include "common/board.h"

struct owner_facts;

struct board_owner {
	struct board         board;  /* addresses of the board's parts within the writable mapping */
	struct board_header *shared; /* address of the writable mapping, which begins with the header */
	/* a copy that no other process can write, by which the broker decides; NULL before board_fill() and others */
	struct board_header *header;
	int                  fd;     /* read-only descriptor of the memfd, which is sent to clients */
	int                  writable; /* descriptor for board_adopt(), never sent; -1: the seal forbids that */
};

/*
 * Makes the memory of a board, all zeros. Called by the process that forks brokers, which needs nothing else of the
 * board. Returns 0, or -ENOSPC, -ENOMEM, -EMFILE or -ENFILE with the error message set.
 */
int board_reserve(struct board_owner *owner, uint32_t buffers, uint32_t handles);

/* Makes the memory of a board that is not sealed against another writable mapping, for board_adopt(). Else as above. */
int board_reserve_open(struct board_owner *owner, uint32_t buffers, uint32_t handles);

/*
 * Takes over the memory of a board of board_reserve_open() after an exec. fd: its `writable`, the board's from then on.
 * Returns 0, or a negative errno with the error message set, and then fd is the caller's.
 */
int board_adopt(struct board_owner *owner, int fd);

/*
 * Enters the header into memory of board_reserve(), which has had no broker. Returns 0, or -EBADMSG with the error
 * message set: the memory is of another size.
 */
int board_fill(struct board_owner *owner, const char *instance, const struct owner_facts *facts, uint32_t buffers,
	       uint32_t handles);

/*
 * Takes over the board of a broker that has died: checks that its header is the one that this broker would make, of the
 * same devices, and keeps header, words, ends and handles. Returns 0, or -EBADMSG with the error message set.
 */
int board_restore(struct board_owner *owner, const char *instance, const struct owner_facts *facts, uint32_t buffers,
		  uint32_t handles);

/*
 * Creates a board with `buffers` words and `handles` handle places, with all of its memory allocated. Enters the
 * devices in its header. Returns 0, or -ENOSPC, -ENOMEM, -EMFILE or -ENFILE with the error message set.
 */
int board_create(struct board_owner *owner, const char *instance, const struct owner_facts *facts, uint32_t buffers,
		 uint32_t handles);
void board_destroy(struct board_owner *owner);

/*
 * Replaces *owner by a new board, reserved in the same way. Returns 0, or an error of board_reserve(): then *owner is
 * unchanged.
 */
int board_renew(struct board_owner *owner, uint32_t buffers, uint32_t handles);

/* Returns 0 if `device` is the index of a device of the broker, or -ENODEV with the error message set. */
int board_check_device(const struct board_owner *owner, unsigned device);

#endif
