/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test-trust.c - which server a client trusts: its own user's or root's, or one that root appointed by its directory;
 * and none whose directory others may write.
 *
 * The server is a forked child that accepts and hangs up: a client that trusts it gets -ECONNRESET, one that does not
 * gets -EPERM before a word is spoken. Another user's server, and directories that are given away, need root.
 */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <limits.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "gpubroker.h"

#define SERVER   4001
#define STRANGER 4002

static char root[48];      /* below /run/gpubroker-NAME, where nobody but root may write; "" where there is none */
static char elsewhere[48]; /* the same beside it: root's all the way up, too */
static char own[] = "/tmp/gpub-trust.XXXXXX";

/* ---- places ---- */

/* Of this user alone, or of root: a directory like /run in which another could not have had a hand. */
static bool is_roots(const char *path)
{
	struct stat st;

	return !lstat(path, &st) && S_ISDIR(st.st_mode) && !st.st_uid && !(st.st_mode & (S_IWGRP | S_IWOTH));
}

static int group_setup(void **state)
{
	(void)state;
	umask(022);
	if (!geteuid() && is_roots("/") && is_roots("/run")) {
		strcpy(root, "/run/gpubroker-trust.XXXXXX");
		strcpy(elsewhere, "/run/gpub-trust.XXXXXX");
		if (!mkdtemp(root) || chmod(root, 0755) || !mkdtemp(elsewhere) || chmod(elsewhere, 0755))
			return -1;
	}
	return mkdtemp(own) ? 0 : -1;
}

static int group_teardown(void **state)
{
	char command[128];

	(void)state;
	snprintf(command, sizeof command, "rm -rf %s %s %s", own, root, elsewhere);
	return system(command);
}

static bool can_appoint(void)
{
	if (!*root)
		print_message("# not root, or /run is not root's alone: not tried\n");
	return *root;
}

static const char *at(const char *parent, const char *rest)
{
	static char    *paths[32]; /* more than a test keeps */
	static unsigned next;
	char          **path = &paths[next++ % 32], *made;

	assert_true(asprintf(&made, "%s%s", parent, rest) > 0); /* of an older one, maybe */
	free(*path);
	*path = made;
	return made;
}

/* A directory with that owner and mode, made anew. */
static const char *place(const char *parent, const char *name, uid_t owner, mode_t mode)
{
	const char *path = at(parent, name);

	mkdir(path, 0700);
	assert_int_equal(chown(path, owner, (gid_t)-1), 0);
	assert_int_equal(chmod(path, mode), 0);
	return path;
}

/* ---- a server ---- */

/* The kernel notes who listens, so it binds as this user and listens as another. */
_Noreturn static void server_run(const char *path, uid_t user, int ready)
{
	struct sockaddr_un sun = { .sun_family = AF_UNIX };
	int sock = socket(AF_UNIX, SOCK_SEQPACKET, 0);

	alarm(60);
	strcpy(sun.sun_path, path);
	if (sock < 0 || bind(sock, (struct sockaddr *)&sun, sizeof sun) || chmod(path, 0666))
		_exit(1);
	if (user != geteuid() && setresuid(user, user, user))
		_exit(1);
	prctl(PR_SET_PDEATHSIG, SIGKILL); /* a change of the user takes it away */
	if (listen(sock, 8) || write(ready, "!", 1) != 1)
		_exit(1);
	for (;;)
		close(accept(sock, NULL, NULL));
}

