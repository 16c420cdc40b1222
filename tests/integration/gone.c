/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gone.c - the broker is killed: every call comes back with ECONNRESET, nothing hangs, and its leftovers are cleaned.
 *
 * The broker is stopped first, so that each call is in the middle when it is killed.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "harness.h"

static struct broker_process broker;

/* ---- steps ---- */

static int take_descriptor_0(const struct order *order)
{
	int null = open("/dev/null", O_RDWR);

	(void)order;
	if (null < 0 || dup2(null, STDIN_FILENO) < 0)
		return -errno;
	if (null != STDIN_FILENO)
		close(null);
	return 0;
}

static int has_descriptor_0(const struct order *order)
{
	(void)order;
	return fcntl(STDIN_FILENO, F_GETFD) < 0 ? -errno : 0;
}

/* ---- calls ---- */

/* The kinds of call that ask the broker. */
static const struct {
	const char  *what;
	struct order order;
} calls[] = {
	{ "gpub_connect", { .run = do_connect } },
	{ "gpub_create", { .run = do_create, .name = "new" } },
	{ "gpub_create for ever", { .run = do_create, .name = "huge", .timeout = -1 } },
	{ "gpub_unlink", { .run = do_unlink, .name = "x" } },
	{ "gpub_stat", { .run = do_stat, .name = "x" } },
	{ "gpub_acquire", { .run = do_acquire, .name = "y", .slot = 1 } },
	{ "gpub_acquire of a name to come", { .run = do_acquire, .name = "never", .slot = 1, .timeout = -1 } },
	{ "gpub_acquire with a timeout", { .run = do_acquire, .name = "never", .slot = 1, .timeout = 60000 } },
	{ "gpub_signal_on", { .run = do_signal, .value = 1 } },
	{ "gpub_renew", { .run = do_renew, .slot = 2 } },
};

#define CALLS (sizeof calls / sizeof calls[0])

static struct puppet caller[CALLS], leaver;

/* Everything a call of the list may need: "x" held, "z" returned and closed. */
static void prepare(struct puppet *puppet)
{
	puppet_start(puppet, &broker);
	ask(puppet, take_descriptor_0);
	ask(puppet, do_stream);
	ask(puppet, do_create, .name = "x", .flags = GPUB_TIMELINE);
	ask(puppet, do_create, .name = "y");
	ask(puppet, do_create, .name = "z");
	ask(puppet, do_acquire, .name = "z", .slot = 2);
	ask(puppet, do_return, .slot = 2);
	if (ask(puppet, do_acquire, .name = "x") || ask(puppet, do_trim))
		bail_out("'x' cannot be acquired: %s", puppet->last.text);
}

static void remove_socket(void)
{
	char *slash;

	unlink(broker.address + 5);
	slash = strrchr(broker.address, '/');
	*slash = 0;
	rmdir(broker.address + 5);
	*slash = '/';
}

static bool sleeps(pid_t pid)
{
	const char *end;
	char line[300];

	process_line(pid, "stat", line, sizeof line);
	end = strrchr(line, ')');
	return end && end[1] && end[2] == 'S';
}

static void start_all(void)
{
	for (size_t i = 0; i < CALLS; i++)
		if (calls[i].order.run == do_connect)
			puppet_start_unconnected(&caller[i], &broker);
		else
			prepare(&caller[i]);
	prepare(&leaver);
	broker_pause(&broker);
	for (size_t i = 0; i < CALLS; i++)
		puppet_tell(&caller[i], calls[i].order);
	tell(&leaver, do_disconnect);
}

/* What still works, and what says so, when the broker is gone. */
static void check_afterwards(struct puppet *puppet, const char *what)
{
	POINT(ask(puppet, do_trim) == -ECONNRESET && ask(puppet, do_create, .name = "n") == -ECONNRESET &&
		      ask(puppet, do_acquire, .name = "x", .slot = 3) == -ECONNRESET,
	      "%s: later calls say ECONNRESET at once", what);
	/* gpub_copy_on() is refused as every call is; CUDA's own copies and kernels go on */
	if (on_cuda())
		POINT(ask(puppet, do_write, .value = 3) == -ECONNRESET && !ask(puppet, do_return),
		      "%s: what is held can be returned", what);
	else
		POINT(!ask(puppet, do_write, .value = 3) && !ask(puppet, do_read) && puppet->last.value == 3 &&
			      !ask(puppet, do_return),
		      "%s: what is held can be used and returned", what);
	POINT(ask(puppet, do_return) == -ESTALE || puppet->last.result == -ECONNRESET, "%s: but once", what);
}

