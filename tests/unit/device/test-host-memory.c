/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test-host-memory.c - memory of the host device, in its owner and in importers: the host device keeps CUDA's rules,
 * and says so when somebody else breaks them.
 */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/error.h"
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

/* ---- memory ---- */

static void scenario_allocate(void)
{
	uint8_t *first;
	void *ptr = NULL, *other;

	setenv("GPUB_HOST_MEMORY", "8M", 1);
	start(true, 2);
	CHECK(device->allocate(0, 4095, EXPORT_IPC, &ptr) == -EINVAL &&
	      device->allocate(0, 0, EXPORT_IPC, &ptr) == -EINVAL && !ptr);
	CHECK(device->allocate(0, (8u << 20) + 4096, EXPORT_IPC, &ptr) == -ENOMEM && !ptr);
	CHECK(device->allocate(2, 4096, EXPORT_IPC, &ptr) == -ENODEV);
	CHECK(!device->allocate(0, 8u << 20, EXPORT_IPC, &ptr));
	CHECK(device->allocate(0, 4096, EXPORT_IPC, &other) == -ENOMEM);
	CHECK(!device->allocate(1, 4096, EXPORT_IPC, &other) && !device->release(1, other));
	first = ptr;
	CHECK(!host_map_owned(ptr));
	CHECK(first[0] && first[(8u << 20) - 1]); /* fresh memory is not zeros */
	CHECK(device->zero(0, ptr, (8u << 20) + 1) == -EINVAL && device->zero(1, ptr, 1) == -EINVAL);
	CHECK(!device->zero(0, ptr, 8u << 20) && !first[0] && !first[(8u << 20) - 1]);
	CHECK(device->release(1, ptr) == -EINVAL && !device->release(0, ptr));
	CHECK(!device->allocate(0, 8u << 20, EXPORT_IPC, &ptr) && !device->release(0, ptr));
}

static void scenario_full(void)
{
	void *ptr;

	setenv("GPUB_HOST_MEMORY", "1000000G", 1);
	start(true, 1);
	CHECK(device->allocate(0, 900000ull << 30, EXPORT_IPC, &ptr) == -ENOSPC && strstr(error_text(), "/dev/shm"));
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
	CHECK(!device->allocate(0, BLOCK, EXPORT_IPC, &ptr));
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
	CHECK(device->allocate(0, BLOCK, EXPORT_IPC, &ptr) == -EEXIST);
	CHECK(!stat(directory, &st) && (st.st_mode & 07777) == 0777 && !rmdir(directory));
	/* a link to what would be good */
	CHECK(!mkdir(elsewhere, 0700) && !symlink(elsewhere, directory));
	keep_is_refused();
	CHECK(device->allocate(0, BLOCK, EXPORT_IPC, &ptr) == -EEXIST);
	CHECK(!unlink(directory) && !rmdir(elsewhere));
	CHECK(!mknod(directory, S_IFREG | 0700, 0));
	keep_is_refused();
	CHECK(!unlink(directory));
	/* another user's, that looks like its own */
	CHECK(!mkdir(directory, 0700));
	if (!geteuid()) {
		CHECK(!chown(directory, 4001, 4001));
		keep_is_refused();
		CHECK(device->allocate(0, BLOCK, EXPORT_IPC, &ptr) == -EEXIST && !chown(directory, 0, 0));
	}
	CHECK(!host_keep_directory() && !device->allocate(0, BLOCK, EXPORT_IPC, &ptr));
	CHECK(!device->release(0, ptr) && !rmdir(directory));
}

static int mkdir_error; /* the errno with which mkdir() fails; 0: it does what the C library's does */

int __real_mkdir(const char *path, mode_t mode);
int __wrap_mkdir(const char *path, mode_t mode);

int __wrap_mkdir(const char *path, mode_t mode)
{
	errno = mkdir_error;
	return mkdir_error ? -1 : __real_mkdir(path, mode);
}

/* Nobody has its place where the machine has no room for a directory. */
static void scenario_no_room(void)
{
	void *ptr;

	start(true, 1);
	mkdir_error = ENOSPC;
	CHECK(host_keep_directory() == -ENOSPC && strstr(error_text(), directory));
	CHECK(strstr(error_text(), strerror(ENOSPC)) && !strstr(error_text(), "another instance name"));
	CHECK(device->allocate(0, BLOCK, EXPORT_IPC, &ptr) == -ENOSPC);
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
		CHECK(!device->allocate(0, BLOCK, EXPORT_IPC, &ptr) && !device->release(0, ptr));
		CHECK(mkdir(directory, 0700) && errno == EEXIST);
	}
	CHECK(!rmdir(directory));
}

/* A device that was not told to keep it leaves none behind. */
static void scenario_not_kept(void)
{
	void *ptr;

	start(true, 1);
	CHECK(!device->allocate(0, BLOCK, EXPORT_IPC, &ptr) && !access(directory, F_OK) && !device->release(0, ptr));
	CHECK(access(directory, F_OK) && errno == ENOENT);
}

