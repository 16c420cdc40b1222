/* SPDX-License-Identifier: Apache-2.0 */
/* exports.h - which kinds of export there are: by name, and with which trait. Owns nothing. */
#ifndef GPUB_EXPORTS_H
#define GPUB_EXPORTS_H

#include "export.h"

/* The number of the kind of that name; export_count: there is none. */
unsigned export_find(const char *name);

#define EXPORT_NAMES_SIZE 80

/* Writes the names of all kinds: "ipc or vmm". Returns names. */
const char *export_names(char names[EXPORT_NAMES_SIZE]);

/* The number of the kind for buffers that may grow or have one address: wish, or else the first kind that can. */
unsigned export_growable(unsigned wish);

/* The most descriptors that the export of one allocation keeps open, of any kind: 0 or 1. */
unsigned export_descriptors_max(void);

#endif
