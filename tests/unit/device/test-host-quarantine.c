/* SPDX-License-Identifier: Apache-2.0 */
/* test-host-quarantine.c - what is written to freed memory is found, and memory that somebody truncates ends nobody. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "host-harness.h"

static int group_begin(void **state)
{
	(void)state;
	return scenarios_begin("");
}

static int group_end(void **state)
{
	(void)state;
	return scenarios_end();
}

/* ---- late writes ---- */

static void late_write(uint64_t size, uint64_t at, bool exit_finds_it)
{
	uint8_t *ptr = owner_memory(size);

	CHECK(!device->release(0, ptr));
	host_check_quarantine();
	ptr[at] = 1;
	if (!exit_finds_it)
		host_check_quarantine();
}

static void violate_late_write(void)
{
	late_write(BLOCK, 777, false);
}

static void violate_late_write_last(void)
{
	late_write(BLOCK, BLOCK - 1, false);
}

static void violate_late_write_exit(void)
{
	late_write(BLOCK, 0, true);
}

static void violate_late_write_middle(void)
{
	late_write(32u << 20, (16u << 20) + 1, false);
}

static void violate_late_write_tail(void)
{
	late_write(32u << 20, (32u << 20) - 1, false);
}

static void violate_late_write_evicted(void)
{
	uint8_t *ptr = owner_memory(BLOCK);

	CHECK(!device->release(0, ptr));
	ptr[5] = 1;
	for (int i = 0; i < 16; i++) {
		void *other;

		CHECK(!device->allocate(0, PAGE, EXPORT_IPC, &other) && !device->release(0, other));
	}
	fail_with(__LINE__, "the evicted object was not checked");
}

static void scenario_quarantine(void)
{
	void *ptr[40];

	start(true, 1);
	for (int i = 0; i < 40; i++)
		CHECK(!device->allocate(0, (uint64_t)(i % 4 + 1) * (5u << 20), EXPORT_IPC, &ptr[i]) &&
		      !host_map_owned(ptr[i]));
	for (int i = 0; i < 40; i++) {
		CHECK(!device->release(0, ptr[i]));
		CHECK(*(uint8_t *)ptr[i] == 0xDB);
	}
	host_check_quarantine();
}

/* What is more than the quarantine holds is the machine's again at once. */
static void scenario_small_quarantine(void)
{
	unsigned char resident;
	uint8_t *ptr;

	setenv("GPUB_HOST_QUARANTINE", "64K", 1);
	ptr = owner_memory(BLOCK);
	CHECK(!device->release(0, ptr) && *ptr == 0xDB);
	ptr = owner_memory(BLOCK + PAGE);
	CHECK(!device->release(0, ptr) && mincore(ptr, PAGE, &resident) && errno == ENOMEM);
	host_check_quarantine();
}

static void import_and_write_late(int in, int out)
{
	uint8_t *ptr;

	start(false, 2);
	ptr = import_from(in, 0);
	tell_step(out);
	receive_token(in); /* released under us */
	memset(ptr, 1, BLOCK);
	tell_step(out);
	pause();
}

/* A broker where malicious clients are expected goes on, and the report still stands. */
static void violate_but_go_on(void)
{
	struct peer peer;
	uint8_t *ptr, *other;

	setenv("GPUB_HOST_STRICT", "0", 1);
	peer = peer_start(import_and_write_late);
	ptr = owner_memory(BLOCK);
	export_to(&peer, ptr);
	receive_token(peer.in);
	CHECK(!device->release(0, ptr));
	tell_step(peer.out);
	receive_token(peer.in);
	other = owner_memory(BLOCK);
	CHECK(!device->release(0, other));
	other[9] = 1;
	host_check_quarantine();
	fprintf(stderr, "went on\n");
	abort();
}

static void test_late_writes(void **state)
{
	(void)state;
	expect_violation(violate_late_write, "at byte 777");
	expect_violation(violate_late_write_last, "at byte 65535");
	expect_violation(violate_late_write_exit, "at byte 0");
	expect_violation(violate_late_write_middle, "at byte 16777217");
	expect_violation(violate_late_write_tail, "at byte 33554431");
	expect_violation(violate_late_write_evicted, "at byte 5");
	expect_clean(scenario_quarantine);
	expect_clean(scenario_small_quarantine);
	expect_violation(violate_but_go_on, "while an importer maps it");
	expect_violation(violate_but_go_on, "at byte 9\nwent on");
}

/* ---- truncation ---- */

/* What any process of the same user can do to each object of this owner; the size is what they have afterwards. */
static void objects_resize(const char *size)
{
	char command[128];

	snprintf(command, sizeof command, "for f in /dev/shm%s/*; do truncate -s %s $f || exit 1; done", prefix, size);
	CHECK(!system(command));
}

