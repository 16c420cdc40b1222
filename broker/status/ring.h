/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ring.h - the ring of events in the status file (format.h): the newest events, in three parts.
 *
 * Adding an event seals it and copies it into the mapping, without a system call. A broker takes over the valid
 * events in the file of a dead broker with the same name and user. Owns the positions of the next events. Reads the
 * broker's own file only to copy its ring into a new file (ring_copy()), and to go on with a ring (ring_go_on()).
 */
#ifndef GPUB_STATUS_RING_H
#define GPUB_STATUS_RING_H

#include <stdbool.h>
#include <stdint.h>

#include "broker/base/event-kinds.h"
#include "mapped-file.h"

/* Positions in the ring. All zeroes at the beginning. */
struct ring {
	uint64_t events;            /* number of the event that was added last; the first event has 1 */
	/* where the next event of each part goes: an index that counts from the part's beginning */
	uint32_t next[EVENT_PARTS];
	bool     has_inherited;     /* the ring has taken over the events of a dead broker */
	/* pid of the dead broker whose events were kept, if it was killed while it served; 0: no such broker */
	uint64_t predecessor;
};

/* Adds the event to its part of the ring, and overwrites the part's oldest event if the part is full. */
void ring_put(struct ring *ring, const struct mapped_file *file, const struct broker_event *event);

/*
 * Opens and locks the status file with the name, if it is of a dead broker of this user, and unlinks the name. Returns
 * the descriptor; -1: there is no such file. Called before a new file gets the name.
 */
int ring_predecessor_open(const char *shm_name);

/*
 * Copies the ring from this broker's former status file, `before`, to the new one. At least STATUS_HEADER_SIZE bytes of
 * the new file are mapped.
 */
void ring_copy(const struct mapped_file *file, int before);

/*
 * Goes on with the ring of the file, which this broker has taken over from the one before it. At least
 * STATUS_HEADER_SIZE bytes of the file are mapped.
 */
void ring_go_on(struct ring *ring, const struct mapped_file *file);

/*
 * Takes over the events of a dead broker's status file, fd, into the new file, and closes fd. At least
 * STATUS_HEADER_SIZE bytes of the new file are mapped.
 */
void ring_inherit(struct ring *ring, const struct mapped_file *file, int fd);

#endif
