/* SPDX-License-Identifier: Apache-2.0 */
/* drain.c - see drain.h */
#include "drain.h"

#include <stdbool.h>
#include <stdio.h>

#include "broker/base/context.h"
#include "broker/base/log.h"
#include "broker/base/process-start.h"
#include "broker/memory/allocation.h"
#include "broker/memory/jobs.h"
#include "broker/registry/registry.h"
#include "broker/session/session.h"
#include "broker/status/status.h"
#include "common/size.h"

#define LINES_MAX 16 /* largest number of processes that one report names */
#define WHAT_MAX  256

/* ---- one process ---- */

/* The reason why a session's memory is still in use. */
enum cause {
	CAUSE_MAPS,     /* the process lives, and maps memory */
	CAUSE_STOPPED,  /* the process lives, maps memory, and is stopped by a signal */
	CAUSE_FORKED,   /* the process is dead, and a process that it forked keeps the socket open */
	CAUSE_DEVICE,   /* the process is dead, and the driver has not torn down its work on the device */
	CAUSE_UNPROVEN  /* the process is dead, and no device can tell whether its work was torn down */
};

static enum cause cause_of(const struct session *session)
{
	char letter;

	if (session->proof.state == PROOF_IMPOSSIBLE)
		return CAUSE_UNPROVEN;
	if (session->proof.state == PROOF_ASKING)
		return CAUSE_DEVICE;
	if (session->place.dead)
		return CAUSE_FORKED;
	if (process_start((uint64_t)session->pid, &letter) && (letter == 'T' || letter == 't'))
		return CAUSE_STOPPED;
	return CAUSE_MAPS;
}

/* Returns the name of one buffer that the session uses; "" if the session uses none. */
static const char *a_buffer(const struct session *session)
{
	const struct mapping *mapping;

	for (mapping = session->mappings.by_id; mapping; mapping = mapping->hh.next)
		if (mapping->grants)
			return mapping->grants->buffer->name;
	return "";
}

/* Formats what the session maps: "2 buffers, 'heat/u/0' among them (64 MiB)". */
static void describe_memory(const struct session *session, char text[WHAT_MAX])
{
	const char *name = a_buffer(session);
	unsigned used = session->mappings.grant_count;
	char bytes[SIZE_TEXT_MAX];

	size_format(session->mappings.bytes, bytes);
	if (used == 1 && *name)
		snprintf(text, WHAT_MAX, "'%s' (%s)", name, bytes);
	else if (used && *name)
		snprintf(text, WHAT_MAX, "%u buffers, '%s' among them (%s)", used, name, bytes);
	else
		snprintf(text, WHAT_MAX, "%s", bytes);
}

static void say_session(const struct session *session, enum cause cause, unsigned seconds)
{
	char what[WHAT_MAX];

	describe_memory(session, what);
	switch (cause) {
	case CAUSE_MAPS:
		log_say("waiting for %u s: pid %d (%s, uid %u) still maps %s: end it (kill %d), or interrupt "
			"broker-run to leave its memory to the driver",
			seconds, session->pid, session->command, session->who.uid, what, session->pid);
		break;
	case CAUSE_STOPPED:
		log_say("waiting for %u s: pid %d (%s, uid %u) still maps %s, and is stopped by a signal: let it go on "
			"(kill -CONT %d), or end it (kill -KILL %d)",
			seconds, session->pid, session->command, session->who.uid, what, session->pid, session->pid);
		break;
	case CAUSE_FORKED:
		log_say("waiting for %u s: pid %d (%s) has ended, and a process that it forked still has its "
			"connection, and may map %s: end that one, or interrupt broker-run",
			seconds, session->pid, session->command, what);
		break;
	case CAUSE_DEVICE:
		log_say("waiting for %u s: pid %d (%s) has ended, and the driver still tears down its work on %s: "
			"there is nothing to do; nvidia-smi lists it until then",
			seconds, session->pid, session->command, what);
		break;
	case CAUSE_UNPROVEN:
		log_say("waiting for %u s: pid %d (%s) ended under MPS, and without NVML nobody can tell whether its "
			"work on %s has ended: interrupt broker-run to leave that memory to the driver",
			seconds, session->pid, session->command, what);
		break;
	}
}

/* ---- all processes ---- */

/* Returns a hash of the sessions that are waited for, with the cause, the number of grants and the bytes of each. */
static uint64_t number_of_all(const struct broker *broker)
{
	const struct session *session;
	uint64_t number = 1;

	for (session = broker->sessions->by_id; session; session = session->hh.next)
		if (session->mappings.by_id)
			number = (((number * 31 + session->id) * 31 + cause_of(session)) * 31 +
				  session->mappings.grant_count) *
					 31 +
				 session->mappings.bytes;
	return number;
}

static void say_all(const struct broker *broker, unsigned seconds)
{
	const struct session *session;
	unsigned holders = 0;

	for (session = broker->sessions->by_id; session; session = session->hh.next)
		if (session->mappings.by_id && holders++ < LINES_MAX)
			say_session(session, cause_of(session), seconds);
	if (holders > LINES_MAX)
		log_say("and for %u more processes: see broker-status", holders - LINES_MAX);
	if (!holders)
		log_say("waiting for %u s: the device frees memory, which waits for kernels that still run", seconds);
}

void drain_report(struct drain_report *report, const struct broker *broker, unsigned seconds)
{
	uint64_t number = number_of_all(broker);

	report->seconds += seconds;
	if (number == report->said && report->seconds < report->next)
		return;
	say_all(broker, report->seconds);
	report->said = number;
	report->next = 2 * report->seconds;
}
