/* SPDX-License-Identifier: Apache-2.0 */
/* waking.h - answers the requests that waited for a name, when a buffer with the name is LIVE. Owns nothing. */
#ifndef GPUB_WAKING_H
#define GPUB_WAKING_H

#include <stdbool.h>

struct broker;

/*
 * Answers the requests that wait for the name. Called when a LIVE buffer gets the name, or a new generation under the
 * name. Answers a few at once and leaves the others to the next passes of the loop, because there may be as many as the
 * quotas of all users allow. If the buffer loses the name before all are answered, the others go on waiting.
 */
void waking_name(struct broker *broker, const char *name);

/* Answers a few of the requests that waking_name() left, in each pass of the loop. Returns true if more are left. */
bool waking_more(struct broker *broker);

#endif
