/* SPDX-License-Identifier: Apache-2.0 */
/*
 * accounting.h - what each user holds of the broker's resources, and what limits it: quotas and shares.
 *
 * Owns one account per uid that holds anything. A resource is charged before it is used; the charge object refunds it once,
 * when it is released. Knows nothing of what the resources are for.
 *
 * A quota limits one user. A share limits a user by what the others hold, where a resource has a capacity: a user may take
 * more only while at least as much stays free as it then holds. So a single user gets half, k users who all want as much as
 * possible converge to 1/(k + 1) each, and a new user always finds room. Root and the broker's own user may take all that is
 * free: an administrator must be able to work with a full broker.
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
	RESOURCE_TICKETS,   /* one-time tickets that wait to be redeemed */
	RESOURCE_GREETINGS, /* connections that have not sent HELLO */
	RESOURCE_WAITS,     /* acquires and NEWERs that wait for a name */
	RESOURCE_MAPPINGS,  /* places for sealed handles in the board: one a grant */
	RESOURCE_DESCRIPTORS, /* of the broker's process */
	RESOURCE_QUEUED,    /* bytes of messages that wait to be read */
	RESOURCES
};

#define QUOTA_NONE UINT64_MAX

/* What one user may hold, and how often it may ask. */
struct quota {
	uint64_t limit[RESOURCES];
	uint64_t requests; /* a second; after a second without requests so many at once */
};

struct user_quota {
	uid_t        uid;
	struct quota quota;
};

struct quotas {
	struct quota             fallback; /* of all users that are not listed */
	const struct user_quota *users;
	unsigned                 count;
};

/* What one user is charged with. */
struct account {
	uid_t          uid;
	const struct quota *quota; /* in the accounting's quotas; renewed by accounting_set_quotas() alone */
	unsigned       charges; /* an account goes with its last charge */
	uint64_t       used[RESOURCES];
	struct tracked  tracked;
	UT_hash_handle hh;
};

/* What there is for all users together, and what they have of it. */
struct capacity {
	uint64_t all; /* 0: not known, and shares do not apply */
	uint64_t used;
};

struct accounting {
	struct account *accounts; /* by uid */
	struct quotas   quotas;
	struct capacity capacity[RESOURCES];
	uid_t           own; /* the broker's */
	struct tracking *tracking; /* where accounts are shown; NULL: nowhere */
};

/* Zeroed, it is empty. Holds a reference on its account. */
struct charge {
	struct account *account;
	enum resource   resource;
	uint64_t        amount;
};

/* No limits, except of greetings, one-time tickets and waits. */
void quota_init(struct quota *quota);

/* "bytes", "buffers" and so on: the resource's name in configuration and status. */
const char *resource_key(enum resource resource);

void accounting_init(struct accounting *accounting); /* quota_init() for everybody */
void accounting_deinit(struct accounting *accounting); /* all charges must have been released */

/*
 * Replaces the quotas; the users' table stays the caller's and must outlive its use here. A user that holds more than its
 * new quota keeps it and gets no more.
 */
void accounting_set_quotas(struct accounting *accounting, const struct quotas *quotas);

/* Sets the capacity for all users together, so that shares apply from now on; 0: they do not. */
void accounting_set_capacity(struct accounting *accounting, enum resource resource, uint64_t all);

const struct quota *accounting_quota(const struct accounting *accounting, uid_t uid);

/* Calls each for every user who holds anything. */
void accounting_each(const struct accounting *accounting,
		     void (*each)(void *context, uid_t uid, const uint64_t used[RESOURCES]), void *context);

/*
 * Charges the user. -EDQUOT with a message that names the quota or the share, how large it is, what the user
 * holds and asks for, and who can change it; *charge is untouched then. -ENOMEM.
 */
int charge_take(struct charge *charge, struct accounting *accounting, uid_t uid, enum resource resource,
		uint64_t amount);

/* The same without the message, for what happens in the middle of something that may have its own. */
int charge_try(struct charge *charge, struct accounting *accounting, uid_t uid, enum resource resource,
	       uint64_t amount);

/* Refunds it; an empty charge is fine. The charge is empty afterwards. */
void charge_release(struct charge *charge, struct accounting *accounting);

/* What the user is charged with now. */
uint64_t accounting_used(const struct accounting *accounting, uid_t uid, enum resource resource);

#endif
