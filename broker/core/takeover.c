/* SPDX-License-Identifier: Apache-2.0 */
/* takeover.c - see takeover.h */
#include "takeover.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <unistd.h>

#include "broker/base/context.h"
#include "broker/base/events.h"
#include "broker/base/log.h"
#include "broker/keeper/keeper.h"
#include "broker/status/status.h"
#include "devices.h"
#include "common/crash-point.h"
#include "common/error.h"
#include "common/now.h"
#include "load.h"

#define ALIVE_SECONDS 5 /* the watchdog waits WATCHDOG_LOOKS times WATCHDOG_LOOK_MS */
#define BEGIN_FENCE 3 /* number of the fence at the begin; those of keep.h and inherited.h are 1 and 2 */

/* ---- the begin ---- */

static void drop(void *context, uint64_t key, int fd)
{
	struct takeover *takeover = context;

	(void)fd;
	(void)line_drop(&takeover->line, key);
}

/*
 * Closes what is kept here and at the keeper, and waits until the keeper has closed it, so that no lock of a file is
 * held any more.
 */
static int discard_kept(struct takeover *takeover)
{
	int fence;

	kept_each(takeover->from->kept, drop, takeover);
	kept_clear(takeover->from->kept);
	fence = keep_fence(&takeover->line, BEGIN_FENCE);
	if (fence < 0)
		return fence;
	poll(&(struct pollfd){ .fd = fence, .events = POLLIN }, 1, -1);
	close(fence);
	return 0;
}

void takeover_mark(const struct broker *broker)
{
	const struct takeover *takeover = broker->takeover;

	if (takeover->from)
		watchdog_begin_pass(takeover->from->marks);
}

static void on_alive(evutil_socket_t fd, short what, void *argument)
{
	(void)fd;
	(void)what;
	(void)argument; /* the pass after this one marks */
}

static int alive_begin(struct broker *broker)
{
	static const struct timeval interval = { .tv_sec = ALIVE_SECONDS };
	struct takeover *takeover = broker->takeover;

	takeover->alive = event_new(broker->base, -1, EV_PERSIST, on_alive, NULL);
	if (takeover->alive && !event_add(takeover->alive, &interval))
		return 0;
	return error_set(-ENOMEM, "the broker is out of memory");
}

int takeover_begin(struct broker *broker, struct keeper_end *from)
{
	struct takeover *takeover = broker->takeover;
	int error;

	if (!from)
		return 0;
	takeover->keep.fence = -1;
	error = line_open(&takeover->line, broker->base, from->line);
	if (error)
		return error;
	takeover->from = from;
	takeover->inherited.kept = from->kept;
	takeover->goes_on = kept_find(from->kept, keep_key(KEPT_LEDGER, KEPT_ONLY)) >= 0;
	error = alive_begin(broker);
	if (takeover->goes_on)
		CRASH_POINT(takeover_begun);
	else if (!error && kept_count(from->kept))
		error = discard_kept(takeover);
	if (error)
		takeover_end(broker);
	return error;
}

void takeover_end(struct broker *broker)
{
	struct takeover *takeover = broker->takeover;

	if (!takeover->from)
		return;
	if (takeover->alive)
		event_free(takeover->alive);
	inherited_forget(&takeover->inherited);
	(void)line_flush_wait(&takeover->line);
	line_close(&takeover->line);
	takeover->from = NULL;
}

int takeover_take(struct broker *broker, enum kept_kind kind)
{
	struct takeover *takeover = broker->takeover;

	return takeover->from ? kept_take(takeover->from->kept, keep_key(kind, KEPT_ONLY)) : -1;
}

void takeover_put(struct broker *broker, enum kept_kind kind, int fd)
{
	struct takeover *takeover = broker->takeover;

	if (takeover->from && line_put(&takeover->line, keep_key(kind, KEPT_ONLY), fd))
		log_line("the next broker will lack a descriptor: %s", error_text());
}

/* ---- the devices ---- */

static int join_or_start(struct broker *broker, const struct owner_setup *setup)
{
	int sock = takeover_take(broker, KEPT_OWNER);
	uint64_t number = broker->takeover->from->number;
	int error = sock < 0 ? -ECONNRESET : devices_join(broker, sock, number, setup);

	if (!error)
		CRASH_POINT(takeover_joined);
	return error == -ECONNRESET ? devices_start_empty(broker, number, setup) : error;
}

int takeover_devices(struct broker *broker, const struct owner_setup *setup)
{
	struct takeover *takeover = broker->takeover;
	int error;

	if (!takeover->from)
		return devices_start(broker, setup);
	watchdog_end_pass(takeover->from->marks); /* devices may take long to start */
	error = takeover->goes_on ? join_or_start(broker, setup) : devices_start(broker, setup);
	takeover_mark(broker);
	return error;
}

