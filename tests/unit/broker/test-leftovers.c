/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test-leftovers.c - a broker begins where something bears its memory's name already: what a dead one left is taken
 * away, and what another user put there is never used.
 *
 * Brokers here are real ones on the host device, each in a process of its own, which may be another user's. Who else
 * has the name of its status file does not keep it from beginning. That
 * sockets left behind lead nobody astray is run.sh's.
 */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "broker/core/broker.h"
#include "broker/owner/packet.h"
#include "broker/status/leftovers.h"
#include "broker/status/status.h"
#include "common/error.h"
#include "common/status-file.h"
#include "owner-thread.h"

#define OWNER    4001
#define SQUATTER 4002

/* The instance's name, and the paths that go with it. */
static char instance[INSTANCE_SIZE], status[64], memory[80], inside[96], inside_status[96], bait[96];

/* ---- a broker ---- */

static struct broker broker;
static struct core core;
static struct event_base *base;
static int listener;

static int broker_begin(void)
{
	struct sockaddr_un sun = { .sun_family = AF_UNIX };
	struct broker_config config;

	base = event_base_new();
	listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	/* the kernel chooses a name */
	if (bind(listener, (struct sockaddr *)&sun, sizeof sun.sun_family) || listen(listener, 1))
		return -errno;
	broker_config_init(&config);
	strcpy(config.device, "host:1");
	strcpy(config.instance, instance);
	config.owner = &owner_thread;
	return broker_init(&broker, &core, &config, base, listener);
}

static void broker_end(void)
{
	broker_deinit(&broker);
	event_base_free(base);
	close(listener);
}

/* 0: it began, its directory was its own alone and empty, and went with it. */
static int begin_well(void)
{
	struct stat st;

	if (broker_begin())
		return 1;
	if (lstat(memory, &st) || !S_ISDIR(st.st_mode) || st.st_uid != geteuid() || (st.st_mode & 0777) != 0700)
		return 2;
	/* nobody can take the name while it holds nothing */
	if (!mkdir(memory, 0700) || errno != EEXIST || st.st_nlink != 2 || !access(inside, F_OK))
		return 3;
	broker_end();
	return access(memory, F_OK) && access(status, F_OK) ? 0 : 4;
}

/*
 * 0: it began under another name, which it told its clients, left the file of its own name alone, and took its own
 * away.
 */
static int begin_elsewhere(void)
{
	const char *name;
	struct stat before, after;
	char own[64];

	if (lstat(status, &before) || broker_begin())
		return 1;
	name = broker.config->instance;
	if (strncmp(name, instance, strlen(instance)) || !strcmp(name, instance) ||
	    strcmp(name, broker.board->header->instance))
		return 2;
	snprintf(own, sizeof own, "/dev/shm/gpubroker.%s", name);
	if (lstat(own, &after) || !S_ISREG(after.st_mode) || after.st_uid != geteuid())
		return 3;
	broker_end();
	return !lstat(status, &after) && after.st_ino == before.st_ino && access(own, F_OK) ? 0 : 4;
}

/* 0: it did not begin, since a broker whose user may have the name has it. */
static int be_told_of_a_broker(void)
{
	struct stat st;

	if (broker_begin() != -EEXIST || !strstr(error_text(), instance))
		return 1;
	return lstat(status, &st) ? 2 : 0;
}

/* 0: it began under its own name. */
static int begin_with_name(void)
{
	int result;

	leftovers_remove(instance);
	if (broker_begin())
		return 1;
	result = strcmp(broker.config->instance, instance) ? 2 : 0;
	broker_end();
	return result;
}

/* 0: it did not begin, said why, and left nothing of its own. */
static int be_refused(void)
{
	if (broker_begin() != -EEXIST || !strstr(error_text(), memory) || !strstr(error_text(), "not this broker's"))
		return 1;
	return access(status, F_OK) ? 0 : 2;
}

