/* SPDX-License-Identifier: Apache-2.0 */
/*
 * status.h - the status file: the books as people may see them, in POSIX shared memory.
 *
 * "/gpubroker.<instance>", 0640 under any umask: a header and a JSON text (docs: broker-status(1)). Owns the file and the
 * lock that says that its broker lives. Written with pwrite on change, at most 20 times a second, and of a large broker
 * in about a twentieth of the loop's time: piece by piece, one a pass of the loop, so that clients are served between
 * (invariant 5) and nothing here grows with the books. Each text is beside the last one and the header last, so a
 * reader always finds one whole text, also when the broker was stopped in the middle. Never mapped and never read back:
 * nobody can hurt the broker through it. Never holds a key, a handle or a ticket.
 */
#ifndef GPUB_STATUS_H
#define GPUB_STATUS_H

#include <stdbool.h>
#include <stdint.h>

#include <event2/event.h>
#include <sodium.h>

#include "common/name.h"
#include "leftovers.h"
#include "status-text.h"

#define STATUS_MAGIC  0x7574617473627067ull
#define STATUS_FORMAT 1

#define STATUS_TEXT_MAX (512u << 20) /* bytes; the largest board, full, makes about half of that */

struct status_header {
	uint64_t magic;
	uint32_t format, reserved;
	uint64_t sequence;
	uint64_t offset, length; /* of the text; length without a zero */
	uint64_t pid, start_time; /* of the broker; start_time in clock ticks since boot, as /proc/PID/stat */
	uint8_t  checksum[8];    /* of the text: BLAKE2b, to notice a torn one */
};

struct broker;

struct status {
	int                  fd;
	char                 name[sizeof(STATUS_PREFIX) + INSTANCE_SIZE];
	struct status_header header; /* as it stands in the file */
	struct event        *turn; /* the loop's next */
	struct event        *rest; /* the end of the pause between two texts: a timerfd, for with a timeout of the loop's own each
				      of its sleeps would set a timer, and a client wait for that */
	bool                 resting;
	bool                 pending; /* the books are not as in the last text, or may not be as in the one in the making */
	bool                 complained;
	bool                 writing; /* a text is in the making: */
	struct status_header next;    /* its header, so far */
	struct status_text   text;
	crypto_generichash_state checksum;
	int64_t              took_us; /* to make and write it, all pieces together */
};

/*
 * Makes the file and takes its lock. -EEXIST: a broker of this user or of root has this instance's name, a living one
 * where leftovers_remove() ran before. Where a file of another user has it, the broker gets another name, which replaces
 * instance, and a line of the log says whose that file is.
 */
int status_open(struct status *status, char instance[INSTANCE_SIZE]);

/* From here on the file follows the broker's books. */
int status_start(struct broker *broker);

/* The books changed: the file follows soon. */
void status_changed(struct broker *broker);

/* Removes the file. */
void status_close(struct status *status);

/* The user of the process that the header names; of none, or another one than it means, (uid_t)-1. */
uid_t status_process_owner(const struct status_header *header);

/* /proc/PID/stat's start time, 0 when there is no such process; *state gets its letter if not NULL. */
uint64_t status_process_start(uint64_t pid, char *state);

#endif
