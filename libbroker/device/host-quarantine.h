/* SPDX-License-Identifier: Apache-2.0 */
/* host-quarantine.h - freed memory, kept for a while to catch late writes. All under host_state.lock, but fill. */
#ifndef GPUB_HOST_QUARANTINE_H
#define GPUB_HOST_QUARANTINE_H

#include <stdbool.h>

#include "host-region.h"

/* Takes the region over. False: it cannot be poisoned, or does not fit, and stays the caller's. */
bool host_quarantine_put(struct host_region *region);

/* Destroys all that it has. False: it was empty. */
bool host_quarantine_flush(void);

/* Fills all of a small region, both ends of a large one. */
int host_quarantine_fill(const struct host_region *region, int byte);

#endif
