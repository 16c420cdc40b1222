/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test-host-watch.c - the host device detects accesses outside of a buffer: of copies at the call, of kernels after
 * their run, of anybody's stores when the buffer is closed.
 *
 * Each case is an importer of one block of memory, with buffers where the case needs them. tests/integration/bounds
 * tests what a client sees of it.
 */
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/error.h"
#include "host-harness.h"

static const char source[] =
	"#include <string.h>\\n#include <gpubroker-host.h>\\n"
	"static void fill(const gpub_launch_config *config, void **args) {\\n"
	"	(void)config; memset(*(char **)args[0] + *(long *)args[2], *(int *)args[1], *(unsigned *)args[3]); }\\n"
	"GPUB_HOST_KERNEL(fill, fill, sizeof(char *), sizeof(int), sizeof(long), sizeof(unsigned));\\n";

static struct device_handle handle;

static uint8_t *opened(int in)
{
	void *ptr;

	start(false, 2);
	receive(in, &handle, sizeof handle);
	CHECK(!device->open(0, &handle, BLOCK, &ptr));
	return ptr;
}

static struct device_watch *watched(uint8_t *ptr, uint64_t size, uint64_t room)
{
	static struct device_watch watches[8];
	static unsigned count;
	struct device_watch *watch = &watches[count++];

	*watch = (struct device_watch){ .name = "u", .ptr = ptr, .size = size, .room = room };
	device->watch(watch);
	return watch;
}

/* Its kernel gets ptr, and writes count bytes from ptr + at on. */
static void launch_fill(uint8_t *ptr, long at, unsigned count, int byte)
{
	gpub_launch_config config = GPUB_LAUNCH_INIT;
	void *args[] = { &ptr, &byte, &at, &count }, *module, *kernel;

	config.device = 0;
	CHECK(!device->module_load(twins, &module) && !device->module_kernel(module, "fill", &kernel));
	CHECK(!device->module_launch(kernel, &config, args));
	device->stream_sync(NULL);
}

/* ---- cases: an importer, and how it ends ---- */

static peer_main *importer;
static int wait_status;

static void scenario_importer(void)
{
	struct peer peer;

	signal(SIGSEGV, SIG_DFL); /* the test framework has a handler, and sanitizers have one */
	peer = peer_start(importer);
	export_to(&peer, owner_memory(BLOCK));
	close(peer.out);
	CHECK(waitpid(peer.pid, &wait_status, 0) == peer.pid);
	host_unlink_all();
	_exit(WIFSIGNALED(wait_status) ? WTERMSIG(wait_status) : WEXITSTATUS(wait_status));
}

/* The case ends by that signal, or well (0), and has reported that text, or nothing (NULL). */
static void expect(int line, peer_main *run, int number, const char *report)
{
	char text[4096];
	int status;

	importer = run;
	status = child_status(scenario_importer, text, sizeof text);
	if (!WIFEXITED(status) || WEXITSTATUS(status) != number ||
	    (report && !strstr(text, report)) || (!report && *text))
		fail_msg("line %d: status %#x, wanted signal %d and '%s', got: %s", line, (unsigned)status, number,
			 report ? report : "", text);
}

#define EXPECT(run, number, report) expect(__LINE__, run, number, report)

/* ---- copies ---- */

static bool refused(void *dst, const void *src, uint64_t size, const char *text)
{
	return device->copy(NULL, dst, src, size) == -EINVAL && strstr(error_text(), text);
}

static bool copied(void *dst, const void *src, uint64_t size)
{
	return !device->copy(NULL, dst, src, size) && !device->stream_sync(NULL);
}

static void copies_stay_in_their_buffer(int in, int out)
{
	static uint8_t plain[BLOCK];
	uint8_t *base = opened(in);
	struct device_watch *last;

	(void)out;
	CHECK(copied(plain, base, BLOCK)); /* no buffer is watched yet */
	watched(base + 1024, 1000, 1024);
	watched(base + 3072, 1024, 1024);
	CHECK(copied(base + 1024, plain, 1000) && copied(plain, base + 1024, 1000) && copied(base + 2023, plain, 1));
	CHECK(copied(base + 1024, base + 3072, 1000));
	CHECK(refused(base + 1024, plain, 1001, "end 1 bytes behind the end of 'u', which has 1000"));
	CHECK(refused(plain, base + 1024, 1001, "end 1 bytes behind the end of 'u'"));
	CHECK(refused(base + 2024, plain, 8, "end 8 bytes behind the end of 'u'"));
	CHECK(refused(base + 1024, base + 3072, 1024, "end 24 bytes"));
	CHECK(refused(base + 4096, plain, 1, "end 1 bytes behind the end of 'u', which has 1024"));
	CHECK(refused(base + 1023, plain, 1, "no buffer that this process has open"));
	CHECK(refused(base + 1024, plain, UINT64_MAX, "behind the end of 'u'"));
	/* the ends of the mapping, and the guard pages behind them */
	last = watched(base + BLOCK - 4096, 4096, 4096);
	CHECK(copied(base + BLOCK - 8, plain, 8) && refused(base + BLOCK - 8, plain, 9, "end 1 bytes"));
	CHECK(refused(base + BLOCK, plain, 1, "end 1 bytes behind the end of 'u', which has 4096"));
	CHECK(refused(plain, base + BLOCK + 4095, 1, "end 4096 bytes"));
	CHECK(refused(base - 1, plain, 1, "no buffer") && refused(base - 4096, plain, 8, "no buffer"));
	device->unwatch(last);
	device->unwatch(last);
	CHECK(refused(base + BLOCK - 8, plain, 8, "behind the end of 'u', which has 1024"));
	CHECK(!device->close(0, base));
}

