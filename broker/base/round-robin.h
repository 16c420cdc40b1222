/* SPDX-License-Identifier: Apache-2.0 */
/*
 * round-robin.h - items that wait in a queue for each user; the users are served in turn.
 *
 * Both fair queues are made of it: the sessions' (session/fair-queue.h) and each device's (memory/workers.h). Users and items are
 * parts of their owners' structures: nothing is allocated, and every operation takes constant time. Zero them to begin with.
 */
#ifndef GPUB_ROUND_ROBIN_H
#define GPUB_ROUND_ROBIN_H

struct rr_item {
	struct rr_item *prev, *next;
};

struct rr_user {
	struct rr_item *items; /* the next one first; NULL: the user does not wait */
	struct rr_user *prev, *next;
};

struct round_robin {
	struct rr_user *users; /* those who wait, the next one first */
};

/* The item waits, behind or before the user's others. */
void rr_append(struct round_robin *queue, struct rr_user *user, struct rr_item *item);
void rr_prepend(struct round_robin *queue, struct rr_user *user, struct rr_item *item);

/* It does not wait any more; with its last item the user is not served either. */
void rr_remove(struct round_robin *queue, struct rr_user *user, struct rr_item *item);

/* The user was served, and has items left: all other users come first. to, which may be the same, stands for it from now on. */
void rr_served(struct round_robin *queue, struct rr_user *user, struct rr_user *to);

#endif
