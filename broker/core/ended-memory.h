/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ended-memory.h - what becomes of memory when the process that owned it has ended.
 *
 * Memory that came by a descriptor is taken over by the next owner, because the broker has the descriptor. All other
 * memory has ended: its buffers lose their names, and processes that map it read on. Decides about allocations and
 * names; devices.h decides when. Owns nothing.
 */
#ifndef GPUB_ENDED_MEMORY_H
#define GPUB_ENDED_MEMORY_H

#include <stdbool.h>

struct allocation;
struct broker;

/* Whether the allocation's memory ends with the owner that made it. */
bool ended_memory_is(const struct allocation *allocation);

/*
 * Has memory whose handle opens nothing any more serve no new buffers: gives all spare memory back, and closes the
 * other allocations without a descriptor.
 */
void ended_memory_retire(struct broker *broker);

/* Notes, also for the status file, that the memory of the allocation, or of all that ends with its owner, has ended. */
void ended_memory_mark(struct broker *broker, struct allocation *allocation);
void ended_memory_mark_all(struct broker *broker);

/* Takes the names of the buffers away whose memory has ended. Returns how many. */
unsigned ended_memory_unlink(struct broker *broker);

/*
 * Has the owner that serves take over the memory of the allocation, or of all that have one, by its descriptor. Memory
 * that it cannot take over serves no new buffers.
 */
void ended_memory_adopt(struct broker *broker, const struct allocation *allocation);
void ended_memory_adopt_all(struct broker *broker);

#endif
