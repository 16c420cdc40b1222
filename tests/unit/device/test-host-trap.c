/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test-host-trap.c - accesses that fault: those to the host device's memory are reported, and all others are the
 * program's, which may have a handler of its own and use it all the time.
 *
 * Each case is an importer of one block of memory. test-host-watch has the accesses beside a buffer.
 */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "host-harness.h"

static const char source[] =
	"#include <gpubroker-host.h>\\n"
	"static void touch(const gpub_launch_config *config, void **args) {\\n"
	"	(void)config; **(volatile char **)args[0] = *(int *)args[1]; }\\n"
	"GPUB_HOST_KERNEL(touch, touch, sizeof(char *), sizeof(int));\\n";

/* ---- an importer, and how it ends ---- */

static peer_main *importer;

static void scenario_importer(void)
{
	struct peer peer;
	int status;

	signal(SIGSEGV, SIG_DFL); /* the test framework has a handler, and sanitizers have one */
	peer = peer_start(importer);
	export_to(&peer, owner_memory(BLOCK));
	close(peer.out);
	CHECK(waitpid(peer.pid, &status, 0) == peer.pid);
	host_unlink_all();
	_exit(WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
}

/* It ends by that signal, or well (0), and has reported that text, or nothing (NULL). */
static void expect(int line, peer_main *run, int signal, const char *report)
{
	char text[4096];
	int status;

	importer = run;
	status = child_status(scenario_importer, text, sizeof text);
	if (!WIFEXITED(status) || WEXITSTATUS(status) != signal || (report ? !strstr(text, report) : *text))
		fail_msg("line %d: status %#x, wanted signal %d and '%s', got: %s", line, (unsigned)status, signal,
			 report ? report : "", text);
}

#define EXPECT(run, signal, report) expect(__LINE__, run, signal, report)

static uint8_t *opened(int in)
{
	start(false, 2);
	return import_from(in, 0);
}

static void touch(uint8_t *ptr)
{
	*(volatile uint8_t *)ptr = 1;
}

static void launch_touch(uint8_t *ptr)
{
	void *module;

	CHECK(!device->module_load(twins, &module));
	twin_launch(twin(module, "touch"), NULL, 0, ptr, 1);
	device->stream_sync(NULL);
}

/* ---- memory that is closed ---- */

static void closed_then_touched(int in, int out)
{
	uint8_t *base = opened(in);

	(void)out;
	touch(base);
	CHECK(!device->close(0, base));
	touch(base + 100);
}

static void closed_then_touched_behind(int in, int out)
{
	uint8_t *base = opened(in);

	(void)out;
	CHECK(!device->close(0, base));
	touch(base + BLOCK);
}

static void closed_then_launched(int in, int out)
{
	uint8_t *base = opened(in);

	(void)out;
	CHECK(!device->close(0, base));
	launch_touch(base);
}

static void reset_then_touched(int in, int out)
{
	uint8_t *base = opened(in);

	(void)out;
	CHECK(!host_reset(0));
	touch(base);
}

/* One open of several is left. */
static void opened_twice(int in, int out)
{
	struct device_handle handle;
	void *one, *two;

	(void)out;
	start(false, 2);
	receive(in, &handle, sizeof handle);
	CHECK(!device->open(0, &handle, BLOCK, &one) && !device->open(0, &handle, BLOCK, &two) && one == two);
	CHECK(!device->close(0, one));
	touch(two);
	CHECK(!device->close(0, two));
}

static void test_a_use_of_closed_memory_is_reported(void **state)
{
	(void)state;
	EXPECT(closed_then_touched, SIGABRT, "VIOLATION: an access to 0x");
	EXPECT(closed_then_touched, SIGABRT, "whose mapping was closed: keep a lease of the buffer");
	EXPECT(closed_then_touched_behind, SIGABRT, "whose mapping was closed");
	EXPECT(closed_then_launched, SIGABRT, "VIOLATION: a kernel on device 0 uses 0x");
	EXPECT(reset_then_touched, SIGABRT, "whose mapping was closed");
	EXPECT(opened_twice, 0, NULL);
}

static int reset(int ordinal, void *ptr)
{
	(void)ptr;
	return host_reset(ordinal);
}

/* The addresses of closed mappings are bounded: the handle is opened at others each time, and the oldest come back. */
static void end_without_end(int in, int (*end)(int, void *))
{
	struct device_handle handle;
	struct rlimit limit = { 512ul << 20, 512ul << 20 };
	void *ptr;

	start(false, 2);
	receive(in, &handle, sizeof handle);
#if !defined __SANITIZE_ADDRESS__ && !defined __SANITIZE_THREAD__
	CHECK(!setrlimit(RLIMIT_AS, &limit));
#else
	(void)limit;
#endif
	for (int i = 0; i < 10000; i++)
		CHECK(!device->open(0, &handle, BLOCK, &ptr) && !end(0, ptr));
}

static void closes_without_end(int in, int out)
{
	(void)out;
	end_without_end(in, device->close);
}

static void resets_without_end(int in, int out)
{
	(void)out;
	end_without_end(in, reset);
}

static void test_closed_memory_takes_few_addresses(void **state)
{
	(void)state;
	EXPECT(closes_without_end, 0, NULL);
	EXPECT(resets_without_end, 0, NULL);
}

/* ---- faults that are the program's ---- */

static uint8_t *own; /* a page of the program, which each fault makes accessible */
static volatile sig_atomic_t own_faults;

static void allow(void)
{
	own_faults++;
	mprotect(own, PAGE, PROT_READ | PROT_WRITE);
}

static void handler_of_address(int signal, siginfo_t *info, void *context)
{
	(void)signal;
	(void)context;
	if ((uint8_t *)info->si_addr >= own && (uint8_t *)info->si_addr < own + PAGE)
		allow();
	else
		_exit(3);
}

static void handler(int signal)
{
	(void)signal;
	allow();
}

static void use_own(int times)
{
	for (int i = 0; i < times; i++) {
		CHECK(!mprotect(own, PAGE, PROT_NONE));
		touch(own + 7);
	}
}

static void own_begin(const struct sigaction *action)
{
	own = mmap(NULL, PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK(own != MAP_FAILED && !sigaction(SIGSEGV, action, NULL));
}

/* Then the device still reports what is its own. */
static void program_has_handler(int in, const struct sigaction *action)
{
	uint8_t *base;

	own_begin(action);
	use_own(1);
	base = opened(in);
	use_own(100);
	CHECK(own_faults == 101 && !kill(getpid(), SIGSEGV));
	touch(base + BLOCK);
}

static void program_has_plain_handler(int in, int out)
{
	(void)out;
	program_has_handler(in, &(struct sigaction){ .sa_handler = handler });
}

static void program_has_handler_of_address(int in, int out)
{
	uint8_t *base;

	(void)out;
	own_begin(&(struct sigaction){ .sa_sigaction = handler_of_address, .sa_flags = SA_SIGINFO | SA_NODEFER });
	base = opened(in);
	use_own(100);
	CHECK(own_faults == 100);
	touch(base - 1);
}

static void handler_is_for_once(int in, int out)
{
	(void)out;
	own_begin(&(struct sigaction){ .sa_handler = handler, .sa_flags = (int)SA_RESETHAND });
	opened(in);
	use_own(1);
	CHECK(own_faults == 1);
	use_own(1);
}

static void test_other_faults_are_the_programs_each_time(void **state)
{
	(void)state;
	EXPECT(program_has_plain_handler, SIGABRT, "VIOLATION: an access outside of");
	EXPECT(program_has_handler_of_address, SIGABRT, "VIOLATION: an access outside of");
	EXPECT(handler_is_for_once, SIGSEGV, NULL);
}

/* ---- without a handler ---- */

static void touches_nothing(int in, int out)
{
	(void)out;
	own_begin(&(struct sigaction){ .sa_handler = SIG_DFL });
	opened(in);
	use_own(1);
}

static void ignores_and_touches_nothing(int in, int out)
{
	(void)out;
	own_begin(&(struct sigaction){ .sa_handler = SIG_IGN });
	opened(in);
	use_own(1);
}

static void is_sent_one(int in, int out)
{
	(void)out;
	own_begin(&(struct sigaction){ .sa_handler = SIG_DFL });
	opened(in);
	kill(getpid(), SIGSEGV);
	fprintf(stderr, "lives\n");
}

static void ignores_one_that_is_sent(int in, int out)
{
	uint8_t *base;

	(void)out;
	own_begin(&(struct sigaction){ .sa_handler = SIG_IGN });
	base = opened(in);
	kill(getpid(), SIGSEGV);
	touch(base + BLOCK);
}

static void test_without_a_handler_the_kernel_decides(void **state)
{
	(void)state;
	EXPECT(touches_nothing, SIGSEGV, NULL);
	EXPECT(ignores_and_touches_nothing, SIGSEGV, NULL);
	EXPECT(is_sent_one, SIGSEGV, NULL);
	EXPECT(ignores_one_that_is_sent, SIGABRT, "VIOLATION: an access outside of");
}

/* A child has none of the memory, and what it does is its own: it ends, though another thread may have had the lock. */
static void child_touches(int in, int out)
{
	uint8_t *base;
	int status;
	pid_t pid;

	(void)out;
	own_begin(&(struct sigaction){ .sa_handler = SIG_DFL });
	base = opened(in);
	pid = fork();
	if (!pid) {
		alarm(20);
		touch(base + BLOCK);
		_exit(0);
	}
	CHECK(waitpid(pid, &status, 0) == pid && WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
}

static void test_a_childs_faults_are_its_own(void **state)
{
	(void)state;
	EXPECT(child_touches, 0, NULL);
}

static int begin(void **state)
{
	(void)state;
	return scenarios_begin(source);
}

static int end(void **state)
{
	(void)state;
	return scenarios_end();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_use_of_closed_memory_is_reported),
		cmocka_unit_test(test_closed_memory_takes_few_addresses),
		cmocka_unit_test(test_other_faults_are_the_programs_each_time),
		cmocka_unit_test(test_without_a_handler_the_kernel_decides),
		cmocka_unit_test(test_a_childs_faults_are_its_own),
	};

	return cmocka_run_group_tests_name("host device: faults", tests, begin, end);
}
