/* SPDX-License-Identifier: Apache-2.0 */
/*
 * timeline-page.h - what stands in a timeline's page.
 *
 * The word only grows; its writer's GPU writes it, waiters compare signed and cyclically (facts.md: the
 * comparison of stream waits), so the end marks are the two largest signed values: every wait is over then.
 */
#ifndef GPUB_TIMELINE_PAGE_H
#define GPUB_TIMELINE_PAGE_H

#include <stdint.h>

#define TIMELINE_PAGE_SIZE 4096
#define TIMELINE_DIED      ((uint64_t)INT64_MAX)     /* its writer died */
#define TIMELINE_LEFT      ((uint64_t)INT64_MAX - 1) /* its writer disconnected after its work was done */

struct timeline_page {
	uint64_t word;
	uint64_t last; /* the word before an end mark replaced it; written first */
};

#endif
