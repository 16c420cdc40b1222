/* SPDX-License-Identifier: Apache-2.0 */
/*
 * trace.c - the ranges that a profiler sees: of what asks the broker, opens and closes, each with its end, and none of
 * the calls that are to be fast; and where no tool is to be listened to. The tool is nvtx-tool.c.
 */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "device/host.h"
#include "harness.h"

#define THREADS 8
#define DEEP    8
#define NOBODY  65534

#define NOT_LOADED 127 /* ld.so(8): a library was not found */

static struct broker_process broker;
static struct puppet a, b;
static char directory[] = "/tmp/gpubroker-trace-XXXXXX";
static char book[64], tool[4096];

/* ---- the tool's book ---- */

/* A range's name here has those around it before it: "trim > close". */
struct thread {
	pid_t tid;
	int   depth;
	char  name[DEEP][256];
};

struct seen {
	int all, matching; /* ranges that began */
	int unmatched;     /* that did not end, or ends of none */
	int domains;       /* "gpubroker" */
};

static struct thread *thread_of(struct thread *threads, pid_t tid)
{
	struct thread *thread = threads;

	while (thread->tid && thread->tid != tid)
		thread++;
	thread->tid = tid;
	return thread;
}

static void read_event(struct seen *seen, struct thread *thread, const char *event, const char *wanted)
{
	char *name = thread->name[thread->depth];

	switch (*event) {
	case '=':
		seen->domains += !strcmp(event + 1, "gpubroker");
		break;
	case '(':
		snprintf(name, sizeof *thread->name, "%.120s%s%.120s", thread->depth ? name - sizeof *thread->name : "",
			 thread->depth ? " > " : "", event + 1);
		seen->all++;
		seen->matching += !strcmp(name, wanted);
		if (++thread->depth == DEEP)
			bail_out("ranges in ranges in ranges");
		break;
	default:
		if (thread->depth)
			thread->depth--;
		else
			seen->unmatched++;
	}
}

/* What that process did, and the ranges of that name; wanted "": none has it. */
static struct seen look(pid_t pid, const char *wanted)
{
	struct thread threads[64] = { 0 };
	struct seen seen = { 0 };
	FILE *file = fopen(book, "r");
	char line[300], event[256];
	int owner, tid;

	while (file && fgets(line, sizeof line, file))
		if (sscanf(line, "%d %d %255[^\n]", &owner, &tid, event) == 3 && owner == pid)
			read_event(&seen, thread_of(threads, tid), event, wanted);
	if (!file)
		bail_out("no book: %s", strerror(errno));
	fclose(file);
	for (const struct thread *thread = threads; thread->tid; thread++)
		seen.unmatched += thread->depth;
	return seen;
}

/* How many ranges of that name. */
static int ranges(pid_t pid, const char *name)
{
	return look(pid, name).matching;
}

/* How many at all; what the other process did meanwhile is not asked. */
static int all_ranges(void)
{
	return look(a.pid, "").all;
}

static bool all_ended(pid_t pid)
{
	return !look(pid, "").unmatched;
}

/* ---- steps ---- */

/* Not alone in its memory. */
static int do_small(const struct order *order)
{
	gpub_spec spec = GPUB_SPEC_INIT;

	spec.size = 200;
	return gpub_create(client, order->name, &spec);
}

static int do_not_wait(const struct order *order)
{
	host_do_not_wait(order->value);
	return 0;
}

static int do_many(const struct order *order)
{
	static const char *const names[] = { "x", "y" };
	static gpub_lease leases[2];
	int error = gpub_acquire_many(client, names, 2, GPUB_READ, order->timeout, leases);

	for (int i = 0; i < 2 && !error; i++)
		error = gpub_return(&leases[i]);
	return error;
}

static void *acquire_own(void *number)
{
	char name[24];
	gpub_spec spec = GPUB_SPEC_INIT;
	gpub_lease own;
	int error;

	spec.size = 64;
	snprintf(name, sizeof name, "own%u", (unsigned)(uintptr_t)number);
	error = gpub_create(client, name, &spec);
	if (!error)
		error = gpub_acquire(client, name, GPUB_READ, 0, &own);
	if (!error)
		error = gpub_return(&own);
	return (void *)(intptr_t)error;
}

