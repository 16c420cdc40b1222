/* SPDX-License-Identifier: Apache-2.0 */
/*
 * timeline-map.h - a timeline's page as this process has it mapped: read-only, and writable for its writer.
 *
 * One for each buffer that was ever mapped here, kept until the client ends: what was registered with the
 * device must never be unmapped before exit (facts.md: it would wait for kernels). Under the client's lock.
 */
#ifndef GPUB_TIMELINE_MAP_H
#define GPUB_TIMELINE_MAP_H

#include <stdbool.h>
#include <stdint.h>

#include "common/timeline-page.h"

struct timeline_map {
	uint64_t                    serial;
	const struct timeline_page *page;       /* read-only */
	struct timeline_page       *writable;   /* NULL: this session is not the writer */
	bool                        registered; /* the device may read page */
	uint64_t                    signalled;  /* the largest value queued by this writer */
	struct timeline_map        *next;
};

#endif