static int as(uid_t uid, int (*run)(void))
{
	int result = 0;
	pid_t pid = fork();

	if (!pid) {
		if (uid != geteuid() && (setgroups(0, NULL) || setresgid(uid, uid, uid) || setresuid(uid, uid, uid)))
			_exit(99);
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		alarm(60);
		_exit(run());
	}
	assert_int_equal(waitpid(pid, &result, 0), pid);
	return result;
}

/* ---- what is there ---- */

static int put(const char *path)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);

	return fd < 0 ? -1 : close(fd);
}

static void directory_of(uid_t uid, mode_t mode)
{
	assert_int_equal(mkdir(memory, 0700) | chmod(memory, mode), 0);
	assert_int_equal(chown(memory, uid, (gid_t)-1), 0);
}

static int clear(void **state)
{
	char command[240];

	(void)state;
	snprintf(command, sizeof command, "rm -rf '%s'* '%s'", status, bait);
	return system(command);
}

/* ---- the tests ---- */

static void test_what_a_dead_broker_left_is_taken_away(void **state)
{
	(void)state;
	directory_of(geteuid(), 0700);
	assert_int_equal(put(inside), 0);
	assert_int_equal(as(geteuid(), begin_well), 0);
	/* also where it let others in */
	directory_of(geteuid(), 0777);
	assert_int_equal(put(inside), 0);
	assert_int_equal(as(geteuid(), begin_well), 0);
}

/* One that looks like its own, and one that is open to all. */
static void test_another_users_directory_is_refused(void **state)
{
	static const mode_t modes[] = { 0700, 0711, 0777 };
	struct stat st;

	(void)state;
	if (geteuid())
		return; /* root alone can be several users */
	for (size_t i = 0; i < sizeof modes / sizeof modes[0]; i++) {
		directory_of(SQUATTER, modes[i]);
		assert_int_equal(as(OWNER, be_refused), 0);
		assert_int_equal(stat(memory, &st), 0);
		assert_true(st.st_uid == SQUATTER && (st.st_mode & 0777) == modes[i] && st.st_nlink == 2);
		assert_int_equal(rmdir(memory), 0);
		assert_int_equal(as(OWNER, begin_well), 0);
	}
}

/* Root may take it away, and does; what a link in it names is another matter. */
static void test_root_takes_another_users_directory_away(void **state)
{
	(void)state;
	if (geteuid())
		return;
	directory_of(SQUATTER, 0777);
	assert_int_equal(put(bait), 0);
	assert_int_equal(symlink(bait, inside), 0);
	assert_int_equal(as(0, begin_well), 0);
	assert_int_equal(access(bait, F_OK), 0);
}

/* As a link to a directory that would be good. */
static void test_a_link_in_its_place_is_taken_away(void **state)
{
	(void)state;
	assert_int_equal(mkdir(bait, 0700), 0);
	assert_int_equal(symlink(bait, memory), 0);
	assert_int_equal(as(geteuid(), begin_well), 0);
	assert_int_equal(rmdir(bait), 0);
}

/* Trees are not removed: no broker made one. */
static void test_what_cannot_be_taken_away_is_refused(void **state)
{
	(void)state;
	directory_of(geteuid(), 0777);
	assert_int_equal(mkdir(inside, 0700), 0);
	assert_int_equal(as(geteuid(), be_refused), 0);
	assert_int_equal(access(inside, F_OK), 0);
}

/* ---- what is a living broker's ---- */

/* 0: it did not begin, said whose the directory is, and left it as it was. */
static int be_told_of_memory_in_use(void)
{
	if (broker_begin() != -EEXIST || !strstr(error_text(), memory) ||
	    !strstr(error_text(), "in use by a broker of that name"))
		return 1;
	return !access(inside, F_OK) && access(status, F_OK) ? 0 : 2;
}