static int do_threads(const struct order *order)
{
	pthread_t thread[THREADS];
	void *error;
	int first = 0;

	(void)order;
	for (uintptr_t i = 0; i < THREADS; i++)
		if (pthread_create(&thread[i], NULL, acquire_own, (void *)i))
			return -EAGAIN;
	for (int i = 0; i < THREADS; i++) {
		pthread_join(thread[i], &error);
		first = first ? first : (int)(intptr_t)error;
	}
	return first;
}

static _Noreturn void use_in_child(void)
{
	gpub_client *mine;
	gpub_lease none;

	alarm(10);
	if (gpub_acquire(client, "child", GPUB_READ, 0, &none) != -ECHILD || gpub_trim(client) != -ECHILD ||
	    gpub_renew(&lease[0]) != -ECHILD || gpub_connect(&mine, NULL) != -ENOTSUP)
		_exit(1);
	gpub_disconnect(client);
	_exit(0);
}

/* A child that uses what it may not, with atfork handlers or without. step_value: its pid. */
static int do_fork(const struct order *order)
{
	int status;
	pid_t pid = order->value ? _Fork() : fork();

	if (!pid)
		use_in_child();
	step_value = (uint64_t)pid;
	return waitpid(pid, &status, 0) != pid || status;
}

static int do_find_tool(const struct order *order)
{
	FILE *maps = fopen("/proc/self/maps", "r");
	char line[4200];

	(void)order;
	while (maps && fgets(line, sizeof line, maps))
		step_value |= strstr(line, "nvtx-tool") != NULL;
	if (maps)
		fclose(maps);
	return maps ? 0 : -errno;
}

/* ---- the world ---- */

static void set_listening(bool listens)
{
	if (listens)
		setenv("NVTX_INJECTION64_PATH", tool, 1);
	else
		unsetenv("NVTX_INJECTION64_PATH");
}

static void begin(void)
{
	broker_start(&broker, "host");
	puppet_start(&a, &broker);
	ask(&a, do_stream);
}

static void end(void)
{
	puppet_end(&a);
	broker_end(&broker);
}

/* ---- what has a range ---- */

static void test_ranges(void)
{
	pid_t pid;

	begin();
	pid = a.pid;
	POINT(look(pid, "").domains == 1, "one domain is made");
	POINT(ranges(pid, "connect") == 1 && !ask(&a, do_create, .name = "x") && ranges(pid, "CREATE") == 1 &&
		      !ask(&a, do_stat, .name = "x") && ranges(pid, "STAT") == 1,
	      "a connect, and each round trip, is a range");
	POINT(!ask(&a, do_acquire, .name = "x") && ranges(pid, "acquire x") == 1,
	      "a first acquire is one, by its name");
	POINT(ranges(pid, "acquire x > open") + ranges(pid, "open") == 1,
	      "so is the opening, in it, unless another thread opened");
	POINT(!ask(&a, do_return) && !ask(&a, do_trim) && ranges(pid, "trim > close") == 1,
	      "a trim is one, each close in it too");
	POINT(!ask(&a, do_create, .name = "y") && !ask(&a, do_many) && ranges(pid, "acquire_many 2") == 1 &&
		      !ranges(pid, "acquire_many 2 > acquire y"),
	      "many that are acquired at once are one");
	puppet_end(&a);
	POINT(ranges(pid, "disconnect > LEAVE") == 1 && ranges(pid, "disconnect > close") == 2,
	      "a disconnect is one, with all that it does");
	POINT(all_ended(pid), "each has ended where it began");
	broker_end(&broker);
}

