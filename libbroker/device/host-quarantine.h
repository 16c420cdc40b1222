/* SPDX-License-Identifier: Apache-2.0 */
/*
 * host-quarantine.h - the quarantine: freed memory, kept for a while to detect late writes. Call all functions under
 * host_state.lock, except host_quarantine_fill().
 */
#ifndef GPUB_HOST_QUARANTINE_H
#define GPUB_HOST_QUARANTINE_H

#include <stdbool.h>

#include "host-region.h"

/*
 * Fills the region with poison and puts it into the quarantine, which owns the region from then on. False: the region
 * cannot be filled or is too large, and stays the caller's.
 */
bool host_quarantine_put(struct host_region *region);

/* Checks and frees all regions in the quarantine. False: the quarantine was empty. */
bool host_quarantine_flush(void);

/* Fills a region with `byte`: all of a small region, both ends of a large one. */
int host_quarantine_fill(const struct host_region *region, int byte);

#endif