static pid_t server_start(const char *path, uid_t user)
{
	int ready[2];
	char token;
	pid_t pid;

	assert_true(strlen(path) < sizeof(((struct sockaddr_un *)0)->sun_path));
	assert_int_equal(pipe2(ready, O_CLOEXEC), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (!pid)
		server_run(path, user, ready[1]);
	close(ready[1]);
	assert_int_equal(read(ready[0], &token, 1), 1);
	close(ready[0]);
	return pid;
}

/* What a client says of a server of that user, listening at directory/socket and addressed as address/socket. */
static int connect_as(const char *directory, const char *address, uid_t user)
{
	const char *path = at(directory, "/socket");
	char full[PATH_MAX + 16];
	pid_t pid = server_start(path, user);
	gpub_client *client = NULL;
	int error;

	snprintf(full, sizeof full, "unix:%s/socket", address);
	error = gpub_connect(&client, full);
	assert_null(client);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	unlink(path);
	return error;
}

#define TRUSTED   (-ECONNRESET)
#define UNTRUSTED (-EPERM)

static void expect(const char *directory, uid_t user, int error)
{
	assert_int_equal(connect_as(directory, directory, user), error);
}

/* ---- its own user's ---- */

static void test_its_own_users_server_in_its_own_directory(void **state)
{
	(void)state;
	expect(place(own, "/d", geteuid(), 0700), geteuid(), TRUSTED);
	expect(place(own, "/d", geteuid(), 0755), geteuid(), TRUSTED);
}

/* Somebody there could put a socket of his own in the place of this one. */
static void test_none_whose_directory_others_may_write(void **state)
{
	(void)state;
	expect(place(own, "/d", geteuid(), 0770), geteuid(), UNTRUSTED);
	assert_non_null(strstr(gpub_strerror_last(), at(own, "/d")));
	expect(place(own, "/d", geteuid(), 0777), geteuid(), UNTRUSTED);
	/* also where each may remove his own alone */
	expect(place(own, "/d", geteuid(), 01777), geteuid(), UNTRUSTED);
}

static void test_a_relative_address(void **state)
{
	int here = open(".", O_PATH | O_CLOEXEC);

	(void)state;
	place(own, "/d", geteuid(), 0700);
	assert_int_equal(chdir(own), 0);
	assert_int_equal(connect_as(at(own, "/d"), "d", geteuid()), TRUSTED);
	assert_int_equal(chdir("d"), 0);
	assert_int_equal(connect_as(at(own, "/d"), ".", geteuid()), TRUSTED);
	place(own, "/d", geteuid(), 0777);
	assert_int_equal(connect_as(at(own, "/d"), ".", geteuid()), UNTRUSTED);
	assert_int_equal(fchdir(here), 0);
	close(here);
}

/* ---- one that root appointed ---- */

static void test_root_appoints_by_a_directory(void **state)
{
	(void)state;
	if (!can_appoint())
		return;
	expect(place(root, "/d", SERVER, 0755), SERVER, TRUSTED);
	expect(place(root, "/d", SERVER, 0700), SERVER, TRUSTED);
	place(root, "/d", SERVER, 0755);
	assert_int_equal(connect_as(at(root, "/d"), at(root, "//d"), SERVER), TRUSTED);
}

/* Root's word is the directory's owner: not that it lies in a good place, nor that a server may be there. */
static void test_whom_root_did_not_appoint(void **state)
{
	(void)state;
	if (!can_appoint())
		return;
	expect(place(root, "/d", STRANGER, 0755), SERVER, UNTRUSTED);
	assert_non_null(strstr(gpub_strerror_last(), "not trusted"));
	expect(place(root, "/d", 0, 0755), SERVER, UNTRUSTED);
	expect(place(root, "/d", SERVER, 0775), SERVER, UNTRUSTED);
	expect(place(root, "/d", SERVER, 0757), SERVER, UNTRUSTED);
}

/* Each directory above is root's alone: or another could have made the last one. */
static void test_nobody_else_had_a_hand_in_the_path(void **state)
{
	const char *last;

	(void)state;
	if (!can_appoint())
		return;
	place(root, "/p", 0, 0755);
	last = place(root, "/p/d", SERVER, 0755);
	expect(last, SERVER, TRUSTED);
	place(root, "/p", SERVER, 0755);
	expect(last, SERVER, UNTRUSTED);
	place(root, "/p", 0, 0775);
	expect(last, SERVER, UNTRUSTED);
	place(root, "/p", 0, 01777);
	expect(last, SERVER, UNTRUSTED);
	place(root, "/p", 0, 0755);
	/* /tmp is everybody's */
	expect(place(own, "/d", SERVER, 0755), SERVER, UNTRUSTED);
}

/* A link leads elsewhere tomorrow, whoever made it and wherever it stands. */
static void test_no_link_is_followed(void **state)
{
	const char *last;

	(void)state;
	if (!can_appoint())
		return;
	place(root, "/p", 0, 0755);
	last = place(root, "/p/d", SERVER, 0755);
	assert_int_equal(symlink(last, at(root, "/l")), 0);
	assert_int_equal(symlink(at(root, "/p"), at(root, "/m")), 0);
	assert_int_equal(connect_as(last, at(root, "/l"), SERVER), UNTRUSTED);
	assert_int_equal(connect_as(last, at(root, "/l/"), SERVER), UNTRUSTED);
	assert_int_equal(connect_as(last, at(root, "/m/d"), SERVER), UNTRUSTED);
	assert_int_equal(connect_as(last, at(root, "/l/../d"), SERVER), UNTRUSTED);
	/* what comes out of there again may be anywhere */
	assert_int_equal(connect_as(last, at(root, "/p/../p/d"), SERVER), UNTRUSTED);
}

/* Root gives each user a home, and systemd a /run/user/UID: that makes nobody a broker for all. */
static void test_no_other_directory_that_root_gave_away(void **state)
{
	const char *home;
	char alike[48];

	(void)state;
	if (!can_appoint())
		return;
	home = place(elsewhere, "/home", SERVER, 0755);
	expect(home, SERVER, UNTRUSTED);
	assert_non_null(strstr(gpub_strerror_last(), "/run/gpubroker"));
	place(elsewhere, "/user", 0, 0755);
	expect(place(elsewhere, "/user/4001", SERVER, 0700), SERVER, UNTRUSTED);
	/* a name that only begins like it */
	snprintf(alike, sizeof alike, "/run/gpubrokers.%d", getpid());
	expect(place(alike, "", SERVER, 0755), SERVER, UNTRUSTED);
	rmdir(alike);
	/* root itself may serve anywhere */
	expect(place(elsewhere, "/d", 0, 0755), 0, TRUSTED);
}

/* A process that was told so does not know where it lies. */
static void test_no_relative_address_of_another_user(void **state)
{
	int here = open(".", O_PATH | O_CLOEXEC);

	(void)state;
	if (can_appoint()) {
		place(root, "/d", SERVER, 0755);
		assert_int_equal(chdir(root), 0);
		assert_int_equal(connect_as(at(root, "/d"), "d", SERVER), UNTRUSTED);
		assert_int_equal(connect_as(at(root, "/d"), "./d", SERVER), UNTRUSTED);
		assert_int_equal(fchdir(here), 0);
	}
	close(here);
}

/* A client that trusts root trusts it wherever it serves, but not where others may write. */
static void test_roots_own_server(void **state)
{
	(void)state;
	if (!can_appoint())
		return;
	expect(place(root, "/d", 0, 0755), 0, TRUSTED);
	/* the directory's owner could put another socket there */
	expect(place(root, "/d", STRANGER, 0755), 0, UNTRUSTED);
}

/* ---- which part of the path is in the way ---- */

/* The error message of another user, which may not come so far. */
static void expect_told(const char *directory, int error, const char *told)
{
	char address[PATH_MAX + 16];
	gpub_client *client;
	int status;
	pid_t pid = fork();

	snprintf(address, sizeof address, "unix:%s/socket", directory);
	assert_true(pid >= 0);
	if (!pid) {
		if (setgroups(0, NULL) || setresgid(STRANGER, STRANGER, STRANGER) ||
		    setresuid(STRANGER, STRANGER, STRANGER))
			_exit(3);
		if (gpub_connect(&client, address) != error)
			_exit(2);
		_exit(!strstr(gpub_strerror_last(), told));
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

static void test_the_part_of_the_path_that_refuses(void **state)
{
	const char *last;
	char told[PATH_MAX];
	pid_t pid;

	(void)state;
	if (!can_appoint())
		return;
	place(root, "/p", 0, 0755);
	last = place(root, "/p/e", 0, 0755);
	pid = server_start(at(last, "/socket"), 0);
	chmod(at(last, "/socket"), 0660);
	snprintf(told, sizeof told,
		 "%s/socket is closed to this process (uid 4002, groups 4002): it is uid 0's and group 0's, with mode "
		 "0660",
		 last);
	expect_told(last, -EACCES, told);
	place(root, "/p", SERVER, 0700);
	snprintf(told, sizeof told, "%s/p is closed to this process (uid 4002, groups 4002): it is uid 4001's", root);
	expect_told(last, -EACCES, told);
	place(root, "/p", 0, 0755);
	snprintf(told, sizeof told, "no broker answers at unix:%s/p/f/socket: there is no %s/p/f;", root, root);
	expect_told(at(root, "/p/f"), -ENOENT, told);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_its_own_users_server_in_its_own_directory),
		cmocka_unit_test(test_none_whose_directory_others_may_write),
		cmocka_unit_test(test_a_relative_address),
		cmocka_unit_test(test_root_appoints_by_a_directory),
		cmocka_unit_test(test_whom_root_did_not_appoint),
		cmocka_unit_test(test_nobody_else_had_a_hand_in_the_path),
		cmocka_unit_test(test_no_link_is_followed),
		cmocka_unit_test(test_no_other_directory_that_root_gave_away),
		cmocka_unit_test(test_no_relative_address_of_another_user),
		cmocka_unit_test(test_roots_own_server),
		cmocka_unit_test(test_the_part_of_the_path_that_refuses),
	};

	return cmocka_run_group_tests_name("trust", tests, group_setup, group_teardown);
}