static void test_directory(void **state)
{
	(void)state;
	snprintf(directory, sizeof directory, "/dev/shm%s", prefix);
	expect_clean(scenario_squatted);
	expect_clean(scenario_squatted_shared);
	expect_clean(scenario_no_room);
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
	receive(in, &handle, sizeof handle);
	CHECK(device->open(0, &handle, BLOCK + 1, &once) == -EINVAL);
	CHECK(!device->open(0, &handle, BLOCK, &once) && !device->open(0, &handle, 100, &again) && once == again);
	CHECK(!device->open(1, &handle, BLOCK, &elsewhere) && elsewhere != once);
	memcpy(once, "hello", 6);
	CHECK(!strcmp(elsewhere, "hello"));
	CHECK(device->close(1, once) == -EINVAL && device->close(0, (char *)once + 1) == -EINVAL);
	CHECK(!device->close(0, once) && !strcmp(once, "hello") && !device->close(0, once));
	CHECK(device->close(0, once) == -EINVAL && !device->close(1, elsewhere));
	tell_step(out);
	receive_token(in); /* released meanwhile, and the owner has other memory */
	CHECK(device->open(0, &handle, BLOCK, &once) == -ENOENT);
	tell_step(out);
	receive_token(in); /* all is released: there is no directory of the owner's, as in another /dev/shm */
	CHECK(device->open(0, &handle, BLOCK, &once) == -ENODEV && strstr(error_text(), "--ipc=host"));
	handle.bytes[0] = 'x';
	CHECK(device->open(0, &handle, BLOCK, &once) == -EINVAL);
	memset(&handle, '/', sizeof handle);
	CHECK(device->open(0, &handle, BLOCK, &once) == -EINVAL);
	tell_step(out);
}

static void scenario_import(void)
{
	struct peer peer = peer_start(import_and_write);
	uint8_t *ptr = owner_memory(BLOCK);
	void *other;

	export_to(&peer, ptr);
	receive_token(peer.in);
	CHECK(!strcmp((char *)ptr, "hello"));
	CHECK(!device->allocate(0, BLOCK, EXPORT_IPC, &other) && !device->release(0, ptr));
	tell_step(peer.out);
	receive_token(peer.in);
	CHECK(!device->release(0, other));
	tell_step(peer.out);
	receive_token(peer.in);
	peer_end(&peer);
}

static void test_import(void **state)
{
	(void)state;
	expect_clean(scenario_import);
}

static void import_once(int in, int out)
{
	start(false, 1);
	CHECK(!device->close(0, import_from(in, 0)));
	tell_step(out);
}

/* Somebody else who was told the handle locks the object, and keeps the lock. */
static void scenario_import_locked(void)
{
	struct peer peer = peer_start(import_once);
	struct device_handle handle;
	char name[HOST_NAME_SIZE];
	void *ptr = owner_memory(BLOCK);
	int fd;

	CHECK(!device->export_handle(0, ptr, &handle, &(int){ 0 }) && host_object_name(&handle, name));
	fd = open(name, O_RDONLY | O_CLOEXEC);
	CHECK(fd >= 0 && !flock(fd, LOCK_EX | LOCK_NB));
	export_to(&peer, ptr);
	receive_token(peer.in);
	peer_end(&peer);
	CHECK(!close(fd) && !device->release(0, ptr));
}

static void invariant_5_a_lock_keeps_nobody_from_importing(void **state)
{
	(void)state;
	expect_clean(scenario_import_locked);
}

static void violate_import_own(void)
{
	struct device_handle handle;
	void *ptr = owner_memory(BLOCK), *other;

	CHECK(!device->export_handle(0, ptr, &handle, &(int){ 0 }));
	device->open(0, &handle, BLOCK, &other);
}

static void violate_export_inside(void)
{
	struct device_handle handle;

	device->export_handle(0, owner_memory(BLOCK) + 256, &handle, &(int){ 0 });
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
	device->allocate(0, BLOCK, EXPORT_IPC, &ptr);
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
	tell_step(out);
	pause();
}

static void violate_release_mapped(void)
{
	struct peer peer = peer_start(import_and_wait);
	uint8_t *ptr = owner_memory(BLOCK);

	export_to(&peer, ptr);
	receive_token(peer.in);
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
		tell_step(out);
		pause();
	}
	pause();
}

static void violate_release_held_by_child(void)
{
	struct peer peer = peer_start(import_and_fork);
	uint8_t *ptr = owner_memory(BLOCK);

	export_to(&peer, ptr);
	receive_token(peer.in);
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
		tell_step(out);
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
	receive_token(peer.in);
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
	device->export_handle(0, import_from(in, 0), &handle, &(int){ 0 });
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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_directory),
		cmocka_unit_test(test_allocate),
		cmocka_unit_test(test_import),
		cmocka_unit_test(invariant_5_a_lock_keeps_nobody_from_importing),
		cmocka_unit_test(test_owner_violations),
		cmocka_unit_test(test_importer_violations),
		cmocka_unit_test(invariant_1_no_client_allocates_or_frees),
	};

	return cmocka_run_group_tests_name("host device: memory", tests, group_begin, group_end);
}
