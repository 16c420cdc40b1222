/* SPDX-License-Identifier: Apache-2.0 */
/*
 * descriptors.h - visits all open descriptors of this process, for a forked child that must close some. Owns nothing.
 */
#ifndef GPUB_DESCRIPTORS_H
#define GPUB_DESCRIPTORS_H

#include <stdbool.h>

/*
 * A visitor, called with an open descriptor, which it may close, and the target of the descriptor's link in
 * /proc/self/fd. Returns true to go on, false to end the visits.
 */
typedef bool descriptor_visitor(int descriptor, const char *target);

/*
 * Calls visitor for each open descriptor with the target of its link in /proc/self/fd, cut at 255 bytes. Does nothing
 * if /proc is missing. Async-signal-safe and free of locks if the visitor is.
 */
void descriptors_each(descriptor_visitor *visitor);

#endif
