/* SPDX-License-Identifier: Apache-2.0 */
/* deadlines.c - see deadlines.h */
#include "deadlines.h"

#include <errno.h>
#include <search.h>
#include <stddef.h>

/*
 * Compares by time; then by address, so that tdelete(3) finds the one of several deadlines of one time that is meant.
 */
static int compare(const void *a, const void *b)
{
	const struct deadline *one = a, *other = b;

	if (one->ms != other->ms)
		return one->ms < other->ms ? -1 : 1;
	return (one > other) - (one < other);
}

int deadlines_add(struct deadlines *deadlines, struct deadline *deadline)
{
	return tsearch(deadline, &deadlines->tree, compare) ? 0 : -ENOMEM;
}

void deadlines_remove(struct deadlines *deadlines, struct deadline *deadline)
{
	tdelete(deadline, &deadlines->tree, compare);
}

/* For tfind(3): sends the search to the earlier side of each node, and stores the node's deadline in *key. */
static int go_earlier(const void *key, const void *node)
{
	*(const void **)key = node;
	return -1;
}

struct deadline *deadlines_first(const struct deadlines *deadlines)
{
	struct deadline *first = NULL;

	tfind(&first, &deadlines->tree, go_earlier);
	return first;
}