/* Without watched buffers the bounds are those of the mapping. */
static void copies_stay_in_an_unwatched_mapping(int in, int out)
{
	uint8_t *base = opened(in), plain[16] = { 0 };

	(void)out;
	CHECK(copied(base + BLOCK - 16, plain, 16) && refused(base + BLOCK - 8, plain, 16, "leave their allocation"));
	CHECK(refused(base + BLOCK, plain, 16, "leave their allocation"));
	CHECK(refused(plain, base - 1, 1, "leave their allocation"));
	CHECK(!device->close(0, base));
}

static void test_a_copy_that_leaves_its_buffer_is_refused(void **state)
{
	(void)state;
	EXPECT(copies_stay_in_their_buffer, 0, NULL);
	EXPECT(copies_stay_in_an_unwatched_mapping, 0, NULL);
}

/* ---- kernels ---- */

static struct {
	uint64_t at, size, room;
	long     from;
	unsigned count;
	int      byte;
} now;

static void kernel_writes(int in, int out)
{
	uint8_t *base = opened(in);

	(void)out;
	watched(base + now.at, now.size, now.room);
	launch_fill(base + now.at, now.from, now.count, now.byte);
	CHECK(!device->close(0, base));
}

/* At which byte, in a room that ends so far behind the buffer. */
static void expect_overrun(uint64_t size, uint64_t room, long from, unsigned count, int byte)
{
	char report[128];

	now.at = 8192;
	now.size = size;
	now.room = room;
	now.from = from;
	now.count = count;
	now.byte = byte;
	snprintf(report, sizeof report, "VIOLATION: a write behind the end of 'u' (%llu bytes",
		 (unsigned long long)size);
	EXPECT(kernel_writes, (uint64_t)from + count <= size ? 0 : SIGABRT,
	       (uint64_t)from + count <= size ? NULL : report);
	if ((uint64_t)from + count <= size)
		return;
	snprintf(report, sizeof report, "at byte %llu: found after a kernel",
		 (unsigned long long)((uint64_t)from > size ? (uint64_t)from : size));
	EXPECT(kernel_writes, SIGABRT, report);
}

static void test_a_kernel_that_runs_over_is_found_behind_it(void **state)
{
	static const uint64_t sizes[] = { 1, 192, 255, 256, 1000, 4032, 4096 };

	(void)state;
	for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
		expect_overrun(sizes[i], 8192, 0, (unsigned)sizes[i], 7);
		expect_overrun(sizes[i], 8192, 0, (unsigned)sizes[i] + 1, 7);
		expect_overrun(sizes[i], sizes[i] + 1, (long)sizes[i], 1, 7);
	}
	expect_overrun(1000, 1024, 990, 30, 7);
	expect_overrun(1000, 1024, 1023, 1, 7);
	/* programs write zeros most often */
	expect_overrun(1000, 1024, 0, 1001, 0);
}

/* The whole mapping is the buffer: behind it there is only the guard page. */
static void kernel_meets_the_guard(int in, int out)
{
	uint8_t *base = opened(in);

	(void)out;
	watched(base, BLOCK, BLOCK);
	launch_fill(base, 0, BLOCK, 7);
	launch_fill(base, now.from, 1, 7);
}

static void store_meets_the_guard(int in, int out)
{
	uint8_t *base = opened(in);

	(void)out;
	watched(base, BLOCK / 2, BLOCK / 2);
	watched(base + BLOCK / 2, BLOCK / 2, BLOCK / 2);
	((volatile uint8_t *)base)[now.from] = 1;
}

