/* SPDX-License-Identifier: Apache-2.0 */
/*
 * notices.h - sends NOTICEs to the sessions that use a buffer which has lost its name or got a new serial, or map an
 * allocation which was evicted.
 *
 * Part of the registry. A struct notices is a member of each buffer and each allocation, and remembers the grant or
 * mapping whose session gets the next notice; it is in the list registry->notices while notices remain. Sends a limited
 * number in each pass of the loop, through the registry's hook, because sending all at once would delay other users
 * (invariant 5).
 */
#ifndef GPUB_NOTICES_H
#define GPUB_NOTICES_H

#include <stdbool.h>

struct grant;
struct notices;
struct registry;

/*
 * Sends notices to the sessions of notices->grant and the grants after it in the buffer's list, or of notices->mapping
 * and the mappings after it in the allocation's list: some at once, the others by notices_more().
 */
void notices_send(struct registry *registry, struct notices *notices);

/* Does what notices_send() does, but sends none at once: notices_more() sends them, in this pass or in later ones. */
void notices_send_later(struct registry *registry, struct notices *notices);

/* Cancels those notices of a buffer or an allocation that were not sent yet. */
void notices_cancel(struct registry *registry, struct notices *notices);

/*
 * Moves the notices of the grant's buffer on to the grant after `grant`, which is about to be told or has just left the
 * buffer's list. After the last grant, begins with the first again if notices->again is set.
 */
void notices_pass(const struct grant *grant);

/* Called in each pass of the loop: sends some of all pending notices. Returns true if more remain. */
bool notices_more(struct registry *registry);

#endif