/* Its status file was removed, as by a logout: the lock on the directory alone says that a broker has it. */
static void test_the_memory_of_a_living_broker_stays(void **state)
{
	int fd;

	(void)state;
	directory_of(geteuid(), 0700);
	assert_int_equal(put(inside), 0);
	fd = open(memory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_int_equal(flock(fd, LOCK_EX | LOCK_NB), 0);
	assert_int_equal(as(geteuid(), be_told_of_memory_in_use), 0);
	if (!geteuid())
		assert_int_equal(as(OWNER, be_refused), 0);
	leftovers_remove_instance(instance);
	assert_int_equal(access(inside, F_OK), 0);
	close(fd);
	assert_int_equal(as(geteuid(), begin_well), 0);
}

/* 0: the directory is this user's alone, and both locks are held. */
static int check_directory(const struct leftovers_directory *directory)
{
	char lock[LEFTOVERS_PATH_SIZE + sizeof "/lock"];
	int other = open(directory->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC), file, locked;
	struct stat st;

	snprintf(lock, sizeof lock, "%s/lock", directory->path);
	file = open(lock, O_RDONLY | O_CLOEXEC);
	locked = other >= 0 && flock(other, LOCK_EX | LOCK_NB) && file >= 0 && status_file_is_held(file);
	if (other < 0 || fstat(other, &st) || (st.st_mode & 0777) != 0700 || st.st_uid != geteuid())
		locked = 0;
	close(file);
	close(other);
	return locked ? 0 : 1;
}

static int count_path(const char *path, void *expected)
{
	return !strcmp(path, expected);
}

static void test_a_private_directory_is_made_again(void **state)
{
	struct leftovers_directory directory, before;
	char lock[LEFTOVERS_PATH_SIZE + sizeof "/lock"];

	(void)state;
	assert_int_equal(leftovers_directory_make(&directory, instance), 0);
	before = directory;
	snprintf(lock, sizeof lock, "%s/lock", directory.path);
	assert_int_equal(leftovers_directory_restore(&directory), 0);
	assert_int_equal(check_directory(&directory), 0);
	assert_int_equal(unlink(lock), 0);
	assert_int_equal(leftovers_directory_restore(&directory), 1);
	assert_int_equal(check_directory(&directory), 0);
	assert_int_equal(unlink(lock) | rmdir(directory.path), 0);
	assert_int_equal(leftovers_directory_restore(&directory), 1);
	assert_int_equal(check_directory(&directory), 0);
	assert_string_equal(directory.path, before.path);
	assert_int_equal(leftovers_directory_restore(&directory), 0);
	assert_int_equal(leftovers_directory_each(instance, count_path, directory.path), 1);
	leftovers_remove(NULL);
	assert_int_equal(leftovers_directory_restore(&directory), 0);
	leftovers_directory_remove(&directory);
	assert_int_equal(access(before.path, F_OK), -1);
	assert_int_equal(leftovers_directory_each(instance, count_path, before.path), 0);
}

/* Others may enter it, as into one that another user made: that user could put a socket into it. */
static void test_what_is_in_a_private_directorys_place_stays(void **state)
{
	struct leftovers_directory directory;
	char lock[LEFTOVERS_PATH_SIZE + sizeof "/lock"];

	(void)state;
	assert_int_equal(leftovers_directory_make(&directory, instance), 0);
	snprintf(lock, sizeof lock, "%s/lock", directory.path);
	assert_int_equal(unlink(lock) | rmdir(directory.path), 0);
	assert_int_equal(mkdir(directory.path, 0700) | chmod(directory.path, 0777), 0);
	assert_int_equal(leftovers_directory_restore(&directory), -EEXIST);
	assert_non_null(strstr(error_text(), "is not this user's alone"));
	assert_int_equal(access(lock, F_OK), -1);
	assert_int_equal(leftovers_directory_each(instance, count_path, directory.path), 0);
	leftovers_directory_remove(&directory);
	assert_int_equal(rmdir(directory.path), 0);
	if (geteuid())
		return; /* root alone can be several users */
	assert_int_equal(mkdir(directory.path, 0700) | chown(directory.path, SQUATTER, SQUATTER), 0);
	assert_int_equal(leftovers_directory_each(instance, count_path, directory.path), 0);
	assert_int_equal(rmdir(directory.path), 0);
}

/* ---- the gap between two brokers ---- */

enum { STATUS_FD, DIRECTORY_FD, LOCK_FD, MEMORY_FD, KEPT };

static struct status taken; /* over from the broker that died */

/* Makes what a broker makes, sends its descriptors, and waits for its death. The first message is the directory. */
static void be_broker_of(int keeper)
{
	static struct status status_of;
	struct leftovers_directory directory;
	int fds[KEPT];

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (status_open(&status_of, instance) || leftovers_directory_make(&directory, instance) || mkdir(memory, 0700))
		_exit(1);
	fds[STATUS_FD] = status_of.file.fd;
	fds[DIRECTORY_FD] = directory.fd;
	fds[LOCK_FD] = directory.lock;
	fds[MEMORY_FD] = open(memory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (put(inside) || flock(fds[MEMORY_FD], LOCK_EX | LOCK_NB))
		_exit(2);
	for (int i = 0; i < KEPT; i++)
		if (packet_send(keeper, directory.path, sizeof directory.path, fds[i], 0))
			_exit(3);
	for (;;)
		pause();
}

/* Lets a broker begin and be killed. Stores what is kept of it, and the path of its private directory. */
static void keep_and_kill(int kept[KEPT], char path[LEFTOVERS_PATH_SIZE])
{
	int pair[2], result;
	pid_t pid;

	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (!pid)
		be_broker_of(pair[1]);
	close(pair[1]);
	for (int i = 0; i < KEPT; i++)
		assert_int_equal(packet_receive(pair[0], path, LEFTOVERS_PATH_SIZE, &kept[i], 0), 0);
	close(pair[0]);
	assert_int_equal(kill(pid, SIGKILL), 0);
	assert_int_equal(waitpid(pid, &result, 0), pid);
}

/* As each broker does that starts, whatever its name. */
static int clean(void)
{
	leftovers_remove(NULL);
	leftovers_remove(instance);
	leftovers_remove_instance(instance);
	return 0;
}

static void test_nothing_is_removed_between_two_brokers(void **state)
{
	struct leftovers_directory directory;
	char path[LEFTOVERS_PATH_SIZE];
	int kept[KEPT];

	(void)state;
	keep_and_kill(kept, path);
	assert_int_equal(as(geteuid(), clean), 0);
	assert_int_equal(as(geteuid(), be_told_of_a_broker), 0);
	assert_int_equal(access(inside, F_OK), 0);
	assert_int_equal(leftovers_directory_adopt(&directory, path, kept[DIRECTORY_FD], kept[LOCK_FD]), 0);
	assert_int_equal(leftovers_directory_restore(&directory), 0);
	assert_int_equal(check_directory(&directory), 0);
	assert_int_equal(status_reopen(&taken, kept[STATUS_FD], instance), 0);
	/* the next one dies, too, and nothing is kept any more */
	mapped_file_reset(&taken.file);
	for (int i = 0; i < KEPT; i++)
		close(kept[i]);
	assert_int_equal(as(geteuid(), clean), 0);
	assert_int_equal(access(path, F_OK) & access(memory, F_OK), -1);
}

/* ---- who has the status file's name ---- */

static int link_to_nothing(const char *path)
{
	return symlink("/nonexistent", path);
}

static int make_pipe(const char *path)
{
	return mkfifo(path, 0600);
}

static int make_directory(const char *path)
{
	return mkdir(path, 0700) ? -1 : put(inside_status);
}

static void give_status(uid_t uid)
{
	assert_int_equal(lchown(status, uid, uid), 0);
}

/* Locked, it looks like a living broker's; of other kinds, not even root's leftovers_remove() takes it away. */
static void test_another_users_file_keeps_nobody_from_beginning(void **state)
{
	static int (*const squats[])(const char *path) = { put, make_pipe, link_to_nothing, make_directory };
	static const uid_t brokers[] = { 0, OWNER };

	(void)state;
	if (geteuid())
		return; /* root alone can be several users */
	for (size_t i = 0; i < sizeof squats / sizeof squats[0]; i++) {
		int fd = -1;

		assert_int_equal(squats[i](status), 0);
		if (squats[i] == put) {
			fd = open(status, O_RDWR | O_CLOEXEC);
			assert_int_equal(leftovers_lock(fd), 0);
		}
		give_status(SQUATTER);
		for (size_t user = 0; user < sizeof brokers / sizeof brokers[0]; user++)
			assert_int_equal(as(brokers[user], begin_elsewhere), 0);
		if (fd >= 0)
			close(fd);
		clear(NULL);
	}
}

static void test_a_living_brokers_name_is_refused(void **state)
{
	int fd;

	(void)state;
	assert_int_equal(put(status), 0);
	fd = open(status, O_RDWR | O_CLOEXEC);
	assert_int_equal(leftovers_lock(fd), 0);
	assert_int_equal(as(geteuid(), be_told_of_a_broker), 0);
	if (!geteuid()) {
		assert_int_equal(as(OWNER, be_told_of_a_broker), 0);
		give_status(OWNER);
		assert_int_equal(as(OWNER, be_told_of_a_broker), 0);
	}
	close(fd);
}

/* Who may only read a status file can lock it against writers, and outlive its broker. */
static void test_a_readers_lock_keeps_no_broker_from_its_name(void **state)
{
	struct flock lock = { .l_type = F_RDLCK, .l_whence = SEEK_SET };
	int fd;

	(void)state;
	assert_int_equal(put(status), 0);
	give_status(geteuid());
	fd = open(status, O_RDONLY | O_CLOEXEC);
	assert_int_equal(fcntl(fd, F_OFD_SETLK, &lock), 0);
	assert_int_equal(as(geteuid(), begin_with_name), 0);
	close(fd);
}

/*
 * The bait is nobody's: a name that could be a status file's is taken away by whichever broker of another test starts.
 */
static int names_choose(void **state)
{
	(void)state;
	snprintf(instance, sizeof instance, "left%d", (int)getpid());
	snprintf(status, sizeof status, "/dev/shm/gpubroker.%s", instance);
	snprintf(memory, sizeof memory, "%s.mem", status);
	snprintf(inside_status, sizeof inside_status, "%s/inside", status);
	snprintf(inside, sizeof inside, "%s/inside", memory);
	snprintf(bait, sizeof bait, "/dev/shm/bait-%s", instance);
	/* what is refused is logged, and would stand between the lines of the report */
	return freopen("/dev/null", "w", stderr) ? 0 : -1;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(test_what_a_dead_broker_left_is_taken_away, clear),
		cmocka_unit_test_teardown(test_another_users_directory_is_refused, clear),
		cmocka_unit_test_teardown(test_root_takes_another_users_directory_away, clear),
		cmocka_unit_test_teardown(test_a_link_in_its_place_is_taken_away, clear),
		cmocka_unit_test_teardown(test_what_cannot_be_taken_away_is_refused, clear),
		cmocka_unit_test_teardown(test_the_memory_of_a_living_broker_stays, clear),
		cmocka_unit_test(test_a_private_directory_is_made_again),
		cmocka_unit_test_teardown(test_nothing_is_removed_between_two_brokers, clear),
		cmocka_unit_test(test_what_is_in_a_private_directorys_place_stays),
		cmocka_unit_test_teardown(test_another_users_file_keeps_nobody_from_beginning, clear),
		cmocka_unit_test_teardown(test_a_living_brokers_name_is_refused, clear),
		cmocka_unit_test_teardown(test_a_readers_lock_keeps_no_broker_from_its_name, clear),
	};

	return cmocka_run_group_tests_name("leftovers", tests, names_choose, NULL);
}
