/* SPDX-License-Identifier: Apache-2.0 */
/* test-status-file.c - where a broker listens, read from files in /dev/shm that may be damaged, or anybody's. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/error.h"
#include "common/status-file.h"

static char name[INSTANCE_SIZE], path[64];
static int file; /* held as by a living broker */

static const struct status_address listens = { .type = STATUS_ADDRESS_TYPE, .address = "unix:/run/x/socket" };

static int setup(void **state)
{
	struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
	char own[40];

	(void)state;
	snprintf(name, sizeof name, "t-%d", (int)getpid());
	snprintf(path, sizeof path, SHM_DIR STATUS_PREFIX "%s", name);
	file = open(SHM_DIR, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
	snprintf(own, sizeof own, "/proc/self/fd/%d", file);
	return fcntl(file, F_OFD_SETLK, &lock) || linkat(AT_FDCWD, own, AT_FDCWD, path, AT_SYMLINK_FOLLOW);
}

static int teardown(void **state)
{
	(void)state;
	close(file);
	unlink(path);
	return 0;
}

/* Seals it, changes it then where damage says so, and writes it. */
static void put(struct status_address record, bool damage, uint64_t offset)
{
	status_seal(&record.seal, sizeof record, 1);
	if (damage)
		record.address[6] ^= 1;
	assert_int_equal(pwrite(file, &record, sizeof record, (off_t)offset), sizeof record);
}

static void put_record(struct status_address record, bool damage)
{
	put(record, damage, STATUS_OFFSET(STATUS_ADDRESS_SLOT));
}

static void put_copy(struct status_address record, uint64_t of)
{
	assert_int_equal(pwrite(file, &of, sizeof of, STATUS_COPY), sizeof of);
	put(record, false, STATUS_COPY + sizeof of);
}

static int find(char address[SOCKET_ADDRESS_SIZE])
{
	strcpy(address, "untouched");
	return status_file_address(name, address);
}

static void expect(int error)
{
	char address[SOCKET_ADDRESS_SIZE];

	assert_int_equal(find(address), error);
	assert_string_equal(address, error ? "untouched" : listens.address);
	if (error)
		assert_non_null(strstr(error_text(), name));
}

static void test_it_says_where_its_broker_listens(void **state)
{
	(void)state;
	put_record(listens, false);
	expect(0);
}

static void test_what_is_not_whole_is_in_the_copy(void **state)
{
	struct status_address other = listens;

	(void)state;
	strcpy(other.address, "unix:/other");
	put_record(other, true);
	put_copy(listens, STATUS_OFFSET(STATUS_ADDRESS_SLOT));
	expect(0);
	put_copy(listens, STATUS_OFFSET(STATUS_ADDRESS_SLOT + 1)); /* of another record */
	expect(-EBADMSG);
}

static void test_what_is_no_address_is_refused(void **state)
{
	struct status_address record = listens;

	(void)state;
	expect(-EBADMSG); /* an empty file */
	put_record(record, true);
	expect(-EBADMSG);
	record.type++;
	put_record(record, false);
	expect(-EBADMSG);
	record = listens;
	memset(record.address, 'x', sizeof record.address);
	put_record(record, false);
	expect(-EBADMSG);
	record.address[SOCKET_ADDRESS_SIZE] = 0; /* longer than any address */
	put_record(record, false);
	expect(-EBADMSG);
	record.address[0] = 0; /* it listens nowhere that has a path */
	put_record(record, false);
	expect(-EBADMSG);
}

/* A broker that starts meanwhile removes what has no lock. */
static void expect_dead(void)
{
	char address[SOCKET_ADDRESS_SIZE];
	int error = find(address);

	assert_true(error == -ECONNREFUSED || error == -ENOENT);
	assert_string_equal(address, "untouched");
}

static void test_a_dead_broker_listens_nowhere(void **state)
{
	struct flock none = { .l_type = F_UNLCK, .l_whence = SEEK_SET };

	(void)state;
	put_record(listens, false);
	assert_int_equal(fcntl(file, F_OFD_SETLK, &none), 0);
	expect_dead();
}

static void test_no_link_is_followed_and_no_pipe_waited_for(void **state)
{
	(void)state;
	assert_int_equal(unlink(path), 0);
	expect(-ENOENT);
	assert_int_equal(symlink("/dev/null", path), 0);
	expect(-ELOOP);
	assert_int_equal(unlink(path), 0);
	assert_int_equal(mkfifo(path, 0600), 0);
	expect_dead();
}

/* ---- lists ---- */

static unsigned seen;

static void look(const char *instance, void *context)
{
	seen += !strcmp(instance, context);
}

static void test_each_name_is_found_once(void **state)
{
	char longer[96];

	(void)state;
	snprintf(longer, sizeof longer, "%s.mem", path);
	assert_int_equal(mkdir(longer, 0700), 0);
	seen = 0;
	assert_int_equal(status_files_each(look, name), 0);
	assert_int_equal(seen, 1);
	seen = 0;
	status_files_each(look, strrchr(longer, '.') - strlen(name));
	assert_int_equal(seen, 0);
	assert_int_equal(rmdir(longer), 0);
}

static bool is_listed(void)
{
	char list[4096];

	status_files_list(list, sizeof list);
	return strstr(list, name);
}

static void test_living_ones_are_listed(void **state)
{
	struct flock none = { .l_type = F_UNLCK, .l_whence = SEEK_SET };
	char list[2] = "?";

	(void)state;
	assert_true(is_listed());
	status_files_list(list, 1);
	assert_string_equal(list, "");
	if (!geteuid()) {
		assert_int_equal(fchown(file, 65534, 0), 0);
		assert_false(is_listed());
		assert_int_equal(fchown(file, 0, 0), 0);
	}
	assert_int_equal(fcntl(file, F_OFD_SETLK, &none), 0);
	assert_false(is_listed());
}

#define ON(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		ON(test_it_says_where_its_broker_listens),
		ON(test_what_is_not_whole_is_in_the_copy),
		ON(test_what_is_no_address_is_refused),
		ON(test_a_dead_broker_listens_nowhere),
		ON(test_no_link_is_followed_and_no_pipe_waited_for),
		ON(test_each_name_is_found_once),
		ON(test_living_ones_are_listed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
