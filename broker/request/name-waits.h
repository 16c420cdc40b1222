/* SPDX-License-Identifier: Apache-2.0 */
/*
 * name-waits.h - acquires that wait until a buffer has their name, and questions for a newer buffer of a name (NEWER).
 *
 * Owns the waits by name. Answers none: waking.c takes those whose name has come.
 */
#ifndef GPUB_NAME_WAITS_H
#define GPUB_NAME_WAITS_H

#include <stdbool.h>
#include <stdint.h>

#include "common/wire.h"

struct broker;
struct session;

/*
 * Keeps an acquire until its name appears; refuses it with -ETIMEDOUT after acquire->timeout_ms. -EDQUOT: the session,
 * or its user, has too many waits already. -ENOMEM.
 */
int name_wait_acquire(struct broker *broker, uint64_t session, uint64_t request, const struct wire_acquire *acquire);

/* Keeps the question until another buffer has the name, by a create, a rename or a resize. Errors as above. */
int name_wait_newer(struct broker *broker, uint64_t session, uint64_t request, const struct wire_newer *newer);

/* A wait that is to be answered, and is gone. */
struct name_woken {
	struct session *session; /* NULL: it is gone, or nothing is sent to it any more */
	uint64_t        request;
	uint64_t        since; /* when the request came: now_ns(CLOCK_MONOTONIC) */
	bool            is_newer;
	union {
		struct wire_acquire acquire;
		struct wire_newer   newer; /* is_newer */
	};
};

/* Another buffer is LIVE under the name: all who wait for it now are to be answered. */
void name_waits_wake(struct broker *broker, const char *name);

/* Takes the oldest wait for the name that is to be answered. False: there is none. */
bool name_waits_take(struct broker *broker, const char *name, struct name_woken *woken);

/*
 * Says of which name waits are to be answered next. Of several names each gets its turn. False: of none now; the waits
 * for a name that no buffer has any more wait for the next one.
 */
bool name_waits_next(struct broker *broker, char name[NAME_SIZE]);

#endif
