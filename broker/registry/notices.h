/* SPDX-License-Identifier: Apache-2.0 */
/*
 * notices.h - which sessions are yet to be told that a buffer has lost its name, or that memory was evicted.
 *
 * Part of the registry. struct notices is a member of what the notices are about, and stands in registry->notices while
 * some are to be sent. Sends a few in each pass of the loop, by the registry's hook, because many could hold up others
 * (invariant 5).
 */
#ifndef GPUB_NOTICES_H
#define GPUB_NOTICES_H

#include <stdbool.h>

struct notices;
struct registry;
struct use;

/* Sends those that notices->use or notices->grant begins with: the first ones at once, the others in later passes. */
void notices_send(struct registry *registry, struct notices *notices);

/* The same, all of them in later passes. */
void notices_send_later(struct registry *registry, struct notices *notices);

/* Sends no more of them. */
void notices_cancel(struct registry *registry, struct notices *notices);

/* Has the notices of the use's buffer go on behind the use, which was told or is about to leave the buffer's list. */
void notices_pass(const struct use *use);

/* A pass of the loop: sends some of those that are yet to be sent. True: there are more. */
bool notices_more(struct registry *registry);

#endif
