/* SPDX-License-Identifier: Apache-2.0 */
/*
 * doubled.c - what comes twice from the broker, as from the successor of one that died, changes nothing: many threads
 * of two clients create, acquire, renew, return, grow, rename, redeem, drain and unlink behind a proxy that repeats the
 * broker's messages (doubler.h). Each call has the same result as behind a proxy that repeats none, every mapping is
 * closed, and no descriptor is left.
 */
#include <dirent.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "client/call.h"
#include "client/manage.h"
#include "doubler.h"
#include "harness.h"

#define THREADS 8
#define ROUNDS  (test_slower() > 1 ? 6u : 24u)
#define MIB     (1u << 20)

static struct broker_process broker;
static struct puppet a, b;

/* ---- steps ---- */

static unsigned descriptors_before; /* open descriptors of this process before the connection behind the proxy */

static unsigned descriptors(void)
{
	DIR *directory = opendir("/proc/self/fd");
	unsigned count = 0;

	while (readdir(directory))
		count++;
	closedir(directory);
	return count;
}

/* flags: enum doubler_how. Connects once before, since the first connect opens what stays open. */
static int connect_through(const struct order *order)
{
	int error = gpub_connect(&client, NULL);

	if (error)
		return error;
	gpub_disconnect(client);
	descriptors_before = descriptors();
	return gpub_connect(&client, doubler_start(getenv("GPUBROKER"), (enum doubler_how)order->flags));
}

/* Whether each type of message that the work has the broker send came twice. */
static bool twice_of_all(const struct doubler_counts *counts, enum doubler_how how)
{
	static const enum wire_type types[] = { WIRE_DONE,    WIRE_INFO,   WIRE_GRANT, WIRE_NOTICE,
						WIRE_REFUSED, WIRE_TICKET, WIRE_PART,  WIRE_VIEW };
	/* few INQUIREs come, of which those runs may leave out all */
	bool all = how != DOUBLER_EACH || counts->types[WIRE_INQUIRE];

	all &= !tested_export()->by_descriptor || counts->types[WIRE_MEMORY];
	for (size_t i = 0; i < sizeof types / sizeof *types; i++)
		all &= counts->types[types[i]] > 0;
	return how == DOUBLER_PLAIN ? !counts->repeated : all;
}

/* flags: enum doubler_how. 0: every mapping was closed, no CLOSED was false, no descriptor is left. */
static int leave(const struct order *order)
{
	const struct doubler_counts *counts;
	unsigned left;

	gpub_stream_destroy(work);
	streams_forget();
	gpub_disconnect(client);
	counts = doubler_end();
	left = descriptors() - descriptors_before;
	printf("# %u messages, %u of them with a descriptor, came twice; %u mappings were closed again\n",
	       counts->repeated, counts->descriptors, counts->excess);
	fflush(stdout);
	if (counts->opened && counts->closed == counts->opened && !counts->false_ones && !left &&
	    twice_of_all(counts, (enum doubler_how)order->flags))
		return 0;
	fprintf(stderr, "# %u mappings, %u closed, %u closed again, %u false CLOSED; %d descriptors left\n",
		counts->opened, counts->closed, counts->excess, counts->false_ones, (int)left);
	return -EPROTO;
}

/* ---- the work ---- */

/* What one thread has done: a digest of all results, which depends on nothing but its calls. */
struct diary {
	unsigned number, listed;
	uint64_t digest;
	uint64_t word, size; /* of the buffer: the first word, and its bytes */
	int      error;  /* the first result that should not have been */
	int      line;   /* of the call that had it */
};

/* value: a call's result, or what it gave. */
static void expect_at(struct diary *diary, int line, int64_t value, int64_t wanted)
{
	diary->digest = (diary->digest ^ (uint64_t)value) * 0x100000001b3ull;
	if (value == wanted || diary->error)
		return;
	diary->error = value < 0 ? (int)value : -EPROTO;
	diary->line = line;
	fprintf(stderr, "# thread %u, line %d: %lld, not %lld: %s\n", diary->number, line, (long long)value,
		(long long)wanted, gpub_strerror_last());
}

