/* SPDX-License-Identifier: Apache-2.0 */
/* test-host-device.c - the host device keeps CUDA's rules, and says so when somebody else breaks them. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/error.h"
#include "device/select.h"
#include "host-harness.h"

static uint64_t *page_make(bool writable)
{
	uint64_t *page = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	CHECK(page != MAP_FAILED && !madvise(page, PAGE, MADV_DONTFORK));
	CHECK(!device->page_register(page, PAGE, writable));
	return page;
}

static void nap_ms(long ms)
{
	nanosleep(&(struct timespec){ ms / 1000, ms % 1000 * 1000000 }, NULL);
}

static double now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec * 1e3 + (double)now.tv_nsec / 1e6;
}

static uint64_t word_load(const uint64_t *word)
{
	return __atomic_load_n(word, __ATOMIC_ACQUIRE);
}

/* ---- start, devices, choice ---- */

static void scenario_start(void)
{
	struct device_setup setup = { .host_count = 3 };
	struct device_info one, other;

	CHECK(device->count() == -ENODEV);
	start(false, 3);
	CHECK(!device->start(&setup));
	setup.host_count = 2;
	CHECK(device->start(&setup) == -EINVAL);
	setup.host_count = DEVICE_MAX + 1;
	CHECK(device->start(&setup) == -EINVAL);
	CHECK(device->count() == 3 && host_total() == 3);
	CHECK(!device->info(0, &one) && !device->info(2, &other));
	CHECK(memcmp(one.uuid, other.uuid, 16) && !memcmp(other.uuid, "host device 2", 14));
	CHECK(one.granule == 4096 && one.memory % 4096 == 0 && one.memory > 0);
	CHECK(device->info(3, &one) == -ENODEV && device->info(-1, &one) == -ENODEV);
	CHECK(device->current() == 0 && !device->set_current(2) && device->current() == 2);
	CHECK(device->set_current(3) == -ENODEV && device->current() == 2);
}

static void test_start(void **state)
{
	(void)state;
	expect_clean(scenario_start);
}

static void scenario_visible(void)
{
	struct device_info info;

	setenv("GPUB_HOST_VISIBLE", "2,0,9,1", 1);
	start(false, 3);
	CHECK(device->count() == 2 && host_total() == 3);
	CHECK(!device->info(0, &info) && !strcmp((char *)info.uuid, "host device 2"));
	CHECK(!device->info(1, &info) && !strcmp((char *)info.uuid, "host device 0"));
}

static void scenario_environment(void)
{
	struct device_setup setup = { .owner = true, .host_count = 2 };
	struct device_info info;

	setenv("GPUB_HOST_VISIBLE", "1,1", 1);
	CHECK(device->start(&setup) == -EINVAL);
	setenv("GPUB_HOST_VISIBLE", "-1", 1);
	CHECK(device->start(&setup) == -ENODEV);
	unsetenv("GPUB_HOST_VISIBLE");
	setenv("GPUB_HOST_FAIL", "close:3", 1);
	CHECK(device->start(&setup) == -EINVAL);
	setenv("GPUB_HOST_FAIL", "close:3:EWHAT", 1);
	CHECK(device->start(&setup) == -EINVAL);
	unsetenv("GPUB_HOST_FAIL");
	setenv("GPUB_HOST_MEMORY", "lots", 1);
	CHECK(device->start(&setup) == -EINVAL);
	setenv("GPUB_HOST_QUARANTINE", "little", 1);
	setenv("GPUB_HOST_MEMORY", "3M", 1);
	CHECK(device->start(&setup) == -EINVAL && strstr(error_text(), "GPUB_HOST_QUARANTINE='little'"));
	setenv("GPUB_HOST_QUARANTINE", "0", 1);
	CHECK(!device->start(&setup) && !device->info(1, &info) && info.memory == 3u << 20);
}

static void test_environment(void **state)
{
	(void)state;
	expect_clean(scenario_visible);
	expect_clean(scenario_environment);
}

static void scenario_select(void)
{
	const struct device *chosen = NULL;
	static const char *const bad[] = { "", "hos", "host:", "host:0", "host:65", "host:1x", "host:-1", "host:0001", NULL };

	for (int i = 0; bad[i]; i++) {
		CHECK(device_check(bad[i]) == -EINVAL);
		CHECK(device_select(bad[i], false, &chosen) == -EINVAL && !chosen);
	}
	CHECK(device_check(NULL) == -EINVAL && !device_check("auto") && !device_check("host:64"));
	CHECK(!device_select("host:2", true, &chosen) && chosen == &device_host && chosen->count() == 2);
}

static void test_select(void **state)
{
	(void)state;
	expect_clean(scenario_select);
}

/* ---- memory ---- */

static void scenario_allocate(void)
{
	uint8_t *first;
	void *ptr = NULL, *other;

	setenv("GPUB_HOST_MEMORY", "8M", 1);
	start(true, 2);
	CHECK(device->allocate(0, 4095, &ptr) == -EINVAL && device->allocate(0, 0, &ptr) == -EINVAL && !ptr);
	CHECK(device->allocate(0, (8u << 20) + 4096, &ptr) == -ENOMEM && !ptr);
	CHECK(device->allocate(2, 4096, &ptr) == -ENODEV);
	CHECK(!device->allocate(0, 8u << 20, &ptr));
	CHECK(device->allocate(0, 4096, &other) == -ENOMEM);
	CHECK(!device->allocate(1, 4096, &other) && !device->release(1, other));
	first = ptr;
	CHECK(!host_map_owned(ptr));
	CHECK(first[0] && first[(8u << 20) - 1]); /* fresh memory is not zeros */
	CHECK(device->zero(0, ptr, (8u << 20) + 1) == -EINVAL && device->zero(1, ptr, 1) == -EINVAL);
	CHECK(!device->zero(0, ptr, 8u << 20) && !first[0] && !first[(8u << 20) - 1]);
	CHECK(device->release(1, ptr) == -EINVAL && !device->release(0, ptr));
	CHECK(!device->allocate(0, 8u << 20, &ptr) && !device->release(0, ptr));
}