static void import_and_truncate(int in, int out)
{
	uint8_t *ptr;

	start(false, 2);
	ptr = import_from(in, 0);
	objects_resize("0");
	CHECK(!device->close(0, ptr));
	tell_step(out);
}

/* Released after an importer cut it: survived and said, and the memory is accounted as free. */
static void violate_truncate(void)
{
	struct peer peer;
	struct device_handle handle;
	void *ptr;

	setenv("GPUB_HOST_STRICT", "0", 1);
	setenv("GPUB_HOST_MEMORY", "64K", 1);
	peer = peer_start(import_and_truncate);
	start(true, 2);
	CHECK(!device->allocate(0, BLOCK, EXPORT_IPC, &ptr) && !device->zero(0, ptr, BLOCK));
	export_to(&peer, ptr);
	receive_token(peer.in);
	peer_end(&peer);
	CHECK(!device->export_handle(0, ptr, &handle, &(int){ 0 }));
	CHECK(!device->release(0, ptr));
	host_check_quarantine();
	CHECK(!device->allocate(0, BLOCK, EXPORT_IPC, &ptr) && !device->zero(0, ptr, BLOCK) &&
	      !device->release(0, ptr));
	fprintf(stderr, "went on\n");
	abort();
}

static void violate_truncate_strict(void)
{
	void *ptr;

	start(true, 1);
	CHECK(!device->allocate(0, BLOCK, EXPORT_IPC, &ptr));
	objects_resize("4096");
	device->release(0, ptr);
}

/* Cut before it is zeroed, extended before it is released; large ones, of which only the ends are written. */
static void violate_truncate_moments(void)
{
	void *ptr, *large;

	setenv("GPUB_HOST_STRICT", "0", 1);
	start(true, 1);
	CHECK(!device->allocate(0, BLOCK, EXPORT_IPC, &ptr));
	objects_resize("4096");
	CHECK(device->zero(0, ptr, BLOCK) == -EIO && !device->release(0, ptr));
	CHECK(!device->allocate(0, 32u << 20, EXPORT_IPC, &large));
	objects_resize("64M");
	CHECK(!device->release(0, large));
	CHECK(!device->allocate(0, BLOCK, EXPORT_IPC, &ptr) && !device->release(0, ptr));
	fprintf(stderr, "went on\n");
	abort();
}

/* A descriptor that somebody opened by the name, without the importer's lock, outlives the name. */
static int object_open_unseen(void *ptr)
{
	struct device_handle handle;
	char name[HOST_NAME_SIZE];
	int fd;

	CHECK(!device->export_handle(0, ptr, &handle, &(int){ 0 }) && host_object_name(&handle, name));
	fd = open(name, O_RDWR | O_CLOEXEC);
	CHECK(fd >= 0);
	return fd;
}

static void quarantine_truncate(uint64_t size)
{
	void *ptr;
	int fd;

	setenv("GPUB_HOST_STRICT", "0", 1);
	start(true, 1);
	CHECK(!device->allocate(0, size, EXPORT_IPC, &ptr));
	fd = object_open_unseen(ptr);
	CHECK(!device->release(0, ptr) && !ftruncate(fd, PAGE));
	host_check_quarantine();
	fprintf(stderr, "went on\n");
	abort();
}

/* An allocation is a name here, not memory: a touch is the owner's own bug, and loud. */
static void scenario_owner_touches(void)
{
	static const struct sigaction back = { .sa_handler = SIG_DFL };
	void *ptr;
	int status;
	pid_t pid = fork();

	if (!pid) {
		sigaction(SIGSEGV, &back, NULL); /* a sanitizer's handler would exit */
		start(true, 1);
		CHECK(!device->allocate(0, BLOCK, EXPORT_IPC, &ptr));
		*(volatile uint8_t *)ptr = 1;
		_exit(0);
	}
	CHECK(waitpid(pid, &status, 0) == pid && WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
}

static void violate_truncate_quarantine(void)
{
	quarantine_truncate(BLOCK);
}

static void violate_truncate_quarantine_large(void)
{
	quarantine_truncate(32u << 20);
}

/* Nobody can take the owner down through memory that it gave out. */
static void invariant_5_truncation_is_survived(void **state)
{
	(void)state;
	expect_violation(violate_truncate, "truncated or extended");
	expect_violation(violate_truncate, "device 0)\nwent on");
	expect_violation(violate_truncate_strict, "truncated or extended");
	expect_violation(violate_truncate_moments, "truncated or extended");
	expect_violation(violate_truncate_moments, "(33554432 bytes on device 0)\nwent on");
	expect_violation(violate_truncate_quarantine, "device 0)\nwent on");
	expect_violation(violate_truncate_quarantine_large, "device 0)\nwent on");
	expect_clean(scenario_owner_touches);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_late_writes),
		cmocka_unit_test(invariant_5_truncation_is_survived),
	};

	return cmocka_run_group_tests_name("host device: quarantine", tests, group_begin, group_end);
}