#define EXPECT(value, wanted) expect_at(diary, __LINE__, (int64_t)(value), (int64_t)(wanted))

/* The first word is what was written last; writes another. */
static void touch(struct diary *diary, const gpub_lease *held, uint64_t value)
{
	uint64_t seen = 0;

	EXPECT(peek(held->ptr, &seen), 0);
	EXPECT(seen, diary->word);
	EXPECT(held->size, diary->size);
	EXPECT(poke(held->ptr, value), 0);
	diary->word = value;
}

static void acquire_and_return(struct diary *diary, const char *name, unsigned round)
{
	gpub_lease held;

	EXPECT(gpub_acquire(client, name, GPUB_READ | GPUB_WRITE, 0, &held), 0);
	touch(diary, &held, round + 1);
	EXPECT(gpub_return(&held), 0);
	EXPECT(gpub_renew(&held), 0);
	touch(diary, &held, round + 2);
	EXPECT(round % 3 ? gpub_return_on(&held, work) : gpub_return(&held), 0);
	EXPECT(gpub_return(&held), -ESTALE);
}

static void use_timeline(struct diary *diary, const char *name, unsigned round)
{
	uint64_t reached = 0;
	gpub_lease held;

	EXPECT(gpub_acquire(client, name, GPUB_READ | GPUB_WRITE, 0, &held), 0);
	EXPECT(gpub_signal_on(&held, round + 1, work), 0);
	EXPECT(gpub_wait_on(&held, round + 1, work), 0);
	EXPECT(gpub_timeline_wait(&held, round + 1, 5000, &reached), 0);
	EXPECT(reached, round + 1);
	EXPECT(gpub_return_on(&held, work), 0);
}

static void use_ticket(struct diary *diary, const char *name)
{
	char text[GPUB_TICKET_MAX];
	gpub_lease held;

	EXPECT(gpub_ticket_issue(client, name, GPUB_READ, NULL, text), 0);
	EXPECT(gpub_redeem(client, text, &held), 0);
	EXPECT(held.size, diary->size);
	EXPECT(gpub_return(&held), 0);
	EXPECT(gpub_redeem(client, text, &held), -EKEYREJECTED);
}

static int each(const gpub_info *info, void *context)
{
	struct diary *diary = context;

	EXPECT(info->size, diary->size);
	diary->listed++;
	return 0;
}

static void ask_about(struct diary *diary, const char *name)
{
	gpub_info info = { .struct_size = sizeof info };
	char pattern[16];
	gpub_lease held;

	EXPECT(gpub_stat(client, name, &info), 0);
	EXPECT(info.size, diary->size);
	EXPECT(gpub_wait_newer(client, name, 0, 0, &info), 0);
	EXPECT(gpub_chmod(client, name, 0600), 0);
	snprintf(pattern, sizeof pattern, "%.6s*", name);
	diary->listed = 0;
	EXPECT(gpub_list(client, pattern, each, diary), 0);
	EXPECT(diary->listed, 2);
	EXPECT(gpub_acquire(client, "absent", GPUB_READ, 0, &held), -ENOENT);
	EXPECT(gpub_acquire(client, "absent", GPUB_READ, 2, &held), -ETIMEDOUT);
	EXPECT(gpub_unlink(client, "absent"), -ENOENT);
}

/* Grows the buffer, which descriptors alone can: its chunks come in MEMORY messages. */
static void grow(struct diary *diary, const char *name, unsigned round)
{
	gpub_lease held;

	EXPECT(gpub_resize(client, name, 4 * MIB, 5000), 0);
	diary->size = 4 * MIB;
	EXPECT(gpub_acquire(client, name, GPUB_READ | GPUB_WRITE, 0, &held), 0);
	touch(diary, &held, round + 3);
	EXPECT(gpub_resize(client, name, 6 * MIB, 5000), 0);
	diary->size = 6 * MIB;
	EXPECT(gpub_return(&held), 0);
	acquire_and_return(diary, name, round);
}

