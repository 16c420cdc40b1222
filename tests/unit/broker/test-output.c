/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test-output.c - who may read a file that output.c replaces: whoever could read the old one, and nobody else. Points
 * that need a second group, another user or access control lists say so where there are none.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "broker/ctl/output.h"

#define OTHER 4000 /* a user and a group that are not this process's */
#define ACL   "system.posix_acl_access"

static char folder[] = "/tmp/test-output.XXXXXX";

static void file_make(const char *path, mode_t mode)
{
	int fd = open(path, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0600);

	assert_true(fd >= 0);
	assert_int_equal(fchmod(fd, mode), 0);
	assert_int_equal(write(fd, "old", 3), 3);
	close(fd);
}

static int save(const char *path)
{
	struct output output;
	int error = output_open(&output, path);

	if (error)
		return error;
	if (write(output.fd, "newer", 5) == 5)
		return output_commit(&output);
	output_abandon(&output);
	return -EIO;
}

/* The file was replaced, has that mode, and nothing is left beside it. */
static struct stat expect_replaced(const char *path, mode_t mode)
{
	struct stat st;

	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_size, 5);
	assert_int_equal(st.st_mode & 07777, mode);
	return st;
}

static void test_a_new_file_has_the_mode_of_a_new_file(void **state)
{
	mode_t mask = umask(027);

	(void)state;
	assert_int_equal(save("new"), 0);
	umask(mask);
	expect_replaced("new", 0640);
	unlink("new");
}

static void test_a_replaced_file_keeps_its_mode(void **state)
{
	static const mode_t modes[] = { 0600, 0640, 0604, 0660, 0666, 0700, 0400, 0644 };

	(void)state;
	for (size_t i = 0; i < sizeof modes / sizeof *modes; i++) {
		file_make("f", modes[i]);
		assert_int_equal(save("f"), 0);
		expect_replaced("f", modes[i]);
		unlink("f");
	}
}

static void test_behind_a_link_too(void **state)
{
	struct stat st;

	(void)state;
	file_make("f", 0600);
	assert_int_equal(symlink("f", "link"), 0);
	assert_int_equal(save("link"), 0);
	expect_replaced("f", 0600);
	assert_int_equal(lstat("link", &st), 0);
	assert_true(S_ISLNK(st.st_mode));
	unlink("link");
	unlink("f");
}

/* A group of this process that is not what a new file gets; -1: there is none. */
static gid_t other_group(void)
{
	gid_t groups[64];
	int count = getgroups(64, groups);

	if (!geteuid())
		return OTHER;
	for (int i = 0; i < count; i++)
		if (groups[i] != getegid())
			return groups[i];
	return (gid_t)-1;
}

static void test_a_replaced_file_keeps_its_group(void **state)
{
	gid_t group = other_group();

	(void)state;
	if (group == (gid_t)-1) {
		print_message("# this user has one group: not tried\n");
		return;
	}
	file_make("f", 0640);
	assert_int_equal(chown("f", (uid_t)-1, group), 0);
	assert_int_equal(save("f"), 0);
	assert_int_equal(expect_replaced("f", 0640).st_gid, group);
	unlink("f");
}

