/* SPDX-License-Identifier: Apache-2.0 */
/*
 * round-robin.h - a queue of users, each with a queue of items; users are served round robin.
 *
 * Used by the fair queue of the sessions (session/fair-queue.h) and the queue of each device (memory/job-queue.h).
 * Users and items are members of the callers' structures, all zeroes to begin with: nothing is allocated, and every
 * operation takes constant time.
 */
#ifndef GPUB_ROUND_ROBIN_H
#define GPUB_ROUND_ROBIN_H

struct rr_item {
	struct rr_item *prev, *next;
};

struct rr_user {
	/* list of the user's items, in the order of service; NULL: the user is not in the queue */
	struct rr_item *items;
	struct rr_user *prev, *next;
};

struct round_robin {
	struct rr_user *users; /* list of the users with items, in the order of service */
};

/*
 * Queues the item as the user's last (rr_append) or first (rr_prepend). A user without other items becomes the last
 * user.
 */
void rr_append(struct round_robin *queue, struct rr_user *user, struct rr_item *item);
void rr_prepend(struct round_robin *queue, struct rr_user *user, struct rr_item *item);

/* Removes the item. Also removes the user if this was its last item. */
void rr_remove(struct round_robin *queue, struct rr_user *user, struct rr_item *item);

/*
 * Moves a user that was served, and has more items, behind all other users. `to` takes over the user's place and items;
 * it may be the user itself.
 */
void rr_served(struct round_robin *queue, struct rr_user *user, struct rr_user *to);

#endif
