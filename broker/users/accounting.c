/* SPDX-License-Identifier: Apache-2.0 */
/* accounting.c - see accounting.h */
#include "accounting.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/error.h"
#include "common/size.h"

/*
 * One row for each resource. Columns: key in configuration and status; singular and plural for messages; the setting
 * that enlarges the capacity, or NULL; true if the amount is in bytes.
 */
static const struct {
	const char *key, *one, *many, *enlarge;
	bool        bytes;
} resource_names[RESOURCES] = {
	[RESOURCE_BYTES] = { "bytes", NULL, "of device memory", NULL, true },
	[RESOURCE_BUFFERS] = { "buffers", "buffer", "buffers", "board.buffers in brokerd.conf(5)", false },
	[RESOURCE_SESSIONS] = { "sessions", "session", "sessions", NULL, false },
	[RESOURCE_GRANTS] = { "grants", "grant", "grants", NULL, false },
	[RESOURCE_TICKETS] = { "tickets", "one-time ticket", "one-time tickets", NULL, false },
	[RESOURCE_GREETINGS] = { "greetings", "connection without a greeting", "connections without a greeting", NULL,
				 false },
	[RESOURCE_WAITS] = { "waits", "request that waits", "requests that wait", NULL, false },
	[RESOURCE_MAPPINGS] = { "mappings", "mapping", "mappings", "board.mappings in brokerd.conf(5)", false },
	[RESOURCE_DESCRIPTORS] = { "descriptors", "descriptor", "descriptors", "LimitNOFILE= or ulimit -n", false },
	[RESOURCE_QUEUED] = { "queued", NULL, "of unread messages", NULL, true },
};

/* default limit of greetings; as large as brokerd's of sessions, because all ranks of a job may connect at once */
#define GREETINGS_DEFAULT 1024
#define TICKETS_DEFAULT   4096
#define WAITS_DEFAULT     8192

void quota_init(struct quota *quota)
{
	for (int i = 0; i < RESOURCES; i++)
		quota->limit[i] = QUOTA_NONE;
	quota->limit[RESOURCE_GREETINGS] = GREETINGS_DEFAULT;
	quota->limit[RESOURCE_TICKETS] = TICKETS_DEFAULT;
	quota->limit[RESOURCE_WAITS] = WAITS_DEFAULT;
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
	accounting->own = geteuid();
}

void accounting_set_quotas(struct accounting *accounting, const struct quotas *quotas)
{
	accounting->quotas = *quotas;
	for (struct account *account = accounting->accounts; account; account = account->hh.next) {
		account->quota = accounting_quota(accounting, account->uid);
		tracked_changed(accounting->tracking, &account->tracked);
	}
}

void accounting_set_capacity(struct accounting *accounting, enum resource resource, uint64_t all)
{
	accounting->capacity[resource].all = all;
}

/* Searches the whole array, which is short, because few users have a quota of their own. */
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
	account->quota = accounting_quota(accounting, uid);
	HASH_ADD(hh, accounting->accounts, uid, sizeof account->uid, account);
	if (!table_added(account)) {
		free(account);
		return NULL;
	}
	tracked_begin(accounting->tracking, &account->tracked, TRACKED_USER);
	return account;
}

static void account_put(struct accounting *accounting, struct account *account)
{
	if (account->charges)
		return;
	HASH_DEL(accounting->accounts, account);
	tracked_end(accounting->tracking, &account->tracked);
	free(account);
}

/* ---- error messages ---- */

#define AMOUNT_MAX 64
#define NUMBER_MAX 24 /* size of the text of an amount without its noun; at least SIZE_TEXT_MAX */

/* Writes an amount with its noun to text: "1 buffer", "12 buffers", "40 MiB of device memory". Returns text. */
static const char *amount_text(enum resource resource, uint64_t amount, char text[AMOUNT_MAX])
{
	char size[SIZE_TEXT_MAX];

	if (resource_names[resource].bytes)
		snprintf(text, AMOUNT_MAX, "%s %s", size_format(amount, size), resource_names[resource].many);
	else
		snprintf(text, AMOUNT_MAX, "%llu %s", (unsigned long long)amount,
			 amount == 1 ? resource_names[resource].one : resource_names[resource].many);
	return text;
}

/* Writes an amount without a noun to text: "12", "40 MiB". Returns text. */
static const char *number_text(enum resource resource, uint64_t amount, char text[NUMBER_MAX])
{
	if (resource_names[resource].bytes)
		return size_format(amount, text);
	snprintf(text, NUMBER_MAX, "%llu", (unsigned long long)amount);
	return text;
}