static void test_sync(void)
{
	static const char verdict[] =
		"trim > sync > this driver's closes do not wait for work: return leases in stream order";

	begin();
	puppet_start(&b, &broker);
	if (ask(&a, do_small, .name = "x") || ask(&a, do_small, .name = "y") || ask(&a, do_acquire, .name = "x") ||
	    ask(&a, do_acquire, .name = "y", .slot = 1) || ask(&a, do_return) || ask(&b, do_unlink, .name = "x"))
		bail_out("no two buffers in one memory: %s", a.last.text);
	POINT(SOON(!ask(&a, do_trim) && ranges(a.pid, "trim > sync")) && all_ended(a.pid),
	      "waiting for the device, so that one buffer of several can go, is a range");
	if (on_cuda())
		point_skip("a driver whose closes do not wait");
	else
		POINT(!ranges(a.pid, verdict) && !ask(&a, do_small, .name = "z") &&
			      !ask(&a, do_acquire, .name = "z", .slot = 2) && !ask(&a, do_return, .slot = 2) &&
			      !ask(&a, do_not_wait) && !ask(&b, do_unlink, .name = "z") &&
			      SOON(!ask(&a, do_trim) && ranges(a.pid, verdict)) && all_ended(a.pid),
		      "a driver whose closes do not wait is told of in it");
	puppet_end(&b);
	end();
}

static void test_failures(void)
{
	begin();
	POINT(ask(&a, do_acquire, .name = "missing") == -ENOENT && ranges(a.pid, "acquire missing") == 1 &&
		      all_ended(a.pid),
	      "an acquire that fails has its end");
	POINT(ask(&a, do_acquire, .name = "missing", .timeout = 20) == -ETIMEDOUT &&
		      ranges(a.pid, "acquire missing") == 2 && all_ended(a.pid),
	      "that comes too late, too");
	POINT(ask(&a, do_unlink, .name = "missing") == -ENOENT && ranges(a.pid, "UNLINK") == 1 &&
		      ask(&a, do_many) == -ENOENT && ranges(a.pid, "acquire_many 2") == 1 && all_ended(a.pid),
	      "and any other call that the broker refuses");
	broker_wait(&broker, SIGKILL);
	POINT(SOON(ask(&a, do_stat, .name = "x") == -ECONNRESET) && all_ended(a.pid), "or that loses it");
	puppet_end(&a);
	unlink(broker.address + 5);
	*strrchr(broker.address, '/') = 0;
	rmdir(broker.address + 5);
}

static void test_threads(void)
{
	begin();
	POINT(!ask(&a, do_threads) && ranges(a.pid, "CREATE") == THREADS && ranges(a.pid, "acquire own7") == 1 &&
		      all_ended(a.pid),
	      "%d threads have each its own", THREADS);
	ask(&a, do_disconnect);
	POINT(!ask(&a, do_connect) && ranges(a.pid, "connect") == 2 && look(a.pid, "").domains == 1,
	      "a second connection has them in the same domain");
	end();
}

/* ---- what has none ---- */

static void test_fast(void)
{
	int before;

	begin();
	ask(&a, do_create, .name = "x");
	ask(&a, do_acquire, .name = "x");
	before = all_ranges();
	POINT(before > 0 && !ask(&a, do_acquire, .name = "x", .slot = 1) && !ask(&a, do_return, .slot = 1) &&
		      !ask(&a, do_renew, .slot = 1) && !ask(&a, do_return_on, .slot = 1) && !ask(&a, do_sync) &&
		      !ask(&a, do_renew, .slot = 1) && !ask(&a, do_return, .slot = 1) && !ask(&a, do_return) &&
		      all_ranges() == before,
	      "a second acquire, a renewal and a return, also in stream order, have no range");
	end();
}

static void test_forks(void)
{
	begin();
	ask(&a, do_create, .name = "x");
	ask(&a, do_acquire, .name = "x");
	for (uint64_t way = 0; way < 2; way++)
		POINT(!ask(&a, do_fork, .value = way) && !look((pid_t)a.last.value, "").all,
		      "%s: a child, which may use nothing, has none and calls no tool", way ? "_Fork()" : "fork()");
	POINT(!ask(&a, do_create, .name = "y") && ranges(a.pid, "CREATE") == 2 && all_ended(a.pid),
	      "its parent goes on to have them");
	end();
}

static void test_none(void)
{
	set_listening(false);
	begin();
	POINT(!ask(&a, do_create, .name = "x") && !ask(&a, do_acquire, .name = "x") && !ask(&a, do_find_tool) &&
		      !a.last.value && !all_ranges(),
	      "without the variable nothing is loaded");
	end();
	set_listening(true);
	begin();
	POINT(!ask(&a, do_find_tool) && a.last.value, "with it the tool is");
	end();
}

/* ---- a program that has more rights than the user that started it ---- */

