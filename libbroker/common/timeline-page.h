/* SPDX-License-Identifier: Apache-2.0 */
/*
 * timeline-page.h - the contents of a timeline's page.
 *
 * The word only grows. Its writer's GPU writes it. Stream waits compare signed and cyclically (facts.md), so the end
 * marks are the two largest signed values, which end every wait. A mark only releases streams; how a timeline ended is
 * in the board (board.h).
 */
#ifndef GPUB_TIMELINE_PAGE_H
#define GPUB_TIMELINE_PAGE_H

#include <stddef.h>
#include <stdint.h>

#define TIMELINE_PAGE_SIZE 4096
#define TIMELINE_DIED      ((uint64_t)INT64_MAX)     /* its writer died */
#define TIMELINE_LEFT      ((uint64_t)INT64_MAX - 1) /* its writer disconnected after its work was done */

struct timeline_page {
	uint64_t word;
};

#define TIMELINE_WORD offsetof(struct timeline_page, word)

#endif