/* ---- the ledger ---- */

/* Begins to note what this broker does: in the ledger of the broker before this one, or in one of its own (-1). */
static int note(struct broker *broker, int ledger)
{
	struct takeover *takeover = broker->takeover;
	int error = ledger < 0 ? note_begin(broker, &takeover->note) : note_go_on(broker, &takeover->note, ledger);

	if (error)
		return error;
	error = keep_begin(broker, &takeover->keep, &takeover->line);
	if (error)
		note_end(broker, &takeover->note);
	else
		takeover->note.keep = &takeover->keep;
	return error;
}

/* Has the keeper keep this broker's ledger for the next one, in place of the last broker's. */
static int hand_over(struct broker *broker)
{
	struct takeover *takeover = broker->takeover;

	takeover_put(broker, KEPT_LEDGER, ledger_fd(&takeover->note.ledger));
	return line_flush_wait(&takeover->line);
}

/* Loads what the broker before this one has noted, and notes what came of it. */
static int load(struct broker *broker, int ledger)
{
	struct takeover *takeover = broker->takeover;
	struct kept_descriptors kept = inherited_descriptors(&takeover->inherited);
	struct loaded loaded = { 0 };
	int error = load_ledger(broker, ledger, &kept, &loaded);

	inherited_loaded(&takeover->inherited, &takeover->keep);
	takeover->objects = loaded.objects;
	CRASH_POINT(takeover_loaded);
	if (!error)
		error = note_loaded(broker, &takeover->note, loaded.damaged);
	CRASH_POINT(takeover_noted);
	if (error > 0)
		error = hand_over(broker);
	CRASH_POINT(takeover_counts);
	inherited_close(&takeover->inherited, &takeover->keep);
	return error;
}

/* Goes on with the objects of the broker before this one, or begins without any. */
static int note_and_load(struct broker *broker)
{
	int ledger = takeover_take(broker, KEPT_LEDGER), error = note(broker, ledger);

	if (!error && ledger >= 0) {
		error = load(broker, ledger);
	} else if (!error) {
		takeover_note(broker);
		error = hand_over(broker);
	}
	if (ledger >= 0)
		close(ledger);
	return error;
}

/* Has the status file show this process, and what has become of the brokers before it. */
static void show(struct broker *broker, uint64_t pause_us)
{
	const struct takeover *takeover = broker->takeover;
	const struct keeper_end *from = takeover->from;

	status_set_broker(broker, &(struct status_broker){ .how = from->last,
							   .pid = (uint64_t)getpid(),
							   .restarts = from->number - 1,
							   .cold_starts = from->counts.cold_starts,
							   .since = (uint64_t)now_ms(CLOCK_REALTIME),
							   .pause_us = pause_us,
							   .objects = takeover->objects });
}

static void tell(struct broker *broker)
{
	static const char *const ends[] = { [POLICY_FIRST] = "ended",
					    [POLICY_KILLED] = "was killed",
					    [POLICY_CRASHED] = "crashed",
					    [POLICY_WATCHDOG] = "hung",
					    [POLICY_UPGRADED] = "made way for gpubroker" };
	const struct takeover *takeover = broker->takeover;
	enum policy_how how = takeover->from->last;
	uint64_t death = takeover->from->death_ns, pause_us = death ? (now_ns(CLOCK_MONOTONIC) - death) / 1000 : 0;
	char text[EVENT_TEXT_MAX];

	show(broker, pause_us);
	if (takeover->from->number == 1)
		return;
	snprintf(text, sizeof text, "a broker %s%s: process %d goes on with %s%u objects, after %.1f ms",
		 ends[how], how == POLICY_UPGRADED ? " " PACKAGE_VERSION : "", (int)getpid(),
		 takeover->goes_on ? "its " : "", takeover->objects, (double)pause_us / 1000);
	event_happened(broker, &(struct broker_event){ .kind = EVENT_BROKER_REPLACED, .text = text });
}

static bool has_crashed(enum policy_how how)
{
	return how == POLICY_CRASHED || how == POLICY_WATCHDOG;
}

int takeover_go_on(struct broker *broker)
{
	struct takeover *takeover = broker->takeover;
	int error;

	if (!takeover->from)
		return 0;
	error = note_and_load(broker);
	if (!error && takeover->goes_on)
		error = load_resume(broker, has_crashed(takeover->from->last));
	if (!error)
		error = line_ready(&takeover->line);
	if (error)
		takeover_stop(broker);
	else
		tell(broker);
	return error;
}

void takeover_stop(struct broker *broker)
{
	struct takeover *takeover = broker->takeover;

	keep_end(&takeover->keep);
	takeover->note.keep = NULL;
	note_end(broker, &takeover->note);
}

void takeover_note(struct broker *broker)
{
	if (broker->note)
		note_commit(broker, broker->note);
}
