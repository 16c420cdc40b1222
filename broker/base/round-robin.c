/* SPDX-License-Identifier: Apache-2.0 */
/* round-robin.c - see round-robin.h */
#include "round-robin.h"

#include <stddef.h>

#include <utlist.h>

static void user_wait(struct round_robin *queue, struct rr_user *user)
{
	if (!user->items)
		DL_APPEND(queue->users, user);
}

void rr_append(struct round_robin *queue, struct rr_user *user, struct rr_item *item)
{
	user_wait(queue, user);
	DL_APPEND(user->items, item);
}

void rr_prepend(struct round_robin *queue, struct rr_user *user, struct rr_item *item)
{
	user_wait(queue, user);
	DL_PREPEND(user->items, item);
}

void rr_remove(struct round_robin *queue, struct rr_user *user, struct rr_item *item)
{
	DL_DELETE(user->items, item);
	if (!user->items)
		DL_DELETE(queue->users, user);
}

void rr_served(struct round_robin *queue, struct rr_user *user, struct rr_user *to)
{
	DL_DELETE(queue->users, user);
	to->items = user->items;
	DL_APPEND(queue->users, to);
}