static void scenario_full(void)
{
	void *ptr;

	setenv("GPUB_HOST_MEMORY", "1000000G", 1);
	start(true, 1);
	CHECK(device->allocate(0, 900000ull << 30, &ptr) == -ENOSPC && strstr(error_text(), "/dev/shm"));
}

static void scenario_prefix(void)
{
	char names[128];
	void *ptr;

	CHECK(host_set_prefix("nothing.mem") == -EINVAL && host_set_prefix("/a/b.mem") == -EINVAL);
	CHECK(host_set_prefix("/gpubroker.12345") == -EINVAL && host_set_prefix("/.mem") == -EINVAL);
	CHECK(host_set_prefix("/123456789012345678901234567890123456789012345.mem") == -EINVAL);
	CHECK(!host_set_prefix("/gpubroker.12345678901234567890.mem"));
	start(true, 1);
	CHECK(!device->allocate(0, BLOCK, &ptr));
	snprintf(names, sizeof names, "ls -d /dev/shm%s/* | grep -cqE '%s/[0-9a-f]{32}$'", prefix, prefix);
	CHECK(!system(names));
	CHECK(!device->release(0, ptr) && system(names));
}

/* ---- the directory of the memory, where everybody may make one ---- */

static char directory[48];

static void keep_is_refused(void)
{
	CHECK(host_keep_directory() == -EEXIST);
	CHECK(strstr(error_text(), directory) && strstr(error_text(), "choose another instance name"));
}

/* What somebody put in its place is neither used nor changed, and no memory is made in it. */
static void scenario_squatted(void)
{
	char elsewhere[64];
	struct stat st;
	void *ptr;

	snprintf(elsewhere, sizeof elsewhere, "%s.elsewhere", directory);
	start(true, 1);
	/* its own user's, and open to others */
	CHECK(!mkdir(directory, 0700) && !chmod(directory, 0777));
	keep_is_refused();
	CHECK(device->allocate(0, BLOCK, &ptr) == -EEXIST);
	CHECK(!stat(directory, &st) && (st.st_mode & 07777) == 0777 && !rmdir(directory));
	/* a link to what would be good */
	CHECK(!mkdir(elsewhere, 0700) && !symlink(elsewhere, directory));
	keep_is_refused();
	CHECK(device->allocate(0, BLOCK, &ptr) == -EEXIST);
	CHECK(!unlink(directory) && !rmdir(elsewhere));
	CHECK(!mknod(directory, S_IFREG | 0700, 0));
	keep_is_refused();
	CHECK(!unlink(directory));
	/* another user's, that looks like its own */
	CHECK(!mkdir(directory, 0700));
	if (!geteuid()) {
		CHECK(!chown(directory, 4001, 4001));
		keep_is_refused();
		CHECK(device->allocate(0, BLOCK, &ptr) == -EEXIST && !chown(directory, 0, 0));
	}
	CHECK(!host_keep_directory() && !device->allocate(0, BLOCK, &ptr));
	CHECK(!device->release(0, ptr) && !rmdir(directory));
}

/* With others let in it is another mode that is right. */
static void scenario_squatted_shared(void)
{
	struct stat st;

	host_share_memory(true);
	start(true, 1);
	CHECK(!mkdir(directory, 0700));
	keep_is_refused();
	CHECK(!rmdir(directory) && !host_keep_directory());
	CHECK(!stat(directory, &st) && (st.st_mode & 0777) == 0711 && !rmdir(directory));
}

/* It is there from the beginning, and also while it is empty: nobody else can take its name. */
static void scenario_kept(void)
{
	void *ptr;

	start(true, 1);
	CHECK(!host_keep_directory() && !access(directory, F_OK));
	for (int i = 0; i < 3; i++) {
		CHECK(!device->allocate(0, BLOCK, &ptr) && !device->release(0, ptr));
		CHECK(mkdir(directory, 0700) && errno == EEXIST);
	}
	CHECK(!rmdir(directory));
}

/* Who did not ask for that leaves none behind. */
static void scenario_not_kept(void)
{
	void *ptr;

	start(true, 1);
	CHECK(!device->allocate(0, BLOCK, &ptr) && !access(directory, F_OK) && !device->release(0, ptr));
	CHECK(access(directory, F_OK) && errno == ENOENT);
}

static void test_directory(void **state)
{
	(void)state;
	snprintf(directory, sizeof directory, "/dev/shm%s", prefix);
	expect_clean(scenario_squatted);
	expect_clean(scenario_squatted_shared);
	expect_clean(scenario_kept);
	expect_clean(scenario_not_kept);
}

static void test_allocate(void **state)
{
	(void)state;
	expect_clean(scenario_allocate);
	expect_clean(scenario_full);
	expect_clean(scenario_prefix);
}

