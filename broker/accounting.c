/* SPDX-License-Identifier: Apache-2.0 */
/* accounting.c - see accounting.h */
#include "accounting.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/error.h"
#include "common/tables.h"

struct account {
	uid_t          uid;
	unsigned       charges; /* an account goes with its last charge */
	uint64_t       used[RESOURCES];
	UT_hash_handle hh;
};

static const struct {
	const char *key, *text;
} resource_names[RESOURCES] = {
	[RESOURCE_BYTES] = { "bytes", "device bytes" },
	[RESOURCE_BUFFERS] = { "buffers", "buffers" },
	[RESOURCE_SESSIONS] = { "sessions", "sessions" },
	[RESOURCE_GRANTS] = { "grants", "grants" },
	[RESOURCE_TICKETS] = { "tickets", "one-time tickets" },
	[RESOURCE_GREETINGS] = { "greetings", "connections without a greeting" },
	[RESOURCE_WAITS] = { "waits", "acquires that wait for a name" },
};

#define GREETINGS_MAX 256
#define TICKETS_MAX   4096
#define WAITS_MAX     8192 /* one name may wake them all in one step of the loop */

void quota_init(struct quota *quota)
{
	for (int i = 0; i < RESOURCES; i++)
		quota->limit[i] = QUOTA_NONE;
	quota->limit[RESOURCE_GREETINGS] = GREETINGS_MAX;
	quota->limit[RESOURCE_TICKETS] = TICKETS_MAX;
	quota->limit[RESOURCE_WAITS] = WAITS_MAX;
	quota->requests = QUOTA_NONE;
}

const char *resource_key(enum resource resource)
{
	return resource_names[resource].key;
}

void accounting_init(struct accounting *accounting)
{
	memset(accounting, 0, sizeof *accounting);
	quota_init(&accounting->quotas.fallback);
}

void accounting_set_quotas(struct accounting *accounting, const struct quotas *quotas)
{
	accounting->quotas = *quotas;
}

/* Named users are few, and this is asked when something is taken, not when it is used. */
const struct quota *accounting_quota(const struct accounting *accounting, uid_t uid)
{
	const struct quotas *quotas = &accounting->quotas;

	for (unsigned i = 0; i < quotas->count; i++)
		if (quotas->users[i].uid == uid)
			return &quotas->users[i].quota;
	return &quotas->fallback;
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
	if (table_added(account))
		return account;
	free(account);
	return NULL;
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
	uint64_t quota = accounting_quota(accounting, uid)->limit[resource], used;

	if (!account)
		return error_set(-ENOMEM, "the broker is out of memory");
	used = account->used[resource];
	if (amount > quota || used > quota - amount) {
		account_put(accounting, account);
		return error_set(-EDQUOT, "user %u may hold %llu %s and holds %llu: return some, or ask for a "
					  "larger quota",
				 uid, (unsigned long long)quota, resource_names[resource].text,
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

void accounting_each(const struct accounting *accounting,
		     void (*each)(void *context, uid_t uid, const uint64_t used[RESOURCES]), void *context)
{
	const struct account *account;

	for (account = accounting->accounts; account; account = account->hh.next)
		each(context, account->uid, account->used);
}