static int refuse_quota(uid_t uid, enum resource resource, uint64_t amount, uint64_t holds, uint64_t quota)
{
	char most[AMOUNT_MAX], used[NUMBER_MAX], asked[NUMBER_MAX];

	return error_set(-EDQUOT, "user %u may hold %s, holds %s and asks for %s more: return some, or have its quota "
				  "raised (brokerd.conf(5))",
			 uid, amount_text(resource, quota, most), number_text(resource, holds, used),
			 number_text(resource, amount, asked));
}

static int refuse_share(uid_t uid, enum resource resource, uint64_t amount, uint64_t holds, uint64_t share,
			uint64_t all)
{
	char most[AMOUNT_MAX], total[NUMBER_MAX], used[NUMBER_MAX], asked[NUMBER_MAX];

	return error_set(-EDQUOT, "user %u's share is %s now, of %s for all users; it holds %s and asks for %s more: "
				  "return some, wait for others to, or have the administrator raise %s",
			 uid, amount_text(resource, share, most), number_text(resource, all, total),
			 number_text(resource, holds, used), number_text(resource, amount, asked),
			 resource_names[resource].enlarge ? resource_names[resource].enlarge : "it");
}

/* ---- charges ---- */

/*
 * Returns how much more of the resource the user, who holds `holds` of it, may take by its share: half of (unused minus
 * holds), rounded up, so that the last free one can be taken; all that is unused for root and the broker's own user.
 * Returns UINT64_MAX if the resource has no capacity.
 */
static uint64_t share_left(const struct accounting *accounting, uid_t uid, enum resource resource, uint64_t holds)
{
	const struct capacity *capacity = &accounting->capacity[resource];
	uint64_t unused = capacity->all > capacity->used ? capacity->all - capacity->used : 0;

	if (!capacity->all)
		return UINT64_MAX;
	if (!uid || uid == accounting->own)
		return unused;
	return holds <= unused ? (unused - holds + 1) / 2 : 0;
}

static bool is_over(uint64_t quota, uint64_t holds, uint64_t amount)
{
	return amount > quota || holds > quota - amount;
}

static void charge_account(struct charge *charge, struct accounting *accounting, struct account *account,
			   enum resource resource, uint64_t amount)
{
	account->used[resource] += amount;
	accounting->capacity[resource].used += amount;
	account->charges++;
	tracked_changed(accounting->tracking, &account->tracked);
	*charge = (struct charge){ account, resource, amount };
}

int charge_try(struct charge *charge, struct accounting *accounting, uid_t uid, enum resource resource,
	       uint64_t amount)
{
	struct account *account = account_get(accounting, uid);

	if (!account)
		return -ENOMEM;
	if (is_over(account->quota->limit[resource], account->used[resource], amount) ||
	    amount > share_left(accounting, uid, resource, account->used[resource])) {
		account_put(accounting, account);
		return -EDQUOT;
	}
	charge_account(charge, accounting, account, resource, amount);
	return 0;
}

int charge_restore(struct charge *charge, struct accounting *accounting, uid_t uid, enum resource resource,
		   uint64_t amount)
{
	struct account *account = account_get(accounting, uid);

	if (!account)
		return error_set(-ENOMEM, "the broker is out of memory");
	charge_account(charge, accounting, account, resource, amount);
	return 0;
}

int charge_take(struct charge *charge, struct accounting *accounting, uid_t uid, enum resource resource,
		uint64_t amount)
{
	int error = charge_try(charge, accounting, uid, resource, amount);
	uint64_t quota, holds;

	if (!error)
		return 0;
	if (error != -EDQUOT)
		return error_set(error, "the broker is out of memory");
	quota = accounting_quota(accounting, uid)->limit[resource];
	holds = accounting_used(accounting, uid, resource);
	if (is_over(quota, holds, amount))
		return refuse_quota(uid, resource, amount, holds, quota);
	return refuse_share(uid, resource, amount, holds, holds + share_left(accounting, uid, resource, holds),
			    accounting->capacity[resource].all);
}

void charge_release(struct charge *charge, struct accounting *accounting)
{
	if (!charge->account)
		return;
	charge->account->used[charge->resource] -= charge->amount;
	accounting->capacity[charge->resource].used -= charge->amount;
	charge->account->charges--;
	tracked_changed(accounting->tracking, &charge->account->tracked);
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
