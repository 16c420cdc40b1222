/* SPDX-License-Identifier: Apache-2.0 */
/* fail-client.c - see fail-client.h */
#include "fail-client.h"

#include <dirent.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/error.h"
#include "device/host.h"
#include "tests/integration/harness.h"
#include "kernels/kernels.h"

#define STALE "nothing was said since"

/* fail-calls.c has it, where that is preloaded. */
int fail_calls_failed(void) __attribute__((weak));

static bool strict; /* from now on nothing may fail any more */
static bool rude;
static bool stuck; /* the first close fails, too */
static int  pass;

/* ---- what a call may say ---- */

static void complain(const char *what, int result, const char *why)
{
	fprintf(stderr, "%s, pass %d: %d, %s: %s\n", what, pass, result, why, gpub_strerror_last());
	rude = true;
}

/* Passes the result on: 0, or a negative errno with an error message of its own. */
static int said(const char *what, int result)
{
	const char *text = gpub_strerror_last();

	if (result > 0 || result < -4095)
		complain(what, result, "which is no result");
	else if (result && (!strcmp(text, STALE) || strlen(text) < 10))
		complain(what, result, "without an error message");
	else if (result && strict)
		complain(what, result, "though nothing failed");
	return result;
}

#define TRY(call) (error_set(-EDOM, STALE), said(#call, (call)))

/* ---- the plays ---- */

static const char *name_of(const char *stem)
{
	static char name[3][32];
	static int turn;

	turn = (turn + 1) % 3;
	snprintf(name[turn], sizeof name[turn], "%s-%d", stem, pass);
	return name[turn];
}

static int create_of(const char *stem, unsigned flags, uint64_t size)
{
	gpub_spec spec = GPUB_SPEC_INIT;

	spec.size = size;
	spec.flags = flags;
	return TRY(gpub_create(client, name_of(stem), &spec));
}

static int create(const char *stem, unsigned flags)
{
	return create_of(stem, flags, 65536);
}

static int acquire(const char *stem, gpub_lease *held)
{
	return TRY(gpub_acquire(client, name_of(stem), GPUB_READ | GPUB_WRITE, 0, held));
}

static void play_buffer(void)
{
	gpub_info info = { .struct_size = sizeof info };
	uint64_t seen = 0;
	gpub_lease held;

	create("plain", 0);
	TRY(gpub_stat(client, name_of("plain"), &info));
	/* who is refused may try again */
	if (acquire("plain", &held) && acquire("plain", &held))
		return;
	if (poke(held.ptr, 77) || peek(held.ptr, &seen) || seen != 77)
		complain("memory", 0, "it does not keep what is written");
	TRY(gpub_return(&held));
	if (!TRY(gpub_renew(&held)))
		TRY(gpub_return(&held));
	TRY(gpub_trim(client));
	TRY(gpub_unlink(client, name_of("plain")));
}

/* Small ones, at once: all or none. The first is let go of while the memory of all of them stays mapped. */
static void play_many(void)
{
	static const char *const stems[] = { "one", "two", "three" };
	char names[3][32];
	const char *name[3];
	gpub_lease held[3];

	for (int i = 0; i < 3; i++) {
		create_of(stems[i], GPUB_EPHEMERAL, 100);
		snprintf(names[i], sizeof names[i], "%s", name_of(stems[i]));
		name[i] = names[i];
	}
	if (TRY(gpub_acquire_many(client, name, 3, GPUB_READ | GPUB_WRITE, 0, held)))
		return;
	TRY(gpub_return(&held[0]));
	TRY(gpub_unlink(client, name[0]));
	TRY(gpub_trim(client));
	TRY(gpub_set_cache(client, 0, 0));
	TRY(gpub_return(&held[1]));
	TRY(gpub_return(&held[2]));
	create_of("four", GPUB_EPHEMERAL, 100000);
	if (!acquire("four", &held[0]))
		TRY(gpub_return(&held[0]));
	TRY(gpub_set_cache(client, 100, UINT64_MAX));
}