static void import_and_write(int in, int out)
{
	struct device_handle handle;
	void *once, *again, *elsewhere;

	start(false, 2);
	hear(in, &handle, sizeof handle);
	CHECK(device->open(0, &handle, BLOCK + 1, &once) == -EINVAL);
	CHECK(!device->open(0, &handle, BLOCK, &once) && !device->open(0, &handle, 100, &again) && once == again);
	CHECK(!device->open(1, &handle, BLOCK, &elsewhere) && elsewhere != once);
	memcpy(once, "hello", 6);
	CHECK(!strcmp(elsewhere, "hello"));
	CHECK(device->close(1, once) == -EINVAL && device->close(0, (char *)once + 1) == -EINVAL);
	CHECK(!device->close(0, once) && !strcmp(once, "hello") && !device->close(0, once));
	CHECK(device->close(0, once) == -EINVAL && !device->close(1, elsewhere));
	tell_token(out);
	hear_token(in); /* released meanwhile */
	CHECK(device->open(0, &handle, BLOCK, &once) == -ENOENT);
	handle.bytes[0] = 'x';
	CHECK(device->open(0, &handle, BLOCK, &once) == -EINVAL);
	memset(&handle, '/', sizeof handle);
	CHECK(device->open(0, &handle, BLOCK, &once) == -EINVAL);
	tell_token(out);
}

static void scenario_import(void)
{
	struct peer peer = peer_start(import_and_write);
	uint8_t *ptr = owner_memory(BLOCK);

	export_to(&peer, ptr);
	hear_token(peer.in);
	CHECK(!strcmp((char *)ptr, "hello"));
	CHECK(!device->release(0, ptr));
	tell_token(peer.out);
	hear_token(peer.in);
	peer_end(&peer);
}

static void test_import(void **state)
{
	(void)state;
	expect_clean(scenario_import);
}

static void violate_import_own(void)
{
	struct device_handle handle;
	void *ptr = owner_memory(BLOCK), *other;

	CHECK(!device->export_handle(0, ptr, &handle));
	device->open(0, &handle, BLOCK, &other);
}

static void violate_export_inside(void)
{
	struct device_handle handle;

	device->export_handle(0, owner_memory(BLOCK) + 256, &handle);
}

static void violate_release_twice(void)
{
	void *ptr = owner_memory(BLOCK);

	CHECK(!device->release(0, ptr));
	device->release(0, ptr);
}

static void violate_release_foreign(void)
{
	static uint8_t mine[PAGE];

	start(true, 1);
	device->release(0, mine);
}

static void violate_release_inside(void)
{
	device->release(0, owner_memory(BLOCK) + 1);
}

static void violate_client_allocates(void)
{
	void *ptr;

	start(false, 1);
	device->allocate(0, BLOCK, &ptr);
}

