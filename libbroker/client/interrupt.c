/* SPDX-License-Identifier: Apache-2.0 */
/* interrupt.c - see interrupt.h */
#include "interrupt.h"

#include <errno.h>
#include <stddef.h>

#include "clock.h"
#include "common/error.h"

static _Thread_local struct interrupt mine;

int gpub_set_interrupt(gpub_interrupt *check, void *context)
{
	mine = (struct interrupt){ check, context };
	return 0;
}

struct interrupt interrupt_take(void)
{
	struct interrupt taken = mine;

	mine = (struct interrupt){ 0 };
	return taken;
}

void interrupt_restore(const struct interrupt *taken)
{
	mine = *taken;
}

bool interrupt_is_set(void)
{
	return mine.check != NULL;
}

static bool is_before(const struct timespec *a, const struct timespec *b)
{
	return a->tv_sec < b->tv_sec || (a->tv_sec == b->tv_sec && a->tv_nsec < b->tv_nsec);
}

const struct timespec *interrupt_part(const struct timespec *deadline, struct timespec *part)
{
	if (!mine.check)
		return deadline;
	*part = client_deadline(INTERRUPT_MS);
	return deadline && is_before(deadline, part) ? deadline : part;
}

int interrupt_refuse(void)
{
	return error_set(-EINTR, "the call was interrupted, as the function of gpub_set_interrupt() said");
}

int interrupt_ask(void)
{
	HOLD_INTERRUPT();
	const struct interrupt *asked = &interrupt_taken;

	return asked->check && asked->check(asked->context) ? interrupt_refuse() : 0;
}

int interrupt_ask_now_and_then(struct timespec *next)
{
	if (!next->tv_sec)
		*next = client_deadline(INTERRUPT_MS);
	if (!client_past(next))
		return 0;
	*next = client_deadline(INTERRUPT_MS);
	return interrupt_ask();
}
