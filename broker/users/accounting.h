/* SPDX-License-Identifier: Apache-2.0 */
/*
 * accounting.h - how much of each of the broker's resources each user holds, and the limits: quotas and shares.
 *
 * Owns one account for each uid that holds anything. A resource is charged to a user before it is used. A charge
 * object records the amount, and refunds the amount once, when the charge is released. Knows nothing of what the
 * resources are for.
 *
 * A quota is a fixed limit for one user. A share applies to a resource with a capacity, and depends on what all users
 * hold: a user may take more only while at least as much stays free as the user then holds. So a single user gets
 * half, k users who all want as much as possible converge to 1/(k + 1) each, and a new user always finds room. Root
 * and the broker's own user may take all that is free, because an administrator must be able to work with a full
 * broker.
 */
#ifndef GPUB_ACCOUNTING_H
#define GPUB_ACCOUNTING_H

#include <stdint.h>
#include <sys/types.h>

#include "broker/base/tracked.h"
#include "common/tables.h"

enum resource {
	RESOURCE_BYTES,
	RESOURCE_BUFFERS,
	RESOURCE_SESSIONS,
	RESOURCE_GRANTS,
	RESOURCE_TICKETS,     /* one-time tickets that wait to be redeemed */
	RESOURCE_GREETINGS,   /* connections that have not sent HELLO */
	RESOURCE_WAITS,       /* requests ACQUIRE and NEWER that wait for a name */
	RESOURCE_MAPPINGS,    /* handle places in the board: one for each mapping */
	RESOURCE_DESCRIPTORS, /* descriptors that are open in the broker's process */
	/* bytes of messages that wait in the broker until the clients read, and of lists and snapshots (walk.h) */
	RESOURCE_QUEUED,
	RESOURCES
};

#define QUOTA_NONE UINT64_MAX

/* The limits of one user. QUOTA_NONE: no limit. */
struct quota {
	uint64_t limit[RESOURCES]; /* amount of each resource that the user may hold */
	/* requests that the user may make in a second, and the largest number at once after a pause */
	uint64_t requests;
};

struct user_quota {
	uid_t        uid;
	struct quota quota;
};

struct quotas {
	struct quota             fallback; /* quota of all users that are not in `users` */
	/* array of `count` entries, owned by the caller of accounting_set_quotas() */
	const struct user_quota *users;
	unsigned                 count;
};

/* The amounts that one user holds. Exists while the user has a charge. */
struct account {
	uid_t          uid;
	/* quota of the user, in accounting->quotas; accounting_set_quotas() sets it anew */
	const struct quota *quota;
	unsigned       charges;         /* number of the user's charges; the account is freed with the last of them */
	uint64_t       used[RESOURCES]; /* amount of each resource that the user holds */
	struct tracked  tracked;
	UT_hash_handle hh;
};

/* The capacity of a resource for all users together. */
struct capacity {
	uint64_t all;  /* amount that all users together may hold; 0: not known, and shares do not apply */
	uint64_t used; /* amount that all users together hold */
};

struct accounting {
	struct account *accounts; /* hash table of all accounts, by uid */
	struct quotas   quotas;
	struct capacity capacity[RESOURCES];
	uid_t           own;       /* uid of the broker's process */
	/* objects that the status file shows, such as accounts; NULL: no status file shows them */
	struct tracking *tracking;
};

/*
 * An amount of a resource that is charged to a user. All zeroes: nothing is charged. The user's account exists as long
 * as the charge.
 */
struct charge {
	struct account *account;
	enum resource   resource;
	uint64_t        amount;
};

/* Sets the default quota: no limits, except of greetings, one-time tickets and waits. */
void quota_init(struct quota *quota);

/* Returns the resource's name in configuration and status: "bytes", "buffers" and so on. */
const char *resource_key(enum resource resource);

void accounting_init(struct accounting *accounting);   /* all users have the quota of quota_init() */
void accounting_deinit(struct accounting *accounting); /* all charges must have been released */

/*
 * Replaces the quotas. The caller owns the array quotas->users, and keeps it until the quotas are replaced again. A
 * user that holds more than its new quota keeps what it holds and gets no more.
 */
void accounting_set_quotas(struct accounting *accounting, const struct quotas *quotas);

/* Sets the capacity of a resource for all users together, so that shares apply to it; 0: shares do not apply. */
void accounting_set_capacity(struct accounting *accounting, enum resource resource, uint64_t all);

/* Returns the quota of a user: its own entry, or the fallback. */
const struct quota *accounting_quota(const struct accounting *accounting, uid_t uid);

/* Calls each() for every user that has an account, with the amounts that the user holds. */
void accounting_each(const struct accounting *accounting,
		     void (*each)(void *context, uid_t uid, const uint64_t used[RESOURCES]), void *context);

/*
 * Charges the user with an amount, and sets *charge. Returns 0; -EDQUOT if the user's quota or share would be
 * exceeded; or -ENOMEM. On error *charge is untouched and the error message is set: it names the limit, what the user
 * holds and asks for, and who can raise the limit.
 */
int charge_take(struct charge *charge, struct accounting *accounting, uid_t uid, enum resource resource,
		uint64_t amount);

/* Does what charge_take() does, but never sets the error message, so that an earlier one stays. */
int charge_try(struct charge *charge, struct accounting *accounting, uid_t uid, enum resource resource,
	       uint64_t amount);

/*
 * Charges the user with what it holds since the broker before this one: no quota or share is checked. Returns 0, or
 * -ENOMEM with the error message set.
 */
int charge_restore(struct charge *charge, struct accounting *accounting, uid_t uid, enum resource resource,
		   uint64_t amount);

/* Refunds the charge's amount, and empties the charge. Does nothing for an empty charge. */
void charge_release(struct charge *charge, struct accounting *accounting);

/* Returns how much of the resource the user holds now. */
uint64_t accounting_used(const struct accounting *accounting, uid_t uid, enum resource resource);

#endif
