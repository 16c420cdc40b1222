/* SPDX-License-Identifier: Apache-2.0 */
/*
 * timeline-page.h - what stands in a timeline's page.
 *
 * The word only grows; its writer's GPU writes it, waiters compare signed and cyclically (facts.md: the
 * comparison of stream waits), so the end marks are the two largest signed values: every wait is over then.
 * A mark releases streams and says nothing more: how a timeline ended stands in the board (board.h).
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