/* The report says which buffer is meant, and by how much the access leaves it. */
static void test_who_leaves_the_mapping_is_told_whose_it_is(void **state)
{
	(void)state;
	now.from = BLOCK - 1;
	EXPECT(kernel_meets_the_guard, 0, NULL);
	now.from = BLOCK;
	EXPECT(kernel_meets_the_guard, SIGABRT, "VIOLATION: an access outside of 'u' (65536 bytes at 0x");
	EXPECT(kernel_meets_the_guard, SIGABRT, "at byte 65536: keep to the lease's ptr and size\n");
	now.from = -1;
	EXPECT(kernel_meets_the_guard, SIGABRT, "at byte -1: keep to");
	now.from = BLOCK - 1;
	EXPECT(store_meets_the_guard, 0, NULL);
	now.from = BLOCK + 8;
	EXPECT(store_meets_the_guard, SIGABRT, "an access outside of 'u' (32768 bytes at 0x");
	EXPECT(store_meets_the_guard, SIGABRT, "at byte 32776: keep to");
	now.from = -4096;
	EXPECT(store_meets_the_guard, SIGABRT, "at byte -4096: keep to");
}

/* ---- stores of the host, and of others ---- */

static void store_found_by_unwatch(int in, int out)
{
	uint8_t *base = opened(in);
	struct device_watch *watch = watched(base, 100, 256);

	(void)out;
	base[99] = 1;
	base[256] = 1;
	base[100 + now.from] = 1;
	device->unwatch(watch);
}

static void store_found_by_close(int in, int out)
{
	uint8_t *base = opened(in);

	(void)out;
	watched(base, 100, 256);
	base[255] = 1;
	device->close(0, base);
}

static void store_found_by_the_next_watch(int in, int out)
{
	uint8_t *base = opened(in);

	(void)out;
	base[100] = 1;
	watched(base, 100, 256);
}

static void test_stores_are_found_at_the_end(void **state)
{
	(void)state;
	now.from = -1;
	EXPECT(store_found_by_unwatch, 0, NULL);
	now.from = 0;
	EXPECT(store_found_by_unwatch, SIGABRT, "at byte 100: found when it was closed");
	EXPECT(store_found_by_close, SIGABRT, "at byte 255: found when it was closed");
	EXPECT(store_found_by_the_next_watch, SIGABRT, "at byte 100: found when it was opened");
}

/*
 * Two watches of one buffer, as two processes have, do not take each other's poison for a write. The mapping's end ends
 * both.
 */
static void two_watch_one_buffer(int in, int out)
{
	uint8_t *base = opened(in);
	struct device_watch *one = watched(base, 100, 256), *two = watched(base, 100, 256);

	(void)out;
	device->unwatch(one);
	launch_fill(base, 0, 100, 7);
	CHECK(!device->close(0, base));
	device->unwatch(two);
}

/* No room is larger than the mapping, and without room no poison is written. */
static void rooms_are_bounded(int in, int out)
{
	uint8_t *base = opened(in);

	(void)out;
	watched(base + 1024, 100, 0);
	CHECK(!base[1124]);
	watched(base + BLOCK - 256, 100, UINT64_MAX);
	CHECK(base[BLOCK - 1]);
	CHECK(!device->close(0, base));
}

static void test_watches_do_not_disturb_each_other(void **state)
{
	(void)state;
	EXPECT(two_watch_one_buffer, 0, NULL);
	EXPECT(rooms_are_bounded, 0, NULL);
}

/* ---- what others did ---- */

/* Reported once, and survived where malicious processes are expected. */
static void lenient_goes_on(int in, int out)
{
	uint8_t *base;
	struct device_watch *watch;

	(void)out;
	setenv("GPUB_HOST_STRICT", "0", 1);
	base = opened(in);
	watch = watched(base, 100, 256);
	launch_fill(base, 0, 101, 7);
	fprintf(stderr, "went on\n");
	launch_fill(base, 0, 101, 7);
	device->unwatch(watch);
	CHECK(!device->close(0, base));
	fprintf(stderr, "and on\n");
}

static void truncated_is_no_overrun(int in, int out)
{
	uint8_t *base = opened(in);
	struct device_watch *watch = watched(base + 8192, 100, 256);
	char name[HOST_NAME_SIZE];

	(void)out;
	CHECK(host_object_name(&handle, name) && !truncate(name, 8192 + 150));
	device->unwatch(watch);
	watched(base + 8192, 100, 256);
	watched(base + 16384, 100, 256);
	CHECK(!device->close(0, base));
}

static void invariant_5_a_truncating_process_does_not_end_the_checking_one(void **state)
{
	(void)state;
	EXPECT(lenient_goes_on, 0, "found after a kernel that was given it\nwent on\nand on\n");
	EXPECT(truncated_is_no_overrun, 0, NULL);
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
		cmocka_unit_test(test_a_copy_that_leaves_its_buffer_is_refused),
		cmocka_unit_test(test_a_kernel_that_runs_over_is_found_behind_it),
		cmocka_unit_test(test_who_leaves_the_mapping_is_told_whose_it_is),
		cmocka_unit_test(test_stores_are_found_at_the_end),
		cmocka_unit_test(test_watches_do_not_disturb_each_other),
		cmocka_unit_test(invariant_5_a_truncating_process_does_not_end_the_checking_one),
	};

	return cmocka_run_group_tests_name("host bounds", tests, begin, end);
}
