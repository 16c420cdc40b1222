/* SPDX-License-Identifier: Apache-2.0 */
/*
 * failing.c - every allocation and system call of a client, and of broker-run, fails, one at a time.
 *
 * A client (fail-client.c) is run under a broker, with fail-calls.so preloaded into one of the two: first to note what
 * it calls, from where, then once for each place that calls, where that call fails. Calls from the same place are
 * alike: the first and the last of them are made to fail. The client has its allocations fail a second time, where what
 * it opened does not close again, either. The client must end with status 0: refused with an error message, or served;
 * the broker's accounting must balance after it. broker-run must end with an error message and status 1 (2 where
 * options or declarations want for memory), or go on and balance; it leaves nothing in /dev/shm and no worker behind.
 * Nobody crashes and nobody hangs.
 *
 *   tests/crash/failing [client|stuck-client|broker-run [FUNCTION [NTH]]]    only that, for a look at a failure
 */
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "balance.h"
#include "fail-calls.h"
#include "fail-client.h"
#include "lanes.h"

#define LANES        4
#define SECONDS      200
#define HANG_SECONDS 20
#define CHOSEN_MAX   8192

#define BROKER_FAILED 125 /* broker-run(1): it failed itself */

enum subject { CLIENT, STUCK_CLIENT, BROKER, SUBJECTS };

static const char *const subject_names[SUBJECTS] = { "client", "stuck-client", "broker-run" };

static const char *const functions[FAIL_FUNCTION_COUNT] = {
#define FUNCTION_NAME(name, error) [FAIL_##name] = #name,
	FAIL_FUNCTIONS(FUNCTION_NAME)
#undef FUNCTION_NAME
};

/* What is to fail: found out by one lane, done by all. */
struct chosen {
	uint32_t         count[SUBJECTS];
	struct fail_call call[SUBJECTS][CHOSEN_MAX];
};

static struct chosen *chosen;
static struct fail_book *book;
static int book_fd, log_fd;
static char log_text[16384];
static const char *only_subject, *only_function;
static uint32_t only_nth;

/* ---- one run ---- */

static struct broker_process broker;
static struct puppet survivor;
static char instance[32];

static void self_path(char path[4096])
{
	ssize_t length = readlink("/proc/self/exe", path, 4095);

	path[length > 0 ? length : 0] = 0;
}

static void build_path(char path[4096], const char *file)
{
	const char *build = getenv("top_builddir");

	snprintf(path, 4096, "%s/%s", build ? build : ".", file);
}

static void preload(const char *fail)
{
	char path[4096], library[4096], number[40];

	build_path(path, "tests/crash/.libs/fail-calls.so");
	if (!realpath(path, library))
		_exit(126);
	snprintf(number, sizeof number, "/proc/%d/fd/%d", getppid(), book_fd);
	setenv("LD_PRELOAD", library, 1);
	setenv("GPUB_FAIL", fail, 1);
	setenv("GPUB_FAIL_BOOK", number, 1);
}

static _Noreturn void subject_exec(enum subject subject, const char *fail)
{
	int null = open("/dev/null", O_RDONLY);
	char self[4096], run[4096];

	self_path(self);
	build_path(run, "broker/broker-run");
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	setpgid(0, 0);
	if (subject == STUCK_CLIENT)
		setenv("GPUB_FAIL_CLOSE", "1", 1);
	preload(fail);
	if (null < 0 || dup2(null, STDIN_FILENO) < 0 || dup2(log_fd, STDOUT_FILENO) < 0 ||
	    dup2(log_fd, STDERR_FILENO) < 0)
		_exit(126);
	close_range(3, ~0u, 0);
	if (subject != BROKER) {
		setenv("GPUBROKER", broker.address, 1);
		execl(self, self, "as-client", NULL);
	} else {
		execl(run, run, "--device", "host", "--name", instance, "-b", "declared=4096", "--", self, "as-client",
		      NULL);
	}
	_exit(127);
}

static void log_read(void)
{
	ssize_t got = pread(log_fd, log_text, sizeof log_text - 1, 0);

	log_text[got > 0 ? got : 0] = 0;
}

