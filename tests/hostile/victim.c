/* SPDX-License-Identifier: Apache-2.0 */
/* victim.c - see victim.h */
#include "victim.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "arena.h"

#define PASSING      "victim/passing" /* made and unlinked all the time, full of canaries */
#define PASSING_SIZE (256u << 10)
#define PART         16384            /* bytes looked at in one beat */

static gpub_lease secret;

bool victim_owns(const char *name)
{
	return !strcmp(name, SECRET) || !strcmp(name, SECRET_2) || !strcmp(name, SHOWN) || !strcmp(name, PASSING);
}

/* ---- canaries ---- */

static void canary_fill(void *to, size_t size)
{
	for (size_t at = 0; at < size; at += CANARY_SIZE)
		memcpy((uint8_t *)to + at, stage->canary, CANARY_SIZE);
}

static bool canary_holds(const void *from, size_t size)
{
	const uint8_t *bytes = from;

	return !memcmp(bytes, stage->canary, CANARY_SIZE) && !memcmp(bytes, bytes + CANARY_SIZE, size - CANARY_SIZE);
}

/* ---- what it says when something is wrong ---- */

static void wronged(const char *what)
{
	if (!atomic_load(&stage->wronged))
		snprintf(stage->wrong, sizeof stage->wrong, "%s", what);
	atomic_store(&stage->wronged, true);
}

static void expect(const char *what, bool good)
{
	if (!good)
		wronged(what);
}

static void expect_done(const char *what, int error)
{
	char text[240];

	if (!error)
		return;
	snprintf(text, sizeof text, "%s: %d, %.150s", what, error, gpub_strerror_last());
	wronged(text);
}

/* Whether a call failed because the buffer's memory ended with its owner, and its name with it. */
static bool has_ended(int error)
{
	return atomic_load(&stage->names_end) && (error == -ENOENT || error == -ESTALE);
}

/* ---- round trips ---- */

static void trip_begin(void)
{
	atomic_store(&stage->began_us, now_us());
}

static void sample(uint32_t *samples, _Atomic unsigned *count, uint32_t took)
{
	unsigned at = atomic_load(count);

	if (at < SAMPLES)
		samples[at] = took;
	atomic_store(count, at + 1);
}

static uint32_t trip_end(void)
{
	uint32_t took = (uint32_t)(now_us() - atomic_load(&stage->began_us));

	atomic_store(&stage->began_us, 0);
	sample(stage->trip_us, &stage->trips, took);
	return took;
}

static int create(gpub_client *c, const char *name, uint64_t size, unsigned mode, unsigned flags)
{
	gpub_spec spec = GPUB_SPEC_INIT;
	int error;

	spec.size = size;
	spec.mode = mode;
	spec.flags = flags;
	trip_begin();
	error = gpub_create(c, name, &spec);
	trip_end();
	return error;
}

static int acquire(gpub_client *c, const char *name, gpub_lease *taken)
{
	int error;

	trip_begin();
	error = gpub_acquire(c, name, GPUB_READ | GPUB_WRITE, 0, taken);
	sample(stage->acquire_us, &stage->acquires, trip_end());
	return error;
}

/* ---- the work ---- */

static void make_and_fill(const char *name, unsigned mode, unsigned flags, bool with_canary, gpub_lease *taken)
{
	int error;

	do {
		expect_done("create", create(client, name, SECRET_SIZE, mode, flags));
		error = acquire(client, name, taken);
	} while (has_ended(error) && !atomic_load(&stage->wronged));
	expect_done("acquire", error);
	if (atomic_load(&stage->wronged))
		exit(1);
	if (with_canary)
		canary_fill(taken->ptr, SECRET_SIZE);
	else
		memset(taken->ptr, SHOWN_BYTE, SECRET_SIZE);
}

static void make_second_secret(void)
{
	gpub_lease other;

	make_and_fill(SECRET_2, 0600, 0, true, &other);
	expect_done("return", gpub_return(&other));
}

static void make_shown(void)
{
	gpub_lease other;

	make_and_fill(SHOWN, 0604, GPUB_TIMELINE, false, &other);
	expect_done("return", gpub_return(&other));
}

static void begin(void)
{
	expect_done("connect", gpub_connect(&client, arena_broker.address));
	if (atomic_load(&stage->wronged))
		exit(1);
	make_and_fill(SECRET, 0600, 0, true, &secret);
	make_second_secret();
	make_shown();
	expect_done("trim", gpub_trim(client));
}