static void acquire_both(struct diary *diary, const char *name, const char *other)
{
	const char *const names[] = { name, other };
	gpub_lease held[2];

	EXPECT(gpub_acquire_many(client, names, 2, GPUB_READ, 0, held), 0);
	EXPECT(gpub_return(&held[0]), 0);
	EXPECT(gpub_return(&held[1]), 0);
}

static void buffer_life(struct diary *diary, const char *name, const char *other, unsigned round)
{
	bool grows = tested_export()->growable && round % 4 == 1;
	gpub_spec spec = GPUB_SPEC_INIT;

	spec.size = grows ? 2 * MIB : round % 5 ? 4096u << round % 5 : 3 * MIB;
	spec.reserve = grows ? 8 * MIB : 0;
	spec.flags = (round % 2 ? 0 : GPUB_TIMELINE) | (round % 3 || grows ? 0 : GPUB_DEDICATED);
	diary->word = 0;
	diary->size = spec.size;
	EXPECT(gpub_create(client, name, &spec), 0);
	EXPECT(gpub_create(client, name, &spec), -EEXIST);
	spec.reserve = 0;
	EXPECT(gpub_create(client, other, &spec), 0);
	acquire_and_return(diary, name, round);
	acquire_both(diary, name, other);
	ask_about(diary, name);
	if (grows)
		grow(diary, name, round);
	use_ticket(diary, name);
	EXPECT(gpub_rename(client, name, other, GPUB_REPLACE), 0);
	acquire_and_return(diary, other, round);
	if (spec.flags & GPUB_TIMELINE)
		use_timeline(diary, other, round);
	if (round % 8 == 5)
		EXPECT(gpub_trim(client), 0);
	EXPECT(gpub_stream_sync(work), 0);
	EXPECT(round % 3 == 1 ? gpub_drain(client, other, 20000) : gpub_unlink(client, other), 0);
	EXPECT(gpub_unlink(client, other), -ENOENT);
}

static void *live(void *argument)
{
	struct diary *diary = argument;
	char name[16], other[16];

	for (unsigned round = 0; round < ROUNDS && !diary->error; round++) {
		snprintf(name, sizeof name, "%03d/%u/a", getpid() % 1000, diary->number);
		snprintf(other, sizeof other, "%03d/%u/b", getpid() % 1000, diary->number);
		buffer_life(diary, name, other, round);
	}
	return NULL;
}

/* Asks what all processes wait for, and for what this user may see, which no call of the public interface does. */
static int look_around(void)
{
	struct wire_message request, reply;
	bool all;
	int file, error;

	wire_init(&request, WIRE_REFRESH, 0);
	error = call_broker(client, &request, &reply, NULL, NULL);
	if (!error)
		error = client_snapshot(client, &file, &all);
	if (!error)
		close(file);
	return error;
}

static _Atomic int over;

/* Unlinks and creates a buffer that both clients use, and looks around. */
static void *churn(void *argument)
{
	gpub_spec spec = GPUB_SPEC_INIT;
	int *error = argument, result = 0;

	spec.size = 8192;
	spec.flags = GPUB_TIMELINE;
	while (!over && !*error) {
		result = gpub_create(client, "shared", &spec);
		*error = result == -EEXIST ? 0 : result;
		result = *error ? *error : look_around();
		*error = *error ? *error : result;
		result = *error ? *error : gpub_unlink(client, "shared");
		*error = result == -ENOENT ? 0 : result;
	}
	return NULL;
}