/* Its wait status; -1: it hung, and is killed with all its processes. */
static int subject_wait(pid_t pid)
{
	struct pollfd p = { .fd = (int)syscall(SYS_pidfd_open, pid, 0), .events = POLLIN };
	int status = -1, ready;

	do
		ready = poll(&p, 1, HANG_SECONDS * 1000);
	while (ready < 0 && errno == EINTR);
	if (ready <= 0)
		kill(-pid, SIGKILL);
	waitpid(pid, &status, 0);
	close(p.fd);
	return ready > 0 ? status : -1;
}

static int subject_run(enum subject subject, const char *fail, pid_t *pid)
{
	static int runs;
	int status;

	snprintf(instance, sizeof instance, "fails-%d-%d", getpid(), ++runs);
	memset(book, 0, offsetof(struct fail_book, call));
	if (ftruncate(log_fd, 0))
		bail_out("no log: %s", strerror(errno));
	fflush(stdout);
	*pid = fork();
	if (!*pid)
		subject_exec(subject, fail);
	setpgid(*pid, *pid);
	status = subject_wait(*pid);
	log_read();
	return status;
}

/* ---- what must be true after it ---- */

static const char *client_wrong(int status)
{
	const char *wrong;

	if (status)
		return status < 0 ? "it hangs" : WIFSIGNALED(status) ? "it crashes" : "it is not content";
	wrong = balance_wrong(&broker, &survivor);
	return wrong ? wrong : memory_wrong(&survivor);
}

static bool is_there(const char *prefix)
{
	char path[128];
	glob_t found;
	bool any;

	snprintf(path, sizeof path, "%s%s*", prefix, instance);
	any = !glob(path, 0, NULL, &found);
	if (any)
		globfree(&found);
	return any;
}

static const char *left_behind(pid_t group)
{
	if (!SOON(kill(-group, 0) && errno == ESRCH)) {
		kill(-group, SIGKILL);
		return "a worker lives on";
	}
	if (is_there("/dev/shm/gpubroker."))
		return "something is left in /dev/shm";
	return is_there("/tmp/gpubroker-") ? "its socket is left" : NULL;
}

static const char *broker_wrong(int status, pid_t group)
{
	if (status < 0)
		return "it hangs";
	if (!WIFEXITED(status))
		return "it crashes";
	if (strstr(log_text, "VIOLATION"))
		return "the host device reports a violation";
	if (strstr(log_text, "NOT BALANCED"))
		return "its accounting does not balance";
	if (WEXITSTATUS(status) && strlen(log_text) < 20)
		return "it says nothing";
	/* 1 is its worker's */
	if (WEXITSTATUS(status) > 1 && WEXITSTATUS(status) != BROKER_FAILED)
		return "its status is neither its worker's nor its own";
	return left_behind(group);
}

static const char *subject_wrong(enum subject subject, const char *fail)
{
	pid_t pid;
	int status = subject_run(subject, fail, &pid);

	if (status >= 0 && WIFEXITED(status) && WEXITSTATUS(status) > BROKER_FAILED)
		bail_out("%s cannot be run: %s", subject_names[subject], log_text);
	return subject == BROKER ? broker_wrong(status, pid) : client_wrong(status);
}

static void log_print(void)
{
	for (char *line = strtok(log_text, "\n"); line; line = strtok(NULL, "\n"))
		printf("#   %s\n", line);
}

/* ---- what is to fail ---- */

static bool is_wanted(enum subject subject, const struct fail_call *call)
{
	return (subject != STUCK_CLIENT || call->function == FAIL_malloc || call->function == FAIL_calloc) &&
	       (!only_function || !strcmp(only_function, functions[call->function])) &&
	       (!only_nth || only_nth == call->nth);
}

/* Whether another call of the same function from the same place was noted between these two. */
static bool is_noted(const struct fail_call *from, const struct fail_call *to, const struct fail_call *call)
{
	for (; from < to; from++)
		if (from->site == call->site && from->function == call->function)
			return true;
	return false;
}