/* As the other user, who is in no group of this process's. */
static int save_as_other(const char *path)
{
	int status = -1;
	pid_t pid = fork();

	if (!pid) {
		if (setgroups(0, NULL) || setresgid(OTHER, OTHER, OTHER) || setresuid(OTHER, OTHER, OTHER))
			_exit(77);
		_exit(-save(path));
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	return WEXITSTATUS(status);
}

/* The old file is of that owner and group, and the other user replaces it. */
static struct stat expect_saved_by_other(uid_t owner, gid_t group, mode_t before, mode_t after)
{
	struct stat st;

	file_make("f", before);
	assert_int_equal(chown("f", owner, group), 0);
	assert_int_equal(save_as_other("f"), 0);
	st = expect_replaced("f", after);
	assert_int_equal(st.st_uid, OTHER);
	assert_int_equal(st.st_gid, OTHER);
	unlink("f");
	return st;
}

static void test_what_cannot_be_kept_gives_nobody_more(void **state)
{
	mode_t mask;

	(void)state;
	if (geteuid()) {
		print_message("# this user is not root, and can be no other: not tried\n");
		return;
	}
	assert_int_equal(chmod(folder, 0777), 0);
	mask = umask(022);
	/* a group that the user is not in */
	expect_saved_by_other(OTHER, 0, 0640, 0600);
	expect_saved_by_other(OTHER, 0, 0664, 0644);
	expect_saved_by_other(OTHER, 0, 0604, 0600);
	/* another user's file: it may have been put there with any mode */
	expect_saved_by_other(0, OTHER, 0666, 0644);
	expect_saved_by_other(0, OTHER, 0600, 0600);
	expect_saved_by_other(0, 0, 0646, 0644);
	umask(mask);
	/* who may give it back does */
	file_make("f", 0600);
	assert_int_equal(chown("f", OTHER, OTHER), 0);
	assert_int_equal(save("f"), 0);
	assert_int_equal(expect_replaced("f", 0600).st_uid, OTHER);
	unlink("f");
}

/* As the kernel writes one: the owner rw, a user r, the group nothing, the mask r, others nothing. */
static const unsigned char list[] = { 2, 0, 0, 0,
				      1, 0, 6, 0, 0xff, 0xff, 0xff, 0xff,
				      2, 0, 4, 0, OTHER & 0xff, OTHER >> 8, 0, 0,
				      4, 0, 0, 0, 0xff, 0xff, 0xff, 0xff,
				      16, 0, 4, 0, 0xff, 0xff, 0xff, 0xff,
				      32, 0, 0, 0, 0xff, 0xff, 0xff, 0xff };

static void test_a_replaced_file_keeps_its_list(void **state)
{
	unsigned char found[sizeof list];

	(void)state;
	file_make("f", 0600);
	if (setxattr("f", ACL, list, sizeof list, 0)) {
		print_message("# no access control lists here: not tried\n");
		unlink("f");
		return;
	}
	assert_int_equal(save("f"), 0);
	expect_replaced("f", 0640);
	assert_int_equal(getxattr("f", ACL, found, sizeof found), sizeof list);
	assert_memory_equal(found, list, sizeof list);
	unlink("f");
}

/* A new file inherits the list of its folder, but the file that is replaced had none. */
static void test_a_list_of_the_folder_is_not_inherited(void **state)
{
	unsigned char found[sizeof list];

	(void)state;
	file_make("f", 0640);
	if (setxattr(".", "system.posix_acl_default", list, sizeof list, 0)) {
		print_message("# no access control lists here: not tried\n");
		unlink("f");
		return;
	}
	assert_int_equal(save("f"), 0);
	expect_replaced("f", 0640);
	assert_int_equal(getxattr("f", ACL, found, sizeof found), -1);
	assert_int_equal(removexattr(".", "system.posix_acl_default"), 0);
	unlink("f");
}

static int folder_make(void **state)
{
	(void)state;
	return !mkdtemp(folder) || chdir(folder);
}

static int folder_remove(void **state)
{
	(void)state;
	return chdir("/") || rmdir(folder); /* which fails where something is left */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_new_file_has_the_mode_of_a_new_file),
		cmocka_unit_test(test_a_replaced_file_keeps_its_mode),
		cmocka_unit_test(test_behind_a_link_too),
		cmocka_unit_test(test_a_replaced_file_keeps_its_group),
		cmocka_unit_test(test_what_cannot_be_kept_gives_nobody_more),
		cmocka_unit_test(test_a_replaced_file_keeps_its_list),
		cmocka_unit_test(test_a_list_of_the_folder_is_not_inherited),
	};

	return cmocka_run_group_tests_name("files that are replaced", tests, folder_make, folder_remove);
}