/* Both secrets, a part of each at a time. */
static void look_at_secrets(unsigned beat)
{
	size_t at = (size_t)beat * PART % SECRET_SIZE;
	gpub_lease other;
	int error;

	/* also when the secret's name has ended: it is still mapped */
	expect("its secret is not what it wrote", canary_holds((uint8_t *)secret.ptr + at, PART));
	error = acquire(client, SECRET_2, &other);
	if (has_ended(error)) {
		make_second_secret();
		return;
	}
	expect_done("acquire", error);
	if (atomic_load(&stage->wronged))
		return;
	expect("its second secret is not what it wrote", canary_holds((uint8_t *)other.ptr + at, PART));
	expect_done("return", gpub_return(&other));
}

static void make_and_unlink(void)
{
	static const uint8_t zeros[PASSING_SIZE];
	gpub_lease other;
	int error;

	expect_done("create", create(client, PASSING, PASSING_SIZE, 0600, 0));
	error = acquire(client, PASSING, &other);
	if (has_ended(error))
		return;
	expect_done("acquire", error);
	if (atomic_load(&stage->wronged))
		return;
	expect("new memory is not zeros", !memcmp(other.ptr, zeros, PASSING_SIZE));
	canary_fill(other.ptr, PASSING_SIZE);
	expect_done("return", gpub_return(&other));
	trip_begin();
	error = gpub_unlink(client, PASSING);
	trip_end();
	if (!has_ended(error))
		expect_done("unlink", error);
}

static void ask_about(void)
{
	gpub_info info = { .struct_size = sizeof info };
	int error;

	trip_begin();
	error = gpub_stat(client, SHOWN, &info);
	trip_end();
	if (has_ended(error)) {
		make_shown();
		return;
	}
	expect_done("stat", error);
	expect("its shown buffer changed hands or mode", info.owner == geteuid() && info.mode == 0604);
}

/* Makes the buffers anew that have lost their names, so that all is as it was. No owner is killed now. */
static void restore(void)
{
	int error;

	expect_done("return", gpub_return(&secret));
	expect_done("trim", gpub_trim(client));
	error = acquire(client, SECRET, &secret);
	if (has_ended(error))
		make_and_fill(SECRET, 0600, 0, true, &secret);
	else
		expect_done("acquire", error);
	look_at_secrets(0);
	ask_about();
	expect_done("trim", gpub_trim(client));
}

static void rest(void)
{
	if (!atomic_load(&stage->pause)) {
		usleep(1000);
		return;
	}
	if (atomic_load(&stage->names_end) && !atomic_load(&stage->wronged))
		restore();
	atomic_store(&stage->paused, true);
	while (atomic_load(&stage->pause))
		usleep(1000);
	atomic_store(&stage->paused, false);
}

void victim_run(void)
{
	begin();
	for (unsigned beat = 0; !atomic_load(&stage->stop) && !atomic_load(&stage->wronged); beat++) {
		look_at_secrets(beat);
		make_and_unlink();
		ask_about();
		expect_done("trim", gpub_trim(client));
		rest();
	}
	/* wronged: it stays as it is, to be looked at */
	while (!atomic_load(&stage->stop))
		rest();
	expect_done("return", gpub_return(&secret));
	gpub_unlink(client, SECRET);
	gpub_unlink(client, SECRET_2);
	gpub_unlink(client, SHOWN);
	gpub_disconnect(client);
	exit(atomic_load(&stage->wronged));
}

void newcomer_run(void)
{
	gpub_spec spec = GPUB_SPEC_INIT;
	gpub_client *own;
	gpub_lease taken;
	char name[40];
	int error = gpub_connect(&own, arena_broker.address);

	snprintf(name, sizeof name, "newcomer/%d", getpid());
	spec.size = 4096;
	if (!error)
		error = gpub_create(own, name, &spec);
	if (!error)
		error = gpub_acquire(own, name, GPUB_READ | GPUB_WRITE, 0, &taken);
	if (!error) {
		memset(taken.ptr, 1, 4096);
		error = gpub_return(&taken);
	}
	if (!error)
		error = gpub_unlink(own, name);
	if (error) {
		snprintf(stage->failure, sizeof stage->failure, "%d, %.200s", error, gpub_strerror_last());
		_exit(1);
	}
	gpub_disconnect(own);
	exit(0);
}