static void violate_use_after_fork(void)
{
	uint8_t *ptr = owner_memory(BLOCK);
	int status;
	pid_t pid = fork();

	if (!pid)
		device->zero(0, ptr, 1);
	CHECK(waitpid(pid, &status, 0) == pid && WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
	abort(); /* its report stands on the same stderr */
}

static void test_owner_violations(void **state)
{
	(void)state;
	expect_violation(violate_import_own, "import of");
	expect_violation(violate_export_inside, "not the base");
	expect_violation(violate_release_twice, "released before");
	expect_violation(violate_release_foreign, "did not allocate");
	expect_violation(violate_release_inside, "did not allocate");
	expect_violation(violate_use_after_fork, "forked after the device was started");
}

static void import_and_wait(int in, int out)
{
	start(false, 2);
	import_from(in, 0);
	tell_token(out);
	pause();
}

static void violate_release_mapped(void)
{
	struct peer peer = peer_start(import_and_wait);
	uint8_t *ptr = owner_memory(BLOCK);

	export_to(&peer, ptr);
	hear_token(peer.in);
	device->release(0, ptr);
}

/* The importer dies, but left a child that kept its descriptors, as a CUDA process may. */
static void import_and_fork(int in, int out)
{
	start(false, 2);
	import_from(in, 0);
	if (!fork()) {
		close(STDOUT_FILENO); /* nobody waits for it */
		close(STDERR_FILENO);
		alarm(10);
		tell_token(out);
		pause();
	}
	pause();
}

static void violate_release_held_by_child(void)
{
	struct peer peer = peer_start(import_and_fork);
	uint8_t *ptr = owner_memory(BLOCK);

	export_to(&peer, ptr);
	hear_token(peer.in);
	kill(peer.pid, SIGKILL);
	waitpid(peer.pid, NULL, 0);
	device->release(0, ptr);
}

/* The same with a child that lets go. It then exits through exit(): nothing of its parent's is checked or removed. */
static void import_and_fork_well(int in, int out)
{
	start(false, 2);
	import_from(in, 0);
	if (!fork()) {
		struct device_setup setup = { 0 };

		device->child_after_fork();
		CHECK(device->start(&setup) == -ENOTSUP);
		tell_token(out);
		nap_ms(300);
		exit(0);
	}
	pause();
}

static void scenario_child_lets_go(void)
{
	struct peer peer = peer_start(import_and_fork_well);
	uint8_t *ptr = owner_memory(BLOCK);

	export_to(&peer, ptr);
	hear_token(peer.in);
	kill(peer.pid, SIGKILL);
	waitpid(peer.pid, NULL, 0);
	CHECK(!device->release(0, ptr));
}

static void importer_releases(int in, int out)
{
	uint8_t *ptr;

	start(true, 2); /* else it would be refused as no owner */
	ptr = import_from(in, 0);
	(void)out;
	device->release(0, ptr);
}

static void importer_exports(int in, int out)
{
	struct device_handle handle;

	start(false, 2);
	(void)out;
	device->export_handle(0, import_from(in, 0), &handle);
}

static void peer_violation(peer_main *run)
{
	struct peer peer = peer_start(run);
	int status;

	export_to(&peer, owner_memory(BLOCK));
	CHECK(waitpid(peer.pid, &status, 0) == peer.pid && WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
	host_unlink_all();
	abort();
}

static void violate_release_by_importer(void)
{
	peer_violation(importer_releases);
}

static void violate_export_by_importer(void)
{
	peer_violation(importer_exports);
}

static void test_importer_violations(void **state)
{
	(void)state;
	expect_violation(violate_release_mapped, "while an importer maps it");
	expect_violation(violate_release_held_by_child, "while an importer maps it");
	expect_clean(scenario_child_lets_go);
	expect_violation(violate_export_by_importer, "itself imported");
}

/* So a client path that reached an allocate or a free would end every test that goes through it. */
static void invariant_1_no_client_allocates_or_frees(void **state)
{
	(void)state;
	expect_violation(violate_client_allocates, "no owner");
	expect_violation(violate_release_by_importer, "by an importer");
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

		CHECK(!device->allocate(0, PAGE, &other) && !device->release(0, other));
	}
	give_up(__LINE__, "the evicted object was not checked");
}

static void scenario_quarantine(void)
{
	void *ptr[40];

	start(true, 1);
	for (int i = 0; i < 40; i++)
		CHECK(!device->allocate(0, (uint64_t)(i % 4 + 1) * (5u << 20), &ptr[i]) && !host_map_owned(ptr[i]));
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
	tell_token(out);
	hear_token(in); /* released under us */
	memset(ptr, 1, BLOCK);
	tell_token(out);
	pause();
}

/* A broker where liars are expected goes on, and the report still stands. */
static void violate_but_go_on(void)
{
	struct peer peer;
	uint8_t *ptr, *other;

	setenv("GPUB_HOST_STRICT", "0", 1);
	peer = peer_start(import_and_write_late);
	ptr = owner_memory(BLOCK);
	export_to(&peer, ptr);
	hear_token(peer.in);
	CHECK(!device->release(0, ptr));
	tell_token(peer.out);
	hear_token(peer.in);
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
	tell_token(out);
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
	CHECK(!device->allocate(0, BLOCK, &ptr) && !device->zero(0, ptr, BLOCK));
	export_to(&peer, ptr);
	hear_token(peer.in);
	peer_end(&peer);
	CHECK(!device->export_handle(0, ptr, &handle));
	CHECK(!device->release(0, ptr));
	host_check_quarantine();
	CHECK(!device->allocate(0, BLOCK, &ptr) && !device->zero(0, ptr, BLOCK) && !device->release(0, ptr));
	fprintf(stderr, "went on\n");
	abort();
}

static void violate_truncate_strict(void)
{
	void *ptr;

	start(true, 1);
	CHECK(!device->allocate(0, BLOCK, &ptr));
	objects_resize("4096");
	device->release(0, ptr);
}

/* Cut before it is zeroed, extended before it is released; large ones, of which only the ends are written. */
static void violate_truncate_moments(void)
{
	void *ptr, *large;

	setenv("GPUB_HOST_STRICT", "0", 1);
	start(true, 1);
	CHECK(!device->allocate(0, BLOCK, &ptr));
	objects_resize("4096");
	CHECK(device->zero(0, ptr, BLOCK) == -EIO && !device->release(0, ptr));
	CHECK(!device->allocate(0, 32u << 20, &large));
	objects_resize("64M");
	CHECK(!device->release(0, large));
	CHECK(!device->allocate(0, BLOCK, &ptr) && !device->release(0, ptr));
	fprintf(stderr, "went on\n");
	abort();
}

/* A descriptor that somebody opened by the name, without the importer's lock, outlives the name. */
static int object_open_unseen(void *ptr)
{
	struct device_handle handle;
	char name[HOST_NAME_SIZE];
	int fd;

	CHECK(!device->export_handle(0, ptr, &handle) && host_object_name(&handle, name));
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
	CHECK(!device->allocate(0, size, &ptr));
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
		CHECK(!device->allocate(0, BLOCK, &ptr));
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

/* ---- streams ---- */

static void scenario_streams(void)
{
	uint64_t *page, data = 41, seen = 0;
	void *one, *two;

	start(false, 2);
	page = page_make(true);
	CHECK(!device->stream_create(0, &one) && !device->stream_create(1, &two));
	CHECK(!device->stream_wait(one, &page[0], 7));
	CHECK(!device->stream_write(one, &page[1], 1));
	CHECK(!device->copy(one, &seen, &data, sizeof data));
	nap_ms(30);
	CHECK(!word_load(&page[1]) && data == 41);
	CHECK(!device->stream_write(two, &page[0], 8));
	CHECK(!device->stream_sync(one) && word_load(&page[1]) == 1 && seen == 41);
	/* Signed and cyclic: INT64_MAX releases, UINT64_MAX is behind 1. A plain store, without a wake, is enough. */
	CHECK(!device->stream_wait(one, &page[2], 1) && !device->stream_write(one, &page[3], 1));
	__atomic_store_n(&page[2], UINT64_MAX, __ATOMIC_RELEASE);
	nap_ms(30);
	CHECK(!word_load(&page[3]));
	__atomic_store_n(&page[2], INT64_MAX, __ATOMIC_RELEASE);
	CHECK(!device->stream_sync(one) && word_load(&page[3]));
	/* the default stream: not ordered with others */
	CHECK(!device->stream_wait(one, &page[4], 1) && !device->stream_write(NULL, &page[5], 1));
	CHECK(!device->stream_sync(NULL) && word_load(&page[5]));
	/* destroy does not wait, and what was queued still runs */
	CHECK(!device->stream_write(one, &page[6], 1));
	device->stream_destroy(one);
	CHECK(device->stream_sync(one) == -EINVAL && device->stream_write(one, page, 1) == -EINVAL);
	CHECK(!word_load(&page[6]));
	CHECK(!device->stream_write(two, &page[4], 1));
	while (!word_load(&page[6]))
		nap_ms(1);
	CHECK(device->stream_write(&page, page, 1) == -EINVAL);
	CHECK(device->stream_write(two, (uint64_t *)((char *)page + 4), 1) == -EINVAL);
	device->stream_destroy(NULL);
	device->stream_destroy(two);
	device->stream_destroy(two);
}

static void *parked_writer(void *argument)
{
	uint64_t *page = argument;

	nap_ms(20);
	__atomic_store_n(&page[0], 1, __ATOMIC_RELEASE);
	return NULL;
}

/* A reader may have the page read-only: a waiter needs no write right, and the futex works on it. */
static void scenario_wait_read_only(void)
{
	int fd = memfd_create("timeline", MFD_CLOEXEC);
	uint64_t *write, *read;
	pthread_t thread;

	CHECK(fd >= 0 && !ftruncate(fd, PAGE));
	write = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	read = mmap(NULL, PAGE, PROT_READ, MAP_SHARED, fd, 0);
	CHECK(write != MAP_FAILED && read != MAP_FAILED && !madvise(read, PAGE, MADV_DONTFORK));
	start(false, 1);
	CHECK(!device->page_register(read, PAGE, false));
	CHECK(device->page_register(read, PAGE, false) == -EEXIST);
	CHECK(!device->stream_wait(NULL, read, 1));
	CHECK(!pthread_create(&thread, NULL, parked_writer, write));
	CHECK(!device->stream_sync(NULL));
	pthread_join(thread, NULL);
}

static void scenario_seed(void)
{
	uint64_t *page;
	void *stream[8];

	setenv("GPUB_HOST_SEED", "42", 1);
	start(false, 1);
	page = page_make(true);
	for (int i = 0; i < 8; i++)
		CHECK(!device->stream_create(0, &stream[i]));
	for (uint64_t round = 1; round <= 100; round++)
		for (int i = 0; i < 8; i++)
			CHECK(!device->stream_write(stream[i], &page[i], round));
	for (int i = 0; i < 8; i++) {
		CHECK(!device->stream_sync(stream[i]) && word_load(&page[i]) == 100);
		device->stream_destroy(stream[i]);
	}
}

static void test_streams(void **state)
{
	(void)state;
	expect_clean(scenario_streams);
	expect_clean(scenario_wait_read_only);
	expect_clean(scenario_seed);
}

static void violate_write_unregistered(void)
{
	static uint64_t word;

	start(false, 1);
	device->stream_write(NULL, &word, 1);
}

static void violate_wait_unregistered(void)
{
	static uint64_t word;

	start(false, 1);
	device->stream_wait(NULL, &word, 1);
}

static void violate_write_read_only(void)
{
	start(false, 1);
	device->stream_write(NULL, page_make(false), 1);
}

static void violate_page_private(void)
{
	void *page = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	start(false, 1);
	CHECK(!madvise(page, PAGE, MADV_DONTFORK));
	device->page_register(page, PAGE, true);
}

static void violate_page_forked(void)
{
	void *page = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	start(false, 1);
	device->page_register(page, PAGE, true);
}

static void violate_copy_across(void)
{
	uint8_t *ptr = owner_memory(BLOCK);
	char data[16] = "";

	CHECK(device->copy(NULL, ptr + BLOCK - 8, data, sizeof data) == -EINVAL);
	CHECK(!device->copy(NULL, ptr + BLOCK - 16, data, sizeof data) && !device->stream_sync(NULL));
	CHECK(!device->set_current(1));
	device->copy(NULL, data, ptr + 1, sizeof data);
}

static void violate_copy_released(void)
{
	uint8_t *ptr = owner_memory(BLOCK);
	char data[16];

	CHECK(!device->release(0, ptr));
	device->copy(NULL, data, ptr, sizeof data);
}

static void test_stream_violations(void **state)
{
	(void)state;
	expect_violation(violate_write_unregistered, "no registered page");
	expect_violation(violate_wait_unregistered, "no registered page");
	expect_violation(violate_write_read_only, "read-only");
	expect_violation(violate_page_private, "not MAP_SHARED");
	expect_violation(violate_page_forked, "not MADV_DONTFORK");
	expect_violation(violate_copy_across, "is of device 0");
	expect_violation(violate_copy_released, "was released");
}

/* ---- what hurts ---- */

static void *late_launcher(void *argument)
{
	uint64_t *page = argument;

	nap_ms(60); /* the close is under way */
	CHECK(!device->stream_write(NULL, &page[1], 1));
	CHECK(word_load(&page[0]) == 1); /* it got through only behind the close, which waited for this */
	return NULL;
}

static void *late_releaser(void *argument)
{
	uint64_t *page = argument;

	nap_ms(200);
	__atomic_store_n(&page[0], 1, __ATOMIC_RELEASE);
	return NULL;
}

static unsigned opens_left; /* of the handle, behind the close */

static void import_and_close_slowly(int in, int out)
{
	struct device_handle handle;
	pthread_t launcher, releaser;
	uint64_t *page;
	double before;
	void *stream, *elsewhere, *ptr;

	start(false, 2);
	hear(in, &handle, sizeof handle);
	for (unsigned i = 0; i <= opens_left; i++)
		CHECK(!device->open(0, &handle, BLOCK, &ptr));
	page = page_make(true);
	CHECK(!device->stream_create(0, &stream) && !device->stream_wait(stream, &page[0], 1));
	/* another device is another context, which no close waits for: this ends behind it */
	CHECK(!device->stream_create(1, &elsewhere) && !device->stream_wait(elsewhere, &page[2], 1));
	CHECK(!pthread_create(&launcher, NULL, late_launcher, page));
	before = now_ms();
	CHECK(!pthread_create(&releaser, NULL, late_releaser, page));
	CHECK(!device->close(0, ptr) && now_ms() - before >= 190);
	CHECK(word_load(&page[0]) == 1);
	pthread_join(launcher, NULL);
	pthread_join(releaser, NULL);
	CHECK(!device->stream_sync(NULL) && word_load(&page[1]));
	__atomic_store_n(&page[2], 1, __ATOMIC_RELEASE);
	CHECK(!device->stream_sync(elsewhere));
	for (unsigned i = 0; i < opens_left; i++)
		CHECK(!device->close(0, ptr));
	CHECK(device->close(0, ptr) == -EINVAL);
	tell_token(out);
}

static void scenario_close_waits(void)
{
	struct peer peer = peer_start(import_and_close_slowly);
	uint8_t *ptr = owner_memory(BLOCK);

	export_to(&peer, ptr);
	hear_token(peer.in);
	CHECK(!device->release(0, ptr));
	peer_end(&peer);
}

static void test_close_waits(void **state)
{
	(void)state;
	for (opens_left = 0; opens_left < 2; opens_left++)
		expect_clean(scenario_close_waits);
}

/* ---- modules ---- */

static int twins_build(void **state)
{
	(void)state;
	return scenarios_begin(
		"#include <unistd.h>\\n#include <gpubroker-host.h>\\n"
		"unsigned long counter = 5;\\n"
		"static void add(const gpub_launch_config *config, void **args) {\\n"
		"	int *to = *(int **)args[0]; *to += *(int *)args[1] * (int)config->grid[0]; counter++; }\\n"
		"static void nap(const gpub_launch_config *config, void **args) {\\n"
		"	(void)config; usleep(*(unsigned *)args[0]); counter++; }\\n"
		"static void set(const gpub_launch_config *config, void **args) {\\n"
		"	(void)config; __atomic_store_n(*(int **)args[0], 1, __ATOMIC_RELEASE); }\\n"
		"GPUB_HOST_KERNEL(add, add, sizeof(int *), sizeof(int));\\n"
		"GPUB_HOST_KERNEL(set, set, sizeof(int *));\\n"
		"GPUB_HOST_KERNEL(nap, nap, sizeof(unsigned));\\n");
}

static int twins_remove(void **state)
{
	(void)state;
	return scenarios_end();
}

static void *twin(void *module, const char *symbol)
{
	void *kernel;

	CHECK(!device->module_kernel(module, symbol, &kernel));
	return kernel;
}

static int launch(void *kernel, void *stream, int ordinal, void *first, int second)
{
	gpub_launch_config config = GPUB_LAUNCH_INIT;
	void *args[] = { &first, &second };

	config.device = ordinal;
	config.stream = stream;
	config.grid[0] = 3;
	return device->module_launch(kernel, &config, args);
}

static void scenario_module(void)
{
	gpub_launch_config config = GPUB_LAUNCH_INIT;
	void *module, *kernel, *stream, *managed, *args[1];
	unsigned us = 50000;
	size_t size;
	int sum = 0;

	start(false, 2);
	CHECK(device->module_load("/nonexistent/x.so", &module) == -ENOENT);
	CHECK(device->module_load("/etc/passwd", &module) == -ENOEXEC);
	CHECK(!device->module_load(twins, &module));
	CHECK(device->module_kernel(module, "nothing", &kernel) == -ENOENT);
	CHECK(twin(module, "add") == twin(module, "add"));
	CHECK(!device->module_managed(module, "counter", &managed, &size) && size == sizeof(long));
	CHECK(device->module_managed(module, "missing", &managed, &size) == -ENOENT && *(long *)managed == 5);
	CHECK(!device->stream_create(1, &stream));
	CHECK(!launch(twin(module, "add"), stream, 1, &sum, 4) && !device->stream_sync(stream) && sum == 12);
	CHECK(!launch(twin(module, "add"), NULL, 0, &sum, 1) && !device->stream_sync(NULL) && sum == 15);
	CHECK(launch(twin(module, "add"), stream, 0, &sum, 4) == -EINVAL);
	CHECK(launch(twin(module, "add"), stream, 2, &sum, 4) == -ENODEV);
	args[0] = &us;
	config.device = 1;
	config.stream = stream;
	kernel = twin(module, "nap");
	CHECK(!device->module_launch(kernel, &config, args));
	us = 0; /* copied at the launch */
	CHECK(*(long *)managed == 7);
	CHECK(!device->module_unload(module));
	CHECK(device->module_unload(module) == -EINVAL);
	CHECK(device->module_launch(kernel, &config, args) == -EINVAL);
	CHECK(device->module_kernel(module, "add", &kernel) == -EINVAL);
}

static int launch_sized(void *kernel, uint32_t x, uint32_t y, uint32_t z, uint32_t bx, uint32_t by, uint32_t bz)
{
	gpub_launch_config config = GPUB_LAUNCH_INIT;
	unsigned zero = 0;
	void *args[] = { &zero };

	config.device = 0;
	memcpy(config.grid, (uint32_t[]){ x, y, z }, sizeof config.grid);
	memcpy(config.block, (uint32_t[]){ bx, by, bz }, sizeof config.block);
	return device->module_launch(kernel, &config, args);
}

static void scenario_config(void)
{
	void *module, *nap;

	start(false, 1);
	CHECK(!device->module_load(twins, &module));
	nap = twin(module, "nap");
	CHECK(!launch_sized(nap, 0x7fffffff, 65535, 65535, 1024, 1, 1) && !launch_sized(nap, 1, 1, 1, 4, 4, 64));
	CHECK(launch_sized(nap, 0, 1, 1, 1, 1, 1) == -EINVAL && launch_sized(nap, 1, 1, 0, 1, 1, 1) == -EINVAL);
	CHECK(launch_sized(nap, 0x80000000, 1, 1, 1, 1, 1) == -EINVAL);
	CHECK(launch_sized(nap, 1, 65536, 1, 1, 1, 1) == -EINVAL && launch_sized(nap, 1, 1, 65536, 1, 1, 1) == -EINVAL);
	CHECK(launch_sized(nap, 1, 1, 1, 1025, 1, 1) == -EINVAL && launch_sized(nap, 1, 1, 1, 1, 0, 1) == -EINVAL);
	CHECK(launch_sized(nap, 1, 1, 1, 65536, 65536, 1) == -EINVAL && launch_sized(nap, 1, 1, 1, 1, 1, 65) == -EINVAL);
	CHECK(launch_sized(nap, 1, 1, 1, 32, 32, 2) == -EINVAL);
	CHECK(!device->module_unload(module));
}

static void test_modules(void **state)
{
	(void)state;
	expect_clean(scenario_module);
	expect_clean(scenario_config);
}

static void violate_launch_across(void)
{
	uint8_t *ptr = owner_memory(BLOCK);
	void *module;

	CHECK(!device->module_load(twins, &module));
	CHECK(!launch(twin(module, "add"), NULL, 0, ptr + 8, 1) && !device->stream_sync(NULL));
	launch(twin(module, "add"), NULL, 1, ptr + 8, 1);
}

static void test_module_violations(void **state)
{
	(void)state;
	expect_violation(violate_launch_across, "open it once for each device");
}

/* ---- captures ---- */

static void scenario_capture(void)
{
	struct host_graph *graph;
	uint64_t *page;
	void *module, *stream, *other;
	int sum = 0;

	start(false, 1);
	page = page_make(true);
	CHECK(!device->module_load(twins, &module) && !device->stream_create(0, &stream));
	CHECK(!device->stream_create(0, &other));
	CHECK(host_capture_begin(NULL) == -EINVAL && host_capture_end(stream, &graph) == -EINVAL);
	CHECK(!host_capture_begin(stream) && host_capture_begin(stream) == -EBUSY);
	CHECK(!launch(twin(module, "add"), stream, 0, &sum, 1));
	CHECK(!host_capture_write(stream, &page[0], 9));
	CHECK(device->stream_write(stream, &page[0], 1) == -EBUSY && device->stream_wait(stream, page, 1) == -EBUSY);
	CHECK(!device->stream_write(other, &page[1], 1) && !device->stream_sync(other));
	CHECK(!host_capture_end(stream, &graph) && !device->stream_sync(stream) && !sum && !page[0]);
	for (int i = 1; i <= 3; i++) {
		page[0] = 0;
		CHECK(!host_graph_launch(graph, other) && !device->stream_sync(other) && sum == 3 * i && page[0] == 9);
	}
	CHECK(!device->module_unload(module) && host_graph_launch(graph, other) == -EINVAL);
	host_graph_destroy(graph);
	CHECK(!host_capture_begin(stream) && device->stream_sync(stream) == -EBUSY && !host_capture_end(stream, &graph));
	host_graph_destroy(graph);
	CHECK(!host_capture_begin(stream) && host_capture_sync(stream) == -EBUSY);
	CHECK(host_capture_end(stream, &graph) == -ECANCELED && !device->stream_sync(stream));
	CHECK(!host_capture_begin(stream));
	device->stream_destroy(stream);
}

static void import_capture_close(int in, int out)
{
	struct host_graph *graph;
	void *stream;
	uint8_t *ptr;

	start(false, 2);
	CHECK(!device->stream_create(0, &stream) && !host_capture_begin(stream));
	ptr = import_from(in, 0);
	CHECK(!device->copy(stream, ptr, "captured", 9));
	CHECK(!host_capture_end(stream, &graph) && !ptr[0]);
	CHECK(!host_graph_launch(graph, stream) && !host_capture_begin(stream));
	CHECK(!device->close(0, ptr));
	host_graph_destroy(graph);
	CHECK(!host_capture_end(stream, &graph) && !host_graph_launch(graph, stream));
	host_graph_destroy(graph);
	tell_token(out);
}

static void scenario_capture_close(void)
{
	struct peer peer = peer_start(import_capture_close);
	uint8_t *ptr = owner_memory(BLOCK);

	export_to(&peer, ptr);
	hear_token(peer.in);
	CHECK(!strcmp((char *)ptr, "captured") && !device->release(0, ptr));
	peer_end(&peer);
}

static void test_captures(void **state)
{
	(void)state;
	expect_clean(scenario_capture);
	expect_clean(scenario_capture_close);
}

/* ---- faults ---- */

static void scenario_faults(void)
{
	uint8_t *ptr;
	void *other;

	setenv("GPUB_HOST_FAIL", "allocate:2:ENOMEM,zero:1:EIO", 1);
	start(true, 1);
	CHECK(device->allocate(0, BLOCK, &other) == -ENOMEM && device->allocate(0, BLOCK, &other) == -ENOMEM);
	CHECK(!device->allocate(0, BLOCK, &other));
	CHECK(device->zero(0, other, BLOCK) == -EIO && !device->zero(0, other, BLOCK));
	host_fail_next(HOST_COPY, 1000, EIO);
	CHECK(!host_map_owned(other));
	ptr = other;
	CHECK(device->copy(NULL, ptr, ptr + 1, 1) == -EIO && strstr(error_text(), "injected failure of copy"));
	host_fail_next(HOST_COPY, 0, 0);
	CHECK(!device->copy(NULL, ptr, ptr + 1, 1));
	host_fail_next(HOST_RELEASE, 1, EIO);
	CHECK(device->release(0, other) == -EIO && !device->release(0, other));
}

static void import_fail_close(int in, int out)
{
	uint64_t *page;
	uint8_t *ptr;

	start(false, 2);
	ptr = import_from(in, 0);
	page = page_make(true);
	host_fail_next(HOST_CLOSE, 1, EIO);
	CHECK(device->close(0, ptr) == -EIO && !ptr[0]);
	CHECK(!device->stream_wait(NULL, &page[0], 1) && !device->stream_write(NULL, &page[1], 1));
	host_make_sticky();
	CHECK(device->close(0, ptr) == -EIO && device->stream_sync(NULL) == -EIO && device->count() == -EIO);
	nap_ms(20);
	CHECK(!word_load(&page[1])); /* no work after the error, so nothing that waits for it may free */
	tell_token(out);
}

static void scenario_sticky(void)
{
	struct peer peer = peer_start(import_fail_close);
	uint8_t *ptr = owner_memory(BLOCK);

	export_to(&peer, ptr);
	hear_token(peer.in);
	peer_end(&peer);
	CHECK(!device->release(0, ptr));
}

static void test_faults(void **state)
{
	(void)state;
	expect_clean(scenario_faults);
	expect_clean(scenario_sticky);
}

/* ---- many threads ---- */

static struct device_handle shared_handle;

static void *hammer(void *argument)
{
	uint64_t *word = argument;
	void *stream, *ptr;

	for (uint64_t i = 1; i <= 200; i++) {
		CHECK(!device->open(0, &shared_handle, BLOCK, &ptr));
		CHECK(!device->stream_create(0, &stream));
		CHECK(!device->stream_write(stream, word, i));
		if (i % 3) {
			CHECK(!device->copy(stream, (char *)ptr + (uintptr_t)word % PAGE, "abcdefgh", 8));
			CHECK(!device->stream_sync(stream) && word_load(word));
		}
		device->stream_destroy(stream);
		CHECK(!device->close(0, ptr));
	}
	return NULL;
}

static void import_and_hammer(int in, int out)
{
	pthread_t thread[6];
	uint64_t *page;

	start(false, 2);
	page = page_make(true);
	hear(in, &shared_handle, sizeof shared_handle);
	for (int i = 0; i < 6; i++)
		CHECK(!pthread_create(&thread[i], NULL, hammer, &page[8 * i]));
	for (int i = 0; i < 6; i++)
		pthread_join(thread[i], NULL);
	tell_token(out);
}

static void scenario_threads(void)
{
	struct peer peer = peer_start(import_and_hammer);
	uint8_t *ptr = owner_memory(BLOCK);

	export_to(&peer, ptr);
	hear_token(peer.in);
	CHECK(!device->release(0, ptr));
	peer_end(&peer);
}

static void test_threads(void **state)
{
	(void)state;
	expect_clean(scenario_threads);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_start),
		cmocka_unit_test(test_environment),
		cmocka_unit_test(test_select),
		cmocka_unit_test(test_directory),
		cmocka_unit_test(test_allocate),
		cmocka_unit_test(test_import),
		cmocka_unit_test(test_owner_violations),
		cmocka_unit_test(test_importer_violations),
		cmocka_unit_test(invariant_1_no_client_allocates_or_frees),
		cmocka_unit_test(test_late_writes),
		cmocka_unit_test(invariant_5_truncation_is_survived),
		cmocka_unit_test(test_streams),
		cmocka_unit_test(test_stream_violations),
		cmocka_unit_test(test_close_waits),
		cmocka_unit_test(test_modules),
		cmocka_unit_test(test_module_violations),
		cmocka_unit_test(test_captures),
		cmocka_unit_test(test_faults),
		cmocka_unit_test(test_threads),
	};

	return cmocka_run_group_tests_name("host device", tests, twins_build, twins_remove);
}
