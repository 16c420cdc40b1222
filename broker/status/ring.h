/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ring.h - the ring of events in the status file (format.h): the newest events, in three parts.
 *
 * Adding an event seals it and copies it into the mapping, without a system call. A broker takes over the valid
 * events in the file of a dead broker with the same name and user. Owns the positions of the next events. Never reads
 * the broker's own file.
 */
#ifndef GPUB_STATUS_RING_H
#define GPUB_STATUS_RING_H

#include <stdbool.h>
#include <stdint.h>

#include "broker/base/event-kinds.h"
#include "mapped-file.h"

/* All zeroes to begin with. */
struct ring {
	uint64_t events;            /* number of the last event */
	uint32_t next[EVENT_PARTS]; /* index of the next event in each part, relative to the part's begin */
	bool     has_inherited;     /* the ring has taken over the events of a dead broker */
	uint64_t predecessor;       /* pid of that dead broker, if it was killed while it served; 0: none */
};

/* Adds the event to its part of the ring, and overwrites the part's oldest event if the part is full. */
void ring_put(struct ring *ring, const struct mapped_file *file, const struct broker_event *event);

/*
 * Opens and locks the status file of a dead broker of this user, and unlinks its name. Returns the descriptor; -1:
 * there is no such file. Call it before a new file gets the name.
 */
int ring_predecessor_open(const char *shm_name);

/* Copies the ring from this broker's former file, `before`. At least STATUS_HEADER_SIZE of the new file is mapped. */
void ring_copy(const struct mapped_file *file, int before);

/*
 * Takes over the events of a dead broker's status file, fd, and closes fd. The mapping of the new file is at least
 * STATUS_HEADER_SIZE large.
 */
void ring_inherit(struct ring *ring, const struct mapped_file *file, int fd);

#endif
