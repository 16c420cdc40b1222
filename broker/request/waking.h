/* SPDX-License-Identifier: Apache-2.0 */
/*
 * waking.h - answers the requests that waited for a name when a buffer is LIVE under it. Owns nothing.
 */
#ifndef GPUB_WAKING_H
#define GPUB_WAKING_H

#include <stdbool.h>

struct broker;

/*
 * Another buffer is LIVE under the name: grants it to those who wait for it, and tells those who asked for a newer one.
 * A few at once, the others, who may be as many as all users' quotas allow, in the next passes of the loop, unless the
 * name is gone by then.
 */
void waking_name(struct broker *broker, const char *name);

/* A pass of the loop: answers some of those that are yet to be answered. True: there are more. */
bool waking_more(struct broker *broker);

#endif
