/* SPDX-License-Identifier: Apache-2.0 */
/*
 * descriptors.h - a walk over this process's open descriptors, for a forked child that must let go of some.
 */
#ifndef GPUB_DESCRIPTORS_H
#define GPUB_DESCRIPTORS_H

#include <stdbool.h>

/* Says whether to go on with the next descriptor. It may close the one that it is given. */
typedef bool descriptor_visitor(int descriptor, const char *target);

/*
 * Calls visitor for each open descriptor with what /proc says it is, cut at 255 bytes. Async-signal-safe and without
 * locks where the visitor is. Without /proc it calls nothing.
 */
void descriptors_each(descriptor_visitor *visitor);

#endif
