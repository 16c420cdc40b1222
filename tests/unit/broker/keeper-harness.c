/* SPDX-License-Identifier: Apache-2.0 */
/* keeper-harness.c - see keeper-harness.h */
#include "keeper-harness.h"

#include <dirent.h>
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/error.h"

#define PASS_MS 5

struct keeper keeper;
struct event_base *base;
struct shared *shared;
struct line line;
struct event_base *broker_base;
unsigned descriptors_before;
int ended;
unsigned look_ms, looks_most;

static struct event *pass;

unsigned harness_descriptors(void)
{
	DIR *folder = opendir("/proc/self/fd");
	unsigned count = 0;

	while (readdir(folder))
		count++;
	closedir(folder);
	return count - 3; /* without ".", ".." and the folder */
}

static void on_pass(evutil_socket_t fd, short what, void *argument)
{
	(void)fd;
	(void)what;
	(void)argument;
}

void harness_pass(void)
{
	static const struct timeval most = { .tv_usec = PASS_MS * 1000 };

	event_add(pass, &most);
	event_base_loop(base, EVLOOP_ONCE);
}

int harness_setup(void **state)
{
	static const struct rlimit none = { 0, 0 };

	(void)state;
	setrlimit(RLIMIT_CORE, &none);
	descriptors_before = harness_descriptors();
	ended = -1;
	shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	base = event_base_new();
	pass = evtimer_new(base, on_pass, NULL);
	return shared == MAP_FAILED || !base || !pass;
}

int harness_teardown(void **state)
{
	int failed = shared->failed;

	(void)state;
	if (keeper.base)
		(void)SOON(!keeper.dying);
	keeper_deinit(&keeper);
	event_free(pass);
	event_base_free(base);
	munmap(shared, sizeof *shared);
	if (failed)
		fprintf(stderr, "# a broker's CHECK() failed, in line %d\n", failed);
	if (harness_descriptors() != descriptors_before)
		fprintf(stderr, "# %u descriptors, and before %u\n", harness_descriptors(), descriptors_before);
	return failed || harness_descriptors() != descriptors_before || waitpid(-1, NULL, WNOHANG) != -1 ||
	       errno != ECHILD;
}

static void on_ended(void *context, int status)
{
	(void)context;
	ended = status;
}

void harness_start(int (*broker)(void *context, struct keeper_end *end))
{
	const struct keeper_program program = {
		.name = "test-broker", .broker = broker, .ended = on_ended, .look_ms = look_ms, .looks = looks_most
	};

	if (keeper_init(&keeper, base, &program)) {
		fprintf(stderr, "# %s\n", error_text());
		abort();
	}
}

void harness_begin(const struct keeper_end *end)
{
	static const int caught[] = { SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT }; /* by cmocka */

	watchdog_end_pass(end->marks);
	for (unsigned i = 0; i < sizeof caught / sizeof *caught; i++)
		signal(caught[i], SIG_DFL);
	shared->last = end->last;
	shared->cold = end->cold;
	shared->pid = getpid();
	shared->began = end->number;
	CHECK(harness_descriptors() == descriptors_before + 1 + kept_count(end->kept));
	broker_base = event_base_new();
	CHECK(!line_open(&line, broker_base, end->line));
}

void harness_serve(void)
{
	CHECK(!line_ready(&line) && !line_flush_wait(&line));
	shared->ready = shared->began;
	for (;;)
		pause();
}

void harness_check(bool condition, int where)
{
	int none = 0;

	if (condition)
		return;
	if (!shared) /* in the test itself */
		abort();
	atomic_compare_exchange_strong(&shared->failed, &none, where);
	_exit(99);
}

void harness_wait_without_loop(unsigned index)
{
	uint64_t until = now_ms(CLOCK_MONOTONIC) + 20000;

	while (!shared->word[index] && !shared->failed && now_ms(CLOCK_MONOTONIC) < until)
		sched_yield();
}

int harness_file(uint64_t key, uint64_t version)
{
	const uint64_t text[2] = { key, version };
	int fd = memfd_create("kept", MFD_CLOEXEC);

	CHECK(fd >= 0 && pwrite(fd, text, sizeof text, 0) == sizeof text);
	return fd;
}

bool harness_is(int fd, uint64_t key, uint64_t version)
{
	uint64_t text[2];

	return fd >= 0 && pread(fd, text, sizeof text, 0) == sizeof text && text[0] == key && text[1] == version;
}
