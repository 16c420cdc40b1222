/* SPDX-License-Identifier: Apache-2.0 */
/* accounting.c - see accounting.h */
#include "accounting.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <uthash.h>

#include "common/error.h"

struct account {
	uid_t          uid;
	unsigned       charges; /* an account goes with its last charge */
	uint64_t       used[RESOURCES];
	UT_hash_handle hh;
};

static const char *const resource_names[RESOURCES] = {
	[RESOURCE_BYTES] = "device bytes",
	[RESOURCE_BUFFERS] = "buffers",
	[RESOURCE_SESSIONS] = "sessions",
	[RESOURCE_GRANTS] = "grants",
};

void accounting_init(struct accounting *accounting)
{
	accounting->accounts = NULL;
	for (int i = 0; i < RESOURCES; i++)
		accounting->quota[i] = QUOTA_NONE;
}

void accounting_deinit(struct accounting *accounting)
{
	struct account *account, *next;

	HASH_ITER(hh, accounting->accounts, account, next) {
		HASH_DEL(accounting->accounts, account);
		free(account);
	}
}

static struct account *account_find(const struct accounting *accounting, uid_t uid)
{
	struct account *account;

	HASH_FIND(hh, accounting->accounts, &uid, sizeof uid, account);
	return account;
}

static struct account *account_get(struct accounting *accounting, uid_t uid)
{
	struct account *account = account_find(accounting, uid);

	if (account)
		return account;
	account = calloc(1, sizeof *account);
	if (!account)
		return NULL;
	account->uid = uid;
	HASH_ADD(hh, accounting->accounts, uid, sizeof account->uid, account);
	return account;
}

static void account_put(struct accounting *accounting, struct account *account)
{
	if (account->charges)
		return;
	HASH_DEL(accounting->accounts, account);
	free(account);
}

int charge_take(struct charge *charge, struct accounting *accounting, uid_t uid, enum resource resource,
		uint64_t amount)
{
	struct account *account = account_get(accounting, uid);
	uint64_t quota = accounting->quota[resource], used;

	if (!account)
		return error_set(-ENOMEM, "the broker is out of memory");
	used = account->used[resource];
	if (amount > quota || used > quota - amount) {
		account_put(accounting, account);
		return error_set(-EDQUOT, "user %u may hold %llu %s and holds %llu: return some, or ask for a "
					  "larger quota",
				 uid, (unsigned long long)quota, resource_names[resource],
				 (unsigned long long)used);
	}
	account->used[resource] += amount;
	account->charges++;
	*charge = (struct charge){ account, resource, amount };
	return 0;
}

void charge_release(struct charge *charge, struct accounting *accounting)
{
	if (!charge->account)
		return;
	charge->account->used[charge->resource] -= charge->amount;
	charge->account->charges--;
	account_put(accounting, charge->account);
	memset(charge, 0, sizeof *charge);
}

uint64_t accounting_used(const struct accounting *accounting, uid_t uid, enum resource resource)
{
	const struct account *account = account_find(accounting, uid);

	return account ? account->used[resource] : 0;
}