static const char connects[] = "connects";

/* Exits with: whether the kernel calls it one. The tool is looked for before the broker, which is not there. */
_Noreturn static void connect_only(void)
{
	gpub_client *none;

	/* at once: a leak checker cannot look into a program of other rights */
	_exit(gpub_connect(&none, "unix:/nonexistent/socket") ? 10 + !!getauxval(AT_SECURE) : 1);
}

static void copy_file(const char *from, char to[4096], const char *name)
{
	int in = open(from, O_RDONLY | O_CLOEXEC), out;
	struct stat st;

	snprintf(to, 4096, "%s/%s", directory, name);
	out = open(to, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0755);
	if (in < 0 || out < 0 || fstat(in, &st) || fchmod(out, 0755))
		bail_out("%s cannot be copied: %s", from, strerror(errno));
	for (ssize_t got = 1; got > 0;)
		got = sendfile(out, in, NULL, (size_t)st.st_size);
	close(in);
	close(out);
}

/* Its exit status. */
static int run_as(const char *program, uid_t user, pid_t *pid)
{
	int status = 0;

	*pid = fork();
	if (!*pid) {
		if (user && (setgroups(0, NULL) || setuid(user)))
			_exit(2);
		execl(program, program, connects, NULL);
		_exit(3);
	}
	return waitpid(*pid, &status, 0) == *pid && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void test_secure(void)
{
	static const char text[] =
		"a program with the rights of another user than the one that started it loads no tool";
	char program[4096], reached[4096];
	pid_t secure, plain;
	int status;

	if (geteuid()) {
		POINT(true, "%s # SKIP only root can make one here", text);
		return;
	}
	copy_file("/proc/self/exe", program, "program");
	copy_file(tool, reached, "tool.so");
	setenv("NVTX_INJECTION64_PATH", reached, 1);
	if (chown(program, NOBODY, (gid_t)-1) || chmod(program, 04755) || chmod(directory, 0755) || chmod(book, 0666))
		bail_out("no setuid program: %s", strerror(errno));
	status = run_as(program, 0, &secure);
	if (status == 10)
		POINT(true, "%s # SKIP setuid does nothing in /tmp", text);
	else if (status == NOT_LOADED && getenv("LD_LIBRARY_PATH"))
		POINT(true, "%s # SKIP libraries are found by LD_LIBRARY_PATH, which such a program ignores", text);
	else
		POINT(status == 11 && !look(secure, "").domains && !look(secure, "").all, "%s", text);
	status = run_as(program, NOBODY, &plain);
	if (status == NOT_LOADED)
		POINT(true, "the same program with its own rights # SKIP that user may not read its libraries");
	else
		POINT(status == 10 && look(plain, "connect").matching == 1 && all_ended(plain),
		      "the same program with its own rights does");
	set_listening(true);
}

/* ---- */

static void remove_directory(void)
{
	char command[80];

	snprintf(command, sizeof command, "rm -rf '%s'", directory);
	if (system(command))
		fprintf(stderr, "%s is left\n", directory);
}

static void tool_begin(void)
{
	const char *build = getenv("top_builddir");
	char path[4096];
	int file;

	snprintf(path, sizeof path, "%s/tests/integration/.libs/nvtx-tool.so", build ? build : ".");
	if (!realpath(path, tool))
		bail_out("%s: %s", path, strerror(errno));
	if (!mkdtemp(directory))
		bail_out("no directory: %s", strerror(errno));
	atexit(remove_directory);
	snprintf(book, sizeof book, "%s/book", directory);
	file = open(book, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (file < 0)
		bail_out("no book: %s", strerror(errno));
	close(file);
	setenv("NVTX_TOOL_BOOK", book, 1);
	set_listening(true);
}

int main(int argc, char **argv)
{
	if (argc == 2 && !strcmp(argv[1], connects))
		connect_only();
	if (!HAVE_NVTX) {
		printf("1..0 # SKIP built without NVTX\n");
		return 0;
	}
	harness_begin("trace", 60);
	tool_begin();
	test_ranges();
	test_sync();
	test_failures();
	test_threads();
	test_fast();
	test_forks();
	test_none();
	test_secure();
	return harness_end();
}
