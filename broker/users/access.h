/* SPDX-License-Identifier: Apache-2.0 */
/*
 * access.h - who may create buffers: a list of users and groups, or everybody. Who may use or change a buffer is decided
 * by its mode bits (registry.h) and its owner (manage.h). Owns nothing: the lists are the caller's.
 */
#ifndef GPUB_ACCESS_H
#define GPUB_ACCESS_H

#include <stdbool.h>

#include "identity.h"

struct access_list {
	bool         restricted; /* false: everybody */
	const uid_t *users;
	const gid_t *groups;
	unsigned     user_count, group_count;
};

bool access_may_create(const struct access_list *creators, const struct identity *identity);

#endif
