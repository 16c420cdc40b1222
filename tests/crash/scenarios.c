/* SPDX-License-Identifier: Apache-2.0 */
/* scenarios.c - see scenarios.h */
#include "scenarios.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "balance.h"

#define NEARLY_ALL (BALANCE_MEMORY - 65536)
#define LONG_MS    20000
#define SHORT_MS   30

struct broker_process broker;
struct puppet other;

/* A step of the victim and its result; the scenario ends where it does not get that far, or a name was lost. */
#define VICTIM(expected, ...)                                                       \
	do {                                                                        \
		if (!victim_does((expected), (struct order){ .run = __VA_ARGS__ })) \
			return;                                                     \
	} while (0)

/* Waits for the condition, or for the end of the victim, which ends the scenario; or for its step, if names may go. */
#define VICTIM_UNTIL(condition)                                            \
	do {                                                               \
		if (!SOON((condition) || victim_fate() != VICTIM_LIVES ||  \
			  (names_may_go && victim_answered())))            \
			bail_out("it never comes to this: " #condition);   \
		if (victim_fate() != VICTIM_LIVES)                         \
			return;                                            \
	} while (0)

void other_tries(struct order order)
{
	puppet_tell(&other, order);
	puppet_receive(&other);
}

/* Returns false if a name was lost. */
static bool other_does(int expected, struct order order)
{
	puppet_tell(&other, order);
	if (puppet_receive(&other) == expected)
		return true;
	if (!name_is_lost(other.last.result, expected))
		bail_out("the other client's step gave %d instead of %d: %s", other.last.result, expected,
			 other.last.text);
	return false;
}

/* A step of the other and its result; the scenario ends where a name was lost. */
#define OTHER(expected, ...)                                                       \
	do {                                                                       \
		if (!other_does((expected), (struct order){ .run = __VA_ARGS__ })) \
			return;                                                    \
	} while (0)

void other_start(void)
{
	puppet_start(&other, &broker);
	OTHER(0, do_stream);
}

void other_lets_go(void)
{
	for (int slot = 0; slot < SLOTS; slot++)
		ask(&other, do_return, .slot = slot);
	OTHER(0, do_trim);
}

/* The victim may hold all memory, or be queued for it: then another is refused, and at once. */
void other_goes_on(void)
{
	int created = ask(&other, do_create, .name = "aside");

	if (created == -ENOMEM)
		return;
	if (created)
		bail_out("the other client cannot create: %s", other.last.text);
	OTHER(0, do_acquire, .name = "aside", .slot = SLOTS - 2);
	OTHER(0, do_write, .slot = SLOTS - 2, .value = 1);
	OTHER(0, do_return, .slot = SLOTS - 2);
	/* not trimmed: that may have to wait for a stream that waits for the victim */
	OTHER(0, do_unlink, .name = "aside");
}

/* ---- one buffer's life ---- */

static void play_life(void)
{
	VICTIM(0, do_connect);
	VICTIM(0, do_create, .name = "life", .size = NEARLY_ALL);
	VICTIM(-EEXIST, do_create, .name = "life");
	VICTIM(0, do_acquire, .name = "life");
	VICTIM(-ENOENT, do_acquire, .name = "none", .slot = 1);
	VICTIM(0, do_write, .value = 42);
	VICTIM(0, do_return);
	VICTIM(0, do_renew);
	VICTIM(0, do_trim); /* it is held */
	VICTIM(0, do_return);
	VICTIM(0, do_trim);
	VICTIM(0, do_renew); /* by name */
	VICTIM(0, do_unlink, .name = "life");
	VICTIM(0, do_return);
}

/* ---- its name goes while it is mapped ---- */

static void play_unlinked(void)
{
	OTHER(0, do_create, .name = "gone", .size = NEARLY_ALL);
	OTHER(0, do_acquire, .name = "gone");
	VICTIM(0, do_connect);
	VICTIM(0, do_acquire, .name = "gone");
	VICTIM(0, do_write, .value = 7);
	VICTIM(0, do_return);
	OTHER(0, do_unlink, .name = "gone");
	VICTIM(-ENOENT, do_acquire, .name = "gone", .slot = 1);
	OTHER(0, do_read);
	OTHER(0, do_return);
	OTHER(0, do_trim);
	VICTIM(0, do_create, .name = "gone");
	VICTIM(0, do_acquire, .name = "gone");
	VICTIM(0, do_trim);
}

/* ---- a name to come ---- */

static void play_waits(void)
{
	VICTIM(0, do_connect);
	victim_begins((struct order){ .run = do_acquire, .name = "late", .timeout = LONG_MS });
	VICTIM_UNTIL(status_number(&broker, "waiting") == 1);
	OTHER(0, do_create, .name = "late", .size = NEARLY_ALL);
	if (!victim_finishes(0))
		return;
	VICTIM(0, do_write, .value = 9);
	VICTIM(-ETIMEDOUT, do_acquire, .name = "never", .slot = 1, .timeout = 1);
}

/* ---- memory to come ---- */

static void play_memory(void)
{
	OTHER(0, do_create, .name = "most", .size = NEARLY_ALL / 4 * 3);
	VICTIM(0, do_connect);
	VICTIM(0, do_create, .name = "own", .size = 65536);
	VICTIM(0, do_acquire, .name = "own");
	VICTIM(0, do_return);
	victim_begins((struct order){ .run = do_create, .name = "more", .size = NEARLY_ALL / 2, .timeout = LONG_MS });
	VICTIM_UNTIL(status_number(&broker, "waiting") == 1);
	OTHER(0, do_unlink, .name = "most");
	if (!victim_finishes(0))
		return;
	VICTIM(0, do_acquire, .name = "more");
	VICTIM(-ENOMEM, do_create, .name = "much", .size = NEARLY_ALL);
}

/* ---- timelines ---- */

/* Whether the other got as far as to wait for the writer. Then it goes on, and learns what became of the writer. */
static bool followed;

static void play_writer(void)
{
	followed = false;
	VICTIM(0, do_connect);
	VICTIM(0, do_create, .name = "line", .flags = GPUB_TIMELINE);
	VICTIM(0, do_acquire, .name = "line");
	VICTIM(0, do_stream);
	/* which may not signal: the timeline ends without another writer */
	OTHER(0, do_acquire, .name = "line", .rights = GPUB_READ);
	OTHER(0, do_wait, .value = 3);
	followed = true;
	VICTIM(0, do_signal, .value = 1);
	VICTIM(0, do_signal, .value = 2);
	VICTIM(0, do_sync);
	VICTIM(0, do_return);
}

static void after_writer(void)
{
	int error;

	if (!followed)
		return;
	OTHER(0, do_sync);
	error = ask(&other, do_timeline);
	if (error != -EOWNERDEAD && (error || other.last.value > 2))
		bail_out("the timeline of a writer that is gone says %d, %llu", error,
			 (unsigned long long)other.last.value);
}

static void play_reader(void)
{
	OTHER(0, do_create, .name = "read", .flags = GPUB_TIMELINE);
	OTHER(0, do_acquire, .name = "read");
	VICTIM(0, do_connect);
	VICTIM(0, do_acquire, .name = "read");
	VICTIM(0, do_stream);
	VICTIM(0, do_wait, .value = 1);
	VICTIM(0, do_return_on);
	OTHER(0, do_signal, .value = 1);
	VICTIM(0, do_sync);
	VICTIM(0, do_acquire, .name = "read");
	VICTIM(0, do_timeline);
}

/* ---- a return in stream order ---- */

static void play_return_on(void)
{
	VICTIM(0, do_connect);
	VICTIM(0, do_create, .name = "on", .size = NEARLY_ALL);
	VICTIM(0, do_acquire, .name = "on");
	VICTIM(0, do_stream);
	VICTIM(0, do_late_write, .value = 3, .timeout = 5);
	VICTIM(0, do_return_on);
	VICTIM(0, do_unlink, .name = "on");
	VICTIM(0, do_trim); /* behind the kernel */
}

/* ---- forks ---- */

static void play_fork(void)
{
	VICTIM(0, do_connect);
	VICTIM(0, do_create, .name = "fork");
	VICTIM(0, do_acquire, .name = "fork");
	VICTIM(0, do_fork);
	VICTIM(0, do_write, .value = 4);
	VICTIM(0, do_return);
	VICTIM(0, do_fork);
}

/* ---- a thread that closes ---- */

static void play_closer(void)
{
	OTHER(0, do_create, .name = "back", .size = NEARLY_ALL);
	VICTIM(0, do_connect);
	VICTIM(0, do_flags, .flags = GPUB_BACKGROUND_CLOSE);
	VICTIM(0, do_acquire, .name = "back");
	OTHER(0, do_unlink, .name = "back");
	VICTIM(0, do_write, .value = 5);
	VICTIM_UNTIL(status_buffers(&broker, "back", "draining") == 1); /* the status file has caught up */
	VICTIM(0, do_return);
	VICTIM_UNTIL(!status_buffers(&broker, "back", NULL));
}

/* ---- a buffer that goes with its creator ---- */

static bool shared;

static void play_ephemeral(void)
{
	shared = false;
	VICTIM(0, do_connect);
	VICTIM(0, do_create, .name = "brief", .flags = GPUB_EPHEMERAL, .size = NEARLY_ALL);
	/* it may have died since it was answered, and the buffer with it */
	if (ask(&other, do_acquire, .name = "brief") == -ENOENT &&
	    (name_is_lost(-ENOENT, 0) || SOON(victim_fate() != VICTIM_LIVES)))
		return;
	if (other.last.result)
		bail_out("the other client cannot acquire: %s", other.last.text);
	shared = true;
	VICTIM(0, do_acquire, .name = "brief");
	VICTIM(0, do_write, .value = 6);
	OTHER(0, do_read);
	VICTIM(0, do_return);
}

static void after_ephemeral(void)
{
	if (shared)
		OTHER(0, do_write, .value = 8); /* what it holds stays */
}

/* ---- several threads, several leases ---- */

#define THREADS 4
#define TURNS   12

static void *take_turns(void *argument)
{
	const char *name = (uintptr_t)argument % 2 ? "odd" : "even";
	gpub_lease mine, more;
	int error = 0;

	for (int turn = 0; turn < TURNS && !error; turn++) {
		error = gpub_acquire(client, name, GPUB_READ, 0, &mine);
		if (error)
			break;
		error = gpub_acquire(client, name, GPUB_READ, 0, &more);
		if (!error)
			error = gpub_return(&more);
		if (gpub_return(&mine))
			error = -EIO;
		if (turn % 4 == 3)
			gpub_trim(client);
	}
	return (void *)(intptr_t)error;
}

static int do_threads(const struct order *order)
{
	pthread_t thread[THREADS];
	void *failed;
	int error = 0;

	(void)order;
	for (uintptr_t i = 0; i < THREADS; i++)
		if (pthread_create(&thread[i], NULL, take_turns, (void *)i))
			return -EAGAIN;
	for (int i = 0; i < THREADS; i++) {
		pthread_join(thread[i], &failed);
		error = failed ? (int)(intptr_t)failed : error;
	}
	return error;
}

static void play_threads(void)
{
	VICTIM(0, do_connect);
	VICTIM(0, do_create, .name = "odd", .size = 65536);
	VICTIM(0, do_create, .name = "even", .size = 65536);
	VICTIM(0, do_threads);
	VICTIM(0, do_acquire, .name = "odd", .slot = 0);
	VICTIM(0, do_acquire, .name = "odd", .slot = 1);
	VICTIM(0, do_acquire, .name = "even", .slot = 2);
	VICTIM(0, do_return, .slot = 1);
}

static pthread_t waiting_thread;

static void *wait_for_name(void *unused)
{
	gpub_lease never;

	(void)unused;
	gpub_acquire(client, "both", GPUB_READ, LONG_MS, &never);
	return NULL;
}

static int do_join_elsewhere(const struct order *order)
{
	(void)order;
	return -pthread_join(waiting_thread, NULL);
}

static int do_wait_elsewhere(const struct order *order)
{
	(void)order;
	return -pthread_create(&waiting_thread, NULL, wait_for_name, NULL);
}

/* Two threads want one name that is not there: the second waits for the first's request. */
static void play_joins(void)
{
	VICTIM(0, do_connect);
	VICTIM(0, do_wait_elsewhere);
	VICTIM_UNTIL(status_number(&broker, "waiting") == 1);
	VICTIM(-ETIMEDOUT, do_acquire, .name = "both", .timeout = SHORT_MS);
	OTHER(0, do_create, .name = "both");
	VICTIM(0, do_acquire, .name = "both", .timeout = LONG_MS);
	VICTIM(0, do_join_elsewhere);
}

/* ---- small buffers that share memory ---- */

#define SMALL 200

/* Not alone, as do_create() makes it. */
static int do_create_small(const struct order *order)
{
	gpub_spec spec = GPUB_SPEC_INIT;

	spec.size = SMALL;
	return gpub_create(client, order->name, &spec);
}

/* One of two is let go of while the other is held, and its place serves a third. */
static void play_slab(void)
{
	OTHER(0, do_create_small, .name = "one");
	OTHER(0, do_create_small, .name = "two");
	VICTIM(0, do_connect);
	VICTIM(0, do_acquire, .name = "one", .slot = 0);
	VICTIM(0, do_acquire, .name = "two", .slot = 1); /* is mapped by then */
	VICTIM(0, do_write, .slot = 0, .value = 5);
	VICTIM(0, do_return, .slot = 0);
	OTHER(0, do_unlink, .name = "one");
	VICTIM(-ENOENT, do_acquire, .name = "one", .slot = 2); /* behind the notice */
	VICTIM(0, do_trim);
	VICTIM_UNTIL(!status_buffers(&broker, "one", NULL));
	OTHER(0, do_create_small, .name = "three");
	VICTIM(0, do_acquire, .name = "three", .slot = 0);
	OTHER(0, do_acquire, .name = "three");
	OTHER(0, do_read);
	if (other.last.value)
		bail_out("what serves anew is not zeros");
	VICTIM(0, do_stream);
	VICTIM(0, do_return_on, .slot = 0);
	OTHER(0, do_unlink, .name = "three");
	VICTIM(-ENOENT, do_acquire, .name = "three", .slot = 2);
	VICTIM(0, do_return, .slot = 1);
}

/* ---- many at once ---- */

static int do_many(const struct order *order)
{
	static const char *const names[] = { "many-1", "many-2", "many-3", "many-1" };

	return gpub_acquire_many(client, names, 4, GPUB_READ | GPUB_WRITE, order->timeout, lease);
}

static int do_create_many(const struct order *order)
{
	static const char *const names[] = { "many-1", "many-2", "many-3" };
	struct order one = *order;

	for (int i = 0; i < 3; i++) {
		snprintf(one.name, sizeof one.name, "%s", names[i]);
		do_create_small(&one); /* or it is there */
	}
	return 0;
}

static void play_many(void)
{
	OTHER(0, do_create_small, .name = "many-1");
	OTHER(0, do_create_small, .name = "many-2");
	VICTIM(0, do_connect);
	VICTIM(-ENOENT, do_many);
	victim_begins((struct order){ .run = do_many, .timeout = LONG_MS });
	VICTIM_UNTIL(status_number(&broker, "waiting") >= 1);
	OTHER(0, do_create, .name = "many-3", .size = NEARLY_ALL / 2);
	if (!victim_finishes(0))
		return;
	VICTIM(0, do_write, .slot = 2, .value = 9);
	for (int slot = 0; slot < 4; slot += 2)
		VICTIM(0, do_return, .slot = slot);
}

/* ---- versions under one name ---- */

static void play_published(void)
{
	OTHER(0, do_create, .name = "version", .size = NEARLY_ALL / 4);
	OTHER(0, do_create, .name = "version.unused");
	OTHER(0, do_acquire, .name = "version", .rights = GPUB_READ);
	VICTIM(0, do_connect);
	VICTIM(0, do_create, .name = "version.next", .flags = GPUB_EPHEMERAL, .size = NEARLY_ALL / 4);
	VICTIM(0, do_acquire, .name = "version.next", .rights = GPUB_READ);
	VICTIM(0, do_acquire, .name = "version.next", .rights = GPUB_WRITE, .slot = 1); /* asks for more rights */
	VICTIM(0, do_write, .slot = 1, .value = 6);
	VICTIM(0, do_return, .slot = 1);
	VICTIM(0, do_seal, .name = "version.next");
	VICTIM(-EROFS, do_acquire, .name = "version.next", .rights = GPUB_WRITE, .slot = 1);
	VICTIM(0, do_rename, .name = "version.next version.unused", .flags = GPUB_REPLACE); /* whom nobody is told of */
	VICTIM(0, do_rename, .name = "version.unused version", .flags = GPUB_REPLACE | GPUB_PERSIST);
	OTHER(0, do_acquire, .name = "version", .rights = GPUB_READ, .slot = 1);
	OTHER(0, do_read, .slot = 1);
	if (other.last.value != 6)
		bail_out("the new version is not what was written");
	VICTIM(0, do_return);
	victim_begins((struct order){ .run = do_newer, .name = "version.later", .timeout = LONG_MS });
	VICTIM_UNTIL(status_number(&broker, "waiting") == 1);
	OTHER(0, do_rename, .name = "version version.later");
	victim_finishes(0);
}

/* ---- a buffer that grows ---- */

static void play_grows(void)
{
	VICTIM(0, do_connect);
	VICTIM(0, do_create, .name = "grow", .size = NEARLY_ALL / 8, .value = NEARLY_ALL);
	VICTIM(0, do_acquire, .name = "grow");
	VICTIM(0, do_acquire, .name = "grow", .rights = GPUB_READ, .slot = 1);
	OTHER(0, do_acquire, .name = "grow");
	VICTIM(0, do_resize, .name = "grow", .size = NEARLY_ALL / 8 + 1000);
	VICTIM(0, do_resize, .name = "grow", .size = NEARLY_ALL / 4);
	OTHER(0, do_acquire, .name = "grow", .slot = 1);
	VICTIM(0, do_acquire, .name = "grow", .slot = 2); /* which maps more */
	VICTIM(0, do_write, .slot = 2, .value = 6);
	OTHER(0, do_read, .slot = 1);
	if (other.last.value != 6)
		bail_out("what was written is not there");
	OTHER(0, do_create, .name = "large", .size = NEARLY_ALL / 4 * 3);
	victim_begins((struct order){ .run = do_resize, .name = "grow", .size = NEARLY_ALL / 2, .timeout = LONG_MS });
	VICTIM_UNTIL(status_number(&broker, "waiting") == 1);
	OTHER(0, do_unlink, .name = "large");
	if (!victim_finishes(0))
		return;
	VICTIM(0, do_acquire, .name = "grow", .slot = 3);
	for (int slot = 0; slot < 4; slot++)
		VICTIM(0, do_return, .slot = slot);
	OTHER(0, do_return);
	OTHER(0, do_return, .slot = 1);
	OTHER(0, do_trim);
	OTHER(0, do_stat, .name = "grow"); /* so the broker knows of the trim */
	VICTIM(0, do_resize, .name = "grow", .size = NEARLY_ALL / 8);
}

/* ---- a device that fails ---- */

static void play_failing(void)
{
	VICTIM(0, do_connect);
	VICTIM(0, do_create, .name = "fail", .size = NEARLY_ALL);
	VICTIM(-EMFILE, do_acquire, .name = "fail");
	VICTIM(0, do_acquire, .name = "fail");
	VICTIM(0, do_return);
	VICTIM(-EIO, do_trim);
	VICTIM(0, do_unlink, .name = "fail");
}

const struct scenario scenarios[SCENARIOS] = {
	{ "life", NULL, play_life, NULL, { 0 } },
	{ "unlinked", NULL, play_unlinked, NULL, { 0 } },
	{ "waits", NULL, play_waits, NULL, { .run = do_create, .name = "late" } },
	{ "memory", NULL, play_memory, NULL, { .run = do_unlink, .name = "most" } },
	{ "writer", NULL, play_writer, after_writer, { .run = do_unlink, .name = "line" } },
	{ "reader", NULL, play_reader, NULL, { .run = do_signal, .value = 1 } },
	{ "return-on", NULL, play_return_on, NULL, { 0 } },
	{ "fork", NULL, play_fork, NULL, { 0 } },
	{ "closer", NULL, play_closer, NULL, { 0 } },
	{ "ephemeral", NULL, play_ephemeral, after_ephemeral, { 0 } },
	{ "threads", NULL, play_threads, NULL, { 0 } },
	{ "joins", NULL, play_joins, NULL, { .run = do_create, .name = "both" } },
	{ "slab", NULL, play_slab, NULL, { 0 } },
	{ "many", NULL, play_many, NULL, { .run = do_create_many } },
	{ "published", NULL, play_published, NULL, { .run = do_create, .name = "version.later" } },
	{ "grows", NULL, play_grows, NULL, { .run = do_unlink, .name = "large" } },
	{ "failing", "open:1:EMFILE,close:1:EIO", play_failing, NULL, { 0 } },
};
