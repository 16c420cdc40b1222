/* SPDX-License-Identifier: Apache-2.0 */
/*
 * access.h - decides which users may create buffers: the users and groups of a list, or all users. The mode bits of a
 * buffer (registry.h) and its owner (manage.h) decide who may use or change it. Owns nothing: the caller owns the
 * arrays.
 */
#ifndef GPUB_ACCESS_H
#define GPUB_ACCESS_H

#include <stdbool.h>

#include "identity.h"

struct access_list {
	bool         restricted; /* false: all users may create, and the arrays are not used */
	const uid_t *users;
	const gid_t *groups;
	unsigned     user_count, group_count;
};

/* Returns true if the user may create buffers. Root and the broker's own user always may. */
bool access_may_create(const struct access_list *creators, const struct identity *identity);

#endif
