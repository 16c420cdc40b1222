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
 * Fills the memory of a released region with poison and puts the region into the quarantine, which owns it from then
 * on. False: the memory cannot be filled or is too large, and the region stays the caller's.
 */
bool host_quarantine_put(struct host_region *region);

/* Checks and frees all regions in the quarantine. False: the quarantine was empty. */
bool host_quarantine_flush(void);

/* Fills the memory of a region with `byte`: all of a small region, both ends of a large one (over 16 MiB). */
int host_quarantine_fill(const struct host_region *region, int byte);

#endif
