/* SPDX-License-Identifier: Apache-2.0 */
/*
 * descriptors.h - all open descriptors of this process, for a forked child that must close some.
 */
#ifndef GPUB_DESCRIPTORS_H
#define GPUB_DESCRIPTORS_H

#include <stdbool.h>

/* Returns true to go on with the next descriptor. It may close this one. */
typedef bool descriptor_visitor(int descriptor, const char *target);

/*
 * Calls visitor for each open descriptor with its target in /proc, cut at 255 bytes. Async-signal-safe and without
 * locks if the visitor is. Without /proc it calls nothing.
 */
void descriptors_each(descriptor_visitor *visitor);

#endif
