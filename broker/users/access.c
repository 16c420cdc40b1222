/* SPDX-License-Identifier: Apache-2.0 */
/* access.c - see access.h */
#include "access.h"
#include "identity.h"

bool access_may_create(const struct access_list *creators, const struct identity *identity)
{
	if (!creators->restricted || identity_is_admin(identity))
		return true;
	for (unsigned i = 0; i < creators->user_count; i++)
		if (creators->users[i] == identity->uid)
			return true;
	for (unsigned i = 0; i < creators->group_count; i++)
		if (identity_in_group(identity, creators->groups[i]))
			return true;
	return false;
}