static void choose(enum subject subject)
{
	const struct fail_call *first = book->call;
	const struct fail_call *end = first + (book->calls < FAIL_CALLS_MAX ? book->calls : FAIL_CALLS_MAX);

	for (const struct fail_call *call = first; call < end; call++) {
		if (!is_wanted(subject, call) || (is_noted(first, call, call) && is_noted(call + 1, end, call)))
			continue;
		if (chosen->count[subject] == CHOSEN_MAX)
			bail_out("there are more than %d places that call: raise CHOSEN_MAX", CHOSEN_MAX);
		chosen->call[subject][chosen->count[subject]++] = *call;
	}
}

static bool left_out(enum subject subject)
{
	return only_subject && strcmp(only_subject, subject_names[subject]);
}

static void count_calls(enum subject subject)
{
	const char *wrong;

	if (left_out(subject))
		return;
	wrong = subject_wrong(subject, "count");
	POINT(!wrong, "%s: undisturbed, %u calls", subject_names[subject], book->calls);
	if (wrong)
		printf("# %s\n", wrong);
	if (wrong)
		log_print();
	choose(subject);
}

/* ---- the lanes ---- */

static void begin(void)
{
	harness_begin("failing", SECONDS);
	book_fd = memfd_create("book", MFD_CLOEXEC);
	log_fd = memfd_create("log", MFD_CLOEXEC);
	if (book_fd < 0 || log_fd < 0 || ftruncate(book_fd, sizeof *book) || fcntl(log_fd, F_SETFL, O_APPEND))
		bail_out("no memory: %s", strerror(errno));
	book = mmap(NULL, sizeof *book, PROT_READ | PROT_WRITE, MAP_SHARED, book_fd, 0);
	if (book == MAP_FAILED)
		bail_out("no memory: %s", strerror(errno));
	balance_broker(&broker);
	puppet_start(&survivor, &broker);
}

static int end(void)
{
	puppet_end(&survivor);
	broker_end(&broker);
	return harness_end();
}

static int count_all(unsigned lane)
{
	(void)lane;
	begin();
	for (enum subject subject = 0; subject < SUBJECTS; subject++)
		count_calls(subject);
	return end();
}

/* Says what is wrong, if anything. */
static bool fail_one(enum subject subject, const struct fail_call *call)
{
	char fail[64];
	const char *wrong;

	snprintf(fail, sizeof fail, "%s:%u", functions[call->function], call->nth);
	wrong = subject_wrong(subject, fail);
	if (!wrong)
		return true;
	printf("# %s %s: %s\n", subject_names[subject], fail, wrong);
	log_print();
	return false;
}

static void fail_function(enum subject subject, uint32_t function, unsigned lane)
{
	unsigned runs = 0, bad = 0;

	for (uint32_t i = lane; i < chosen->count[subject]; i += LANES) {
		const struct fail_call *call = &chosen->call[subject][i];

		if (call->function != function)
			continue;
		runs++;
		bad += !fail_one(subject, call);
	}
	if (runs)
		POINT(!bad, "%s: %u failures of %s, one at a time", subject_names[subject], runs, functions[function]);
}

static int fail_all(unsigned lane)
{
	begin();
	for (enum subject subject = 0; subject < SUBJECTS; subject++)
		for (uint32_t function = 0; function < FAIL_FUNCTION_COUNT; function++)
			fail_function(subject, function, lane);
	return end();
}

int main(int argc, char **argv)
{
	int failed;

	if (argc > 1 && !strcmp(argv[1], "as-client"))
		return fail_client();
#ifdef __SANITIZE_ADDRESS__
	printf("1..0 # SKIP the sanitizers have an allocator of their own, which cannot be preloaded over\n");
	return 0;
#endif
	only_subject = argc > 1 ? argv[1] : NULL;
	only_function = argc > 2 ? argv[2] : NULL;
	only_nth = argc > 3 ? (uint32_t)strtoul(argv[3], NULL, 10) : 0;
	chosen = mmap(NULL, sizeof *chosen, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (chosen == MAP_FAILED)
		return 1;
	failed = lanes_run(1, count_all);
	failed |= lanes_run(LANES, fail_all);
	lanes_plan();
	return failed;
}
