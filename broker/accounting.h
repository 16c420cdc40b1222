/* SPDX-License-Identifier: Apache-2.0 */
/*
 * accounting.h - what each user holds of what the broker can give.
 *
 * Owns one account per uid and the quotas. A resource is charged before it is used; the charge object
 * refunds what it took, once, when it is released. Knows nothing of what the resources are for.
 */
#ifndef GPUB_ACCOUNTING_H
#define GPUB_ACCOUNTING_H

#include <stdint.h>
#include <sys/types.h>

enum resource { RESOURCE_BYTES, RESOURCE_BUFFERS, RESOURCE_SESSIONS, RESOURCE_GRANTS, RESOURCES };

#define QUOTA_NONE UINT64_MAX

struct account;

struct accounting {
	struct account *accounts; /* by uid */
	uint64_t        quota[RESOURCES];
};

/* Zero it to begin with: an empty charge. Holds a reference on its account. */
struct charge {
	struct account *account;
	enum resource   resource;
	uint64_t        amount;
};

void accounting_init(struct accounting *accounting); /* no quotas */
void accounting_deinit(struct accounting *accounting); /* all charges must have been released */

/*
 * Charges the user. -EDQUOT with a sentence that names the quota, its limit and the use; *charge is
 * untouched then. -ENOMEM.
 */
int charge_take(struct charge *charge, struct accounting *accounting, uid_t uid, enum resource resource,
		uint64_t amount);

/* Refunds it; an empty charge is fine. The charge is empty afterwards. */
void charge_release(struct charge *charge, struct accounting *accounting);

/* What the user is charged with now. */
uint64_t accounting_used(const struct accounting *accounting, uid_t uid, enum resource resource);

#endif
