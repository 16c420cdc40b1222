/* SPDX-License-Identifier: Apache-2.0 */
/* waking.c - see waking.h */
#include "waking.h"

#include "acquire.h"
#include "broker/base/context.h"
#include "lookup.h"
#include "name-waits.h"
#include "waiting.h"

/* largest number of requests answered in one call, so that others are not delayed (invariant 5) */
#define WAKES 16

static void answer(const struct name_woken *woken)
{
	if (woken->is_newer)
		lookup_tell_newer(woken->session, woken->request, &woken->newer);
	else
		acquire_waited(woken->session, woken->request, &woken->acquire, woken->since);
}

static void answer_some(struct broker *broker, const char *name)
{
	struct name_woken woken;

	for (int i = 0; i < WAKES && name_waits_take(broker, name, &woken); i++)
		if (woken.session)
			answer(&woken);
}

void waking_name(struct broker *broker, const char *name)
{
	name_waits_wake(broker, name);
	answer_some(broker, name);
}

bool waking_more(struct broker *broker)
{
	char name[NAME_SIZE];

	if (name_waits_next(broker, name))
		answer_some(broker, name);
	return broker->waiting->waking;
}