/* Two leases: of the buffer as it was, and as it is. */
static void play_grows(void)
{
	gpub_spec spec = GPUB_SPEC_INIT;
	gpub_lease before, held;
	uint64_t seen = 1;

	spec.size = 65536;
	spec.reserve = 4 * spec.size;
	TRY(gpub_create(client, name_of("grows"), &spec));
	if (acquire("grows", &before))
		return;
	TRY(gpub_resize(client, name_of("grows"), 3 * spec.size, 0));
	if (!acquire("grows", &held)) {
		if (held.size > spec.size && (peek((char *)held.ptr + held.size - 8, &seen) || seen))
			complain("memory", 0, "what is new is not zero");
		TRY(gpub_return(&held));
	}
	TRY(gpub_return(&before));
	TRY(gpub_trim(client));
	TRY(gpub_unlink(client, name_of("grows")));
}

static void launch(void *stream, uint64_t *word)
{
	uint64_t value = 5, milliseconds = 1;
	void *args[] = { &word, &value, &milliseconds };
	gpub_launch_config config = single_grid(stream);
	gpub_module *module;
	gpub_kernel kernel;

	if (TRY(gpub_module_open(&module, client, "kernels")))
		return;
	if (!TRY(gpub_module_kernel(module, "late_write", &kernel)))
		TRY(gpub_launch(kernel, &config, args));
	TRY(gpub_module_close(module));
}

/* A wait that nothing will end is never queued: the signal comes first. */
static void play_stream(void)
{
	gpub_lease held;
	uint64_t value;
	void *stream;

	create("line", GPUB_TIMELINE | GPUB_EPHEMERAL);
	if (TRY(gpub_stream_create(client, GPUB_CURRENT, &stream)))
		return;
	if (!acquire("line", &held)) {
		launch(stream, held.ptr);
		TRY(gpub_copy_on(client, (char *)held.ptr + 8, held.ptr, 8, stream));
		if (!TRY(gpub_signal_on(&held, 1, stream)))
			TRY(gpub_wait_on(&held, 1, stream));
		TRY(gpub_stream_sync(stream));
		TRY(gpub_timeline(&held, &value));
		if (TRY(gpub_return_on(&held, stream)))
			TRY(gpub_return(&held));
		TRY(gpub_stream_sync(stream));
	}
	gpub_stream_destroy(stream);
}

static void play_closer(void)
{
	gpub_lease held;

	create("back", GPUB_EPHEMERAL);
	TRY(gpub_set_flags(client, GPUB_BACKGROUND_CLOSE));
	if (acquire("back", &held))
		return;
	TRY(gpub_unlink(client, name_of("back")));
	TRY(gpub_return(&held));
}

/* What a child may use is nothing, and it says so. */
static void play_fork(void)
{
	pid_t pid = fork();
	int status = 0;

	if (!pid)
		_exit(gpub_trim(client) == -ECHILD ? 0 : 1);
	if (pid > 0 && (waitpid(pid, &status, 0) != pid || status))
		complain("a forked child", status, "it may use its parent's client, or crashes");
}

static void play(void)
{
	if (TRY(gpub_connect(&client, NULL)))
		return;
	if (stuck && pass == 1 && !strict)
		host_fail_next(HOST_CLOSE, 1, EIO);
	play_buffer();
	play_many();
	play_grows();
	play_stream();
	play_closer();
	play_fork();
	gpub_disconnect(client);
}

/* ---- all of it ---- */

static int descriptors(void)
{
	DIR *dir = opendir("/proc/self/fd");
	int count = 0;

	while (dir && readdir(dir))
		count++;
	if (dir)
		closedir(dir);
	return count;
}

/* Once for the failure, and once more to see that nothing is left of it. */
int fail_client(void)
{
	int before = descriptors(), after;

	stuck = getenv("GPUB_FAIL_CLOSE");
	for (pass = 1; pass <= 2; pass++) {
		strict = fail_calls_failed && fail_calls_failed();
		play();
	}
	after = descriptors();
	/* the failing call may be the count's own; what does not close keeps its descriptor */
	if (after > before + stuck && before > 3)
		complain("descriptors", after - before, "they are left open");
	return rude ? EXIT_FAILURE : EXIT_SUCCESS;
}
