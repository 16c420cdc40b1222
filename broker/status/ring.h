/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ring.h - the events in the status file (format.h): the newest ones, in three parts.
 *
 * To add one is to seal it and to copy it into the mapping: no system call, and no look at the others. A broker takes over
 * what the file of a killed broker of its name and user holds, each event by itself. Owns where the next ones go. Never reads its
 * own file.
 */
#ifndef GPUB_STATUS_RING_H
#define GPUB_STATUS_RING_H

#include <stdbool.h>
#include <stdint.h>

#include "broker/base/event-kinds.h"
#include "mapped-file.h"

/* All zeroes to begin with. */
struct ring {
	uint64_t events; /* the number of the last one */
	uint32_t next[EVENT_PARTS]; /* where the next one goes, in its part */
	bool     has_inherited; /* the events of a dead broker */
	uint64_t predecessor; /* the pid of that broker, if it was killed while it served; 0: none */
};

void ring_put(struct ring *ring, const struct mapped_file *file, const struct broker_event *event);

/*
 * Opens and locks the status file of a dead broker of this user, and takes its name away. -1: there is none. Call it before there
 * is a new file of that name.
 */
int ring_predecessor_open(const char *shm_name);

/* Copies the ring of the same broker's file before, which has lost its name. The new file is reserved. */
void ring_copy(const struct mapped_file *file, int before);

/* Takes its events over into the file, which is reserved, and closes fd. */
void ring_inherit(struct ring *ring, const struct mapped_file *file, int fd);

#endif
