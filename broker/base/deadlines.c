/* SPDX-License-Identifier: Apache-2.0 */
/* deadlines.c - see deadlines.h */
#include "deadlines.h"

#include <errno.h>
#include <search.h>
#include <stddef.h>

/* Compares two deadlines by time, and those of the same time by address, so that tdelete(3) removes the right one. */
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

/*
 * Comparison for tfind(3) that leads the search to the earliest deadline: stores the deadline of each visited node in
 * *key.
 */
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