static void test_calls(void)
{
	broker_start(&broker, "host");
	start_all();
	for (size_t i = 0; i < CALLS; i++)
		if (!SOON(sleeps(caller[i].pid)))
			bail_out("%s does not wait", calls[i].what);
	for (size_t i = 0; i < CALLS; i++)
		POINT(!puppet_answered(&caller[i]), "%s waits for a stopped broker", calls[i].what);
	broker_wait(&broker, SIGKILL);
	for (size_t i = 0; i < CALLS; i++) {
		POINT(receive(&caller[i]) == -ECONNRESET, "%s comes back with ECONNRESET when it is killed",
		      calls[i].what);
		POINT(strlen(caller[i].last.text) > 20, "%s says why: %s", calls[i].what, caller[i].last.text);
	}
	receive(&leaver);
	POINT(true, "gpub_disconnect comes back");
	check_afterwards(&caller[3], "gpub_unlink");
	for (size_t i = 1; i < CALLS; i++) {
		POINT(!ask(&caller[i], has_descriptor_0), "%s leaves the program's descriptor 0 open", calls[i].what);
		puppet_end(&caller[i]);
	}
	puppet_kill(&caller[0]);
	puppet_kill(&leaver);
}

/* One that was idle when the broker died. */
static void test_idle(void)
{
	struct puppet puppet;

	broker_start(&broker, "host");
	prepare(&puppet);
	broker_wait(&broker, SIGKILL);
	POINT(SOON(ask(&puppet, do_trim) == -ECONNRESET), "an idle client notices that the broker is gone");
	check_afterwards(&puppet, "an idle client");
	puppet_end(&puppet);
}

/* Waits that the broker knows of, and that end with it. */
static void test_waiting(void)
{
	struct puppet creator, acquirer;

	if (on_cuda()) {
		point_skip("a create waits for memory, an acquire for a name: a device with 1 MiB");
		return;
	}
	setenv("GPUB_HOST_MEMORY", "1M", 1);
	broker_start(&broker, "host");
	unsetenv("GPUB_HOST_MEMORY");
	puppet_start(&creator, &broker);
	puppet_start(&acquirer, &broker);
	ask(&creator, do_create, .name = "full", .size = 1u << 20);
	tell(&creator, do_create, .name = "more", .timeout = -1);
	tell(&acquirer, do_acquire, .name = "more", .timeout = -1);
	POINT(SOON(status_number(&broker, "waiting") == 2), "a create waits for memory, an acquire for a name");
	broker_wait(&broker, SIGKILL);
	POINT(receive(&creator) == -ECONNRESET && receive(&acquirer) == -ECONNRESET,
	      "both come back with ECONNRESET when the broker is killed");
	puppet_end(&creator);
	puppet_end(&acquirer);
	remove_socket();
}

static pthread_t elsewhere;

static void *acquire_for_ever(void *unused)
{
	gpub_lease never;

	gpub_acquire(client, "never", GPUB_READ, -1, &never);
	return unused;
}

static int acquire_elsewhere(const struct order *order)
{
	(void)order;
	return pthread_create(&elsewhere, NULL, acquire_for_ever, NULL);
}

static int join_elsewhere(const struct order *order)
{
	(void)order;
	return pthread_join(elsewhere, NULL);
}

/* A broker that is stopped, and not gone: a caller with a time limit returns after a while. */
static void test_stopped(void)
{
	struct puppet puppet, maker;

	broker_start(&broker, "host");
	puppet_start(&puppet, &broker);
	puppet_start(&maker, &broker);
	ask(&puppet, acquire_elsewhere);
	if (!SOON(status_number(&broker, "waiting") == 1))
		bail_out("the other thread does not wait");
	broker_pause(&broker);
	POINT(ask(&puppet, do_acquire, .name = "never") == -ETIMEDOUT,
	      "an acquire that does not wait, of a name that another thread waits for: %s", puppet.last.text);
	broker_resume(&broker);
	POINT(ask(&puppet, do_acquire, .name = "never") == -ENOENT, "when the broker goes on, so does the client");
	POINT(!ask(&maker, do_create, .name = "never") && !ask(&puppet, join_elsewhere), "and its other thread");
	puppet_end(&puppet);
	puppet_end(&maker);
	broker_end(&broker);
}

static void test_leftovers(void)
{
	struct broker_process dead;
	char path[80];

	snprintf(path, sizeof path, "/dev/shm/gpubroker.%s", broker.instance);
	dead = broker;
	remove_socket();
	broker_start(&broker, "host");
	POINT((on_cuda() || !memory_objects(&dead)) && access(path, F_OK),
	      "the next broker removes what a dead one left");
	broker_end(&broker);
}

int main(void)
{
	harness_begin("gone", 60);
	test_calls();
	remove_socket();
	test_waiting();
	test_idle();
	test_leftovers();
	test_stopped();
	return harness_end();
}
