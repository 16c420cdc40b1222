/* SPDX-License-Identifier: Apache-2.0 */
/*
 * timeline-page.h - the contents of a timeline's page.
 *
 * The page has one word, the timeline's value, which only grows. The GPU of the timeline's writer writes it. A stream's
 * wait ends when the word minus the awaited value, as a signed 64-bit number, is not negative (docs/facts.md). So the
 * marks that end a timeline are the two largest signed values, which end every wait. A mark only releases waiting
 * streams: how a timeline ended is in the board (board.h).
 */
#ifndef GPUB_TIMELINE_PAGE_H
#define GPUB_TIMELINE_PAGE_H

#include <stddef.h>
#include <stdint.h>

#define TIMELINE_PAGE_SIZE 4096
#define TIMELINE_DIED      ((uint64_t)INT64_MAX)     /* mark: the timeline's writer died */
/* mark: the timeline's writer disconnected after its work was done */
#define TIMELINE_LEFT      ((uint64_t)INT64_MAX - 1)

struct timeline_page {
	uint64_t word;
};

#define TIMELINE_WORD offsetof(struct timeline_page, word)

#endif
