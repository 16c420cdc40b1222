/* SPDX-License-Identifier: Apache-2.0 */
/* exports.h - finds kinds of export by name or by trait. Owns nothing. */
#ifndef GPUB_EXPORTS_H
#define GPUB_EXPORTS_H

#include "export.h"

/* Returns the number of the kind called `name`, or export_count if no kind has this name. */
unsigned export_find(const char *name);

#define EXPORT_NAMES_SIZE 80

/* Writes the names of all kinds as "ipc or vmm". Returns `names`. */
const char *export_names(char names[EXPORT_NAMES_SIZE]);

/*
 * Returns the number of the kind for buffers that may grow or that have one address in all processes: `wish` if that
 * kind is growable, otherwise the first growable kind.
 */
unsigned export_growable(unsigned wish);

/* Returns how many descriptors the export of one allocation keeps open at most, over all kinds: 0 or 1. */
unsigned export_descriptors_max(void);

#endif