static void *hold(void *argument)
{
	int *error = argument;
	gpub_lease held;

	while (!over && !*error) {
		*error = gpub_acquire(client, "shared", GPUB_READ | GPUB_WRITE, 2, &held);
		if (*error == -ETIMEDOUT || *error == -ENOENT)
			*error = 0;
		else if (!*error)
			*error = gpub_return_on(&held, work);
		usleep(1000);
	}
	return NULL;
}

/* flags: GPUB_BACKGROUND_CLOSE or none. value: a digest of what all threads have seen. */
static int work_on(const struct order *order)
{
	struct diary diaries[THREADS] = { 0 };
	pthread_t thread[THREADS + 2];
	int error = gpub_set_flags(client, order->flags), aside[2] = { 0 };

	over = 0;
	for (unsigned i = 0; i < THREADS; i++) {
		diaries[i].number = i;
		if (pthread_create(&thread[i], NULL, live, &diaries[i]))
			return -EAGAIN;
	}
	if (pthread_create(&thread[THREADS], NULL, churn, &aside[0]) ||
	    pthread_create(&thread[THREADS + 1], NULL, hold, &aside[1]))
		return -EAGAIN;
	for (unsigned i = 0; i < THREADS; i++) {
		pthread_join(thread[i], NULL);
		error = error ? error : diaries[i].error;
		step_value = step_value * 31 + diaries[i].digest;
	}
	over = 1;
	for (unsigned i = 0; i < 2; i++) {
		pthread_join(thread[THREADS + i], NULL);
		error = error ? error : aside[i];
	}
	gpub_stream_sync(work);
	return error ? error : gpub_trim(client);
}

/* ---- the test ---- */

static void begin(struct puppet *puppet, enum doubler_how how)
{
	puppet_start_unconnected(puppet, &broker);
	if (ask(puppet, connect_through, .flags = how) || ask(puppet, do_stream))
		bail_out("no client behind the proxy: %s", puppet->last.text);
}

static void end(struct puppet *puppet, enum doubler_how how, const char *what)
{
	POINT(!ask(puppet, leave, .flags = how),
	      "invariant 2: %s: every mapping is closed, none too often, and no descriptor is left", what);
	puppet_kill(puppet);
}

/* Returns the digest of both clients' results. */
static uint64_t run(enum doubler_how how, unsigned flags, const char *what)
{
	uint64_t digest;

	broker_start(&broker, "host");
	begin(&a, how);
	begin(&b, how);
	tell(&a, work_on, .flags = flags);
	tell(&b, work_on, .flags = flags);
	POINT(!receive(&a), "%s: all calls of a client's threads have the result that they should have", what);
	digest = a.last.value;
	POINT(!receive(&b) && b.last.value == digest, "%s: and those of another client's, the same", what);
	end(&a, how, what);
	end(&b, how, what);
	POINT(SOON(!status_holders(&broker, NULL, 0)) && !status_counter(&broker, "sessions_cut") &&
		      !status_counter(&broker, "mappings_died"),
	      "%s: the broker has cut off nobody, and each mapping ended by its CLOSED", what);
	broker_end(&broker);
	return digest;
}

static void test_export(const char *name)
{
	uint64_t once;

	setenv("GPUBROKER_EXPORT", name, 1);
	printf("# export %s\n", name);
	once = run(DOUBLER_PLAIN, 0, "nothing twice");
	POINT(run(DOUBLER_EACH, 0, "each twice") == once, "each answer twice: the same results");
	POINT(run(DOUBLER_RUNS, 0, "runs twice") == once, "the last answers again: the same results");
	POINT(run(DOUBLER_RUNS, GPUB_BACKGROUND_CLOSE, "runs twice, background close") == once,
	      "the last answers again, with background close: the same results");
}

int main(void)
{
	const char *chosen = getenv("GPUBROKER_EXPORT");

	harness_begin("doubled", 120);
	if (chosen) {
		test_export(chosen);
	} else {
		test_export("ipc");
		test_export("vmm");
	}
	return harness_end();
}
