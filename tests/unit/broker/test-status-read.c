/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test-status-read.c - broker-status reads what brokers write, and refuses everything else in one sentence.
 *
 * Most files are memfds, which are files of tmpfs as /dev/shm's are; what is about names lies in /dev/shm under
 * instances of this process. Leaves nothing there.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <sodium.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "broker/status/leftovers.h"
#include "broker/show/read.h"

#define OFFSET 4096
#define TEXT   "{\"instance\":\"other\",\"pid\":1,\"state\":\"fine\"}"

/* ---- files ---- */

static struct status_header header_of(const char *text, size_t length)
{
	struct status_header header = { .magic = STATUS_MAGIC,
					.format = STATUS_FORMAT,
					.sequence = 1,
					.offset = OFFSET,
					.length = length,
					.pid = (uint64_t)getpid(),
					.start_time = status_process_start((uint64_t)getpid(), NULL) };

	crypto_generichash(header.checksum, sizeof header.checksum, (const uint8_t *)text, length, NULL, 0);
	return header;
}

static void put(int fd, const void *data, size_t size, off_t offset)
{
	assert_int_equal(pwrite(fd, data, size, offset), size);
}

static int file_of(const char *text, size_t length)
{
	struct status_header header = header_of(text, length);
	int fd = memfd_create("status", MFD_CLOEXEC);

	assert_true(fd >= 0);
	assert_int_equal(fchmod(fd, 0640), 0);
	put(fd, &header, sizeof header, 0);
	put(fd, text, length, OFFSET);
	return fd;
}

static int good_file(void)
{
	return file_of(TEXT, strlen(TEXT));
}

/* The same file, opened as another process would. */
static int reopen(int fd)
{
	char path[40];
	int again;

	snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
	again = open(path, O_RDWR | O_CLOEXEC);
	assert_true(again >= 0);
	return again;
}

/* Also: a refusal has a sentence and leaves the output alone. Closes fd. */
static void assert_refused(int fd, int error)
{
	struct shown shown, before;

	memset(&shown, 0x5a, sizeof shown);
	before = shown;
	error_set(0, "none");
	assert_int_equal(shown_read_fd(&shown, "x", fd), error);
	assert_memory_equal(&shown, &before, sizeof shown);
	assert_string_not_equal(error_text(), "none");
	close(fd);
}

static enum shown_state state_of_file(int fd)
{
	struct shown shown;

	assert_int_equal(shown_read_fd(&shown, "x", fd), 0);
	shown_free(&shown);
	return shown.state;
}

static bool file_trusted(int fd)
{
	struct shown shown;

	assert_int_equal(shown_read_fd(&shown, "x", fd), 0);
	shown_free(&shown);
	return shown.trusted;
}

/* ---- whole files ---- */

static void test_whole(void **unused)
{
	struct shown shown;
	int fd = good_file();

	(void)unused;
	assert_int_equal(shown_read_fd(&shown, "x", fd), 0);
	assert_string_equal(shown.instance, "x");
	assert_int_equal(shown.owner, geteuid());
	assert_true(shown.header.pid == (uint64_t)getpid());
	assert_string_equal(json_string_value(json_object_get(shown.text, "instance")), "other");
	shown_free(&shown);
	close(fd);
}

struct mend {
	int         fd;
	char        byte;
	atomic_bool is_done;
};

static void *mend_later(void *argument)
{
	struct mend *mend = argument;

	usleep(20000);
	put(mend->fd, &mend->byte, 1, OFFSET);
	atomic_store(&mend->is_done, true);
	return NULL;
}

/*
 * The broker was in the middle of writing: it is read again until it is whole. On a busy machine the other thread may come later
 * than the reader's patience ends: that is no failure, but a reader that begins behind it must succeed.
 */
static void test_torn(void **unused)
{
	struct mend mend = { .fd = good_file(), .byte = TEXT[0] };
	struct shown shown;
	pthread_t thread;
	bool was_done;
	int error;

	(void)unused;
	put(mend.fd, "X", 1, OFFSET);
	assert_int_equal(pthread_create(&thread, NULL, mend_later, &mend), 0);
	do {
		was_done = atomic_load(&mend.is_done);
		error = shown_read_fd(&shown, "x", mend.fd);
	} while (error == -EAGAIN && !was_done);
	pthread_join(thread, NULL);
	assert_int_equal(error, 0);
	shown_free(&shown);
	close(mend.fd);
}

/* ---- how the broker does ---- */

static void test_dead(void **unused)
{
	int fd = good_file();

	(void)unused;
	assert_int_equal(state_of_file(fd), SHOWN_DEAD);
	close(fd);
}

static void test_running(void **unused)
{
	int fd = good_file(), brokers = reopen(fd);

	(void)unused;
	assert_int_equal(leftovers_lock(brokers), 0);
	assert_int_equal(state_of_file(fd), SHOWN_RUNNING);
	close(brokers);
	assert_int_equal(state_of_file(fd), SHOWN_DEAD);
	close(fd);
}

static pid_t stopped_child(void)
{
	pid_t child = fork();
	int status;

	assert_true(child >= 0);
	if (!child) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		for (;;)
			raise(SIGSTOP);
	}
	assert_int_equal(waitpid(child, &status, WUNTRACED), child);
	assert_true(WIFSTOPPED(status));
	return child;
}

/* The start time tells the broker from another process that has its pid now. */
static void test_stopped(void **unused)
{
	struct status_header header = header_of(TEXT, strlen(TEXT));
	int fd = good_file(), brokers = reopen(fd);
	pid_t child = stopped_child();

	(void)unused;
	assert_int_equal(leftovers_lock(brokers), 0);
	header.pid = (uint64_t)child;
	header.start_time = status_process_start(header.pid, NULL);
	put(fd, &header, sizeof header, 0);
	assert_int_equal(state_of_file(fd), SHOWN_STOPPED);
	header.start_time++;
	put(fd, &header, sizeof header, 0);
	assert_int_equal(state_of_file(fd), SHOWN_RUNNING);
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
	close(brokers);
	close(fd);
}

/* ---- whose word it is ---- */

static void test_owner(void **unused)
{
	int fd = good_file();

	(void)unused;
	assert_true(file_trusted(fd));
	fchmod(fd, 0642);
	assert_false(file_trusted(fd));
	fchmod(fd, 0660);
	assert_false(file_trusted(fd));
	fchmod(fd, 0640);
	/* somebody else's file that names a process of ours: only root can make one */
	if (!geteuid()) {
		assert_int_equal(fchown(fd, 65534, 65534), 0);
		assert_false(file_trusted(fd));
	}
	close(fd);
}

/* ---- refused ---- */

static void test_truncated(void **unused)
{
	static const off_t lengths[] = { 0, 1, sizeof(struct status_header) - 1, sizeof(struct status_header),
					 OFFSET, OFFSET + sizeof(TEXT) - 2 };

	(void)unused;
	for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
		int fd = good_file();

		assert_int_equal(ftruncate(fd, lengths[i]), 0);
		assert_refused(fd, -EAGAIN);
	}
}

static int file_with(const struct status_header *header)
{
	int fd = good_file();

	put(fd, header, sizeof *header, 0);
	return fd;
}

static void test_header(void **unused)
{
	const struct status_header good = header_of(TEXT, strlen(TEXT));
	struct status_header bad = good;

	(void)unused;
	bad.magic++;
	assert_refused(file_with(&bad), -EBADMSG);
	bad = good, bad.format++;
	assert_refused(file_with(&bad), -EBADMSG);
	bad = good, bad.length = SHOW_TEXT_MAX + 1;
	assert_refused(file_with(&bad), -EBADMSG);
	bad = good, bad.length = UINT64_MAX;
	assert_refused(file_with(&bad), -EBADMSG);
	bad = good, bad.offset = UINT64_MAX;
	assert_refused(file_with(&bad), -EBADMSG);
	bad = good, bad.length = 0;
	assert_refused(file_with(&bad), -EAGAIN);
}

static void test_checksum(void **unused)
{
	int fd = good_file();

	(void)unused;
	put(fd, "9", 1, OFFSET + 20);
	assert_refused(fd, -EAGAIN);
}

static void refuse_text(const char *text, size_t length)
{
	assert_refused(file_of(text, length), -EBADMSG);
}

static void test_not_json(void **unused)
{
	char deep[10000];

	(void)unused;
	memset(deep, '[', sizeof deep);
	refuse_text(deep, sizeof deep);
	refuse_text("hello", 5);
	refuse_text("[1, 2]", 6);
	refuse_text("{\"a\":1} ;", 9);
	refuse_text("{\"a\":\"\xff\"}", 9);
	refuse_text("{\"a\":\"b\0\"}", 10);
}

/* "{"a":[VALUE,VALUE,...]}", of some size. */
static char *text_of_many(const char *value, size_t size)
{
	char *text = malloc(size + 64), *at = text + sprintf(text, "{\"a\":[%s", value);

	assert_non_null(text);
	while ((size_t)(at - text) < size)
		at += sprintf(at, ",%s", value);
	strcpy(at, "]}");
	return text;
}

/* Whose values would take 90 and more times its own memory: also of one's own files, which somebody may have copied. */
static void test_bloated(void **unused)
{
	static const char *const values[] = { "{}", "[]", "{\"a\":0}", "[[]]" };

	(void)unused;
	for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
		char *text = text_of_many(values[i], 1u << 20);

		refuse_text(text, strlen(text));
		free(text);
	}
}

/* What a broker writes: the holder of a buffer is what takes most for its length. */
static void test_large(void **unused)
{
	char *text = text_of_many("{\"session\":1,\"pid\":1,\"command\":\"a\",\"device\":0,\"held\":false}", 5u << 20);
	struct shown shown;
	int fd = file_of(text, strlen(text));

	(void)unused;
	assert_int_equal(shown_read_fd(&shown, "x", fd), 0);
	assert_in_range(json_array_size(json_object_get(shown.text, "a")), 80000, 90000);
	shown_free(&shown);
	free(text);
	close(fd);
}

/* A long one only of one's own, or root's: its length alone is looked at. */
static void test_length_of_others(void **unused)
{
	struct status_header header = header_of(TEXT, strlen(TEXT));
	int fd = good_file();

	(void)unused;
	header.length = SHOW_OTHERS_MAX + 1;
	put(fd, &header, sizeof header, 0);
	if (geteuid()) {
		assert_refused(fd, -EAGAIN);
		return;
	}
	assert_int_equal(fchown(fd, 65534, 65534), 0);
	assert_refused(fd, -EFBIG);
}

static void test_not_a_file(void **unused)
{
	int ends[2];

	(void)unused;
	assert_int_equal(pipe(ends), 0);
	close(ends[1]);
	assert_refused(ends[0], -EBADMSG);
	assert_refused(open("/dev/shm", O_RDONLY | O_DIRECTORY), -EBADMSG);
}

/* ---- names ---- */

static const char *shm_path(char path[80], const char *what)
{
	snprintf(path, 80, "/dev/shm/gpubroker.t%d%s", getpid(), what);
	return path;
}

static void assert_name_refused(const char *what, int error)
{
	char instance[INSTANCE_SIZE], path[80];
	struct shown shown;

	snprintf(instance, sizeof instance, "t%d%s", getpid(), what);
	assert_int_equal(shown_read(&shown, instance), error);
	unlink(shm_path(path, what));
}

/* A pipe without a writer would be waited for, and a link leads to where its maker likes. */
static void test_names(void **unused)
{
	char path[80];

	(void)unused;
	assert_name_refused("-none", -ENOENT);
	assert_int_equal(mkfifo(shm_path(path, "-pipe"), 0600), 0);
	assert_name_refused("-pipe", -EBADMSG);
	assert_int_equal(symlink("/etc/passwd", shm_path(path, "-link")), 0);
	assert_name_refused("-link", -EBADMSG);
	assert_int_equal(mkdir(shm_path(path, "-dir"), 0700), 0);
	assert_name_refused("-dir", -EBADMSG);
	rmdir(path);
}

static size_t find_ours(char found[4][INSTANCE_SIZE])
{
	struct instances instances;
	char own[16];
	size_t count = 0;

	snprintf(own, sizeof own, "t%d-", getpid());
	assert_int_equal(instances_find(&instances), 0);
	for (size_t i = 0; i < instances.count; i++)
		if (!strncmp(instances.names[i], own, strlen(own)) && count < 4)
			strcpy(found[count++], strrchr(instances.names[i], '-'));
	instances_free(&instances);
	return count;
}

/* Only what can be an instance's name, sorted; not the brokers' memory, nor names that would garble a terminal. */
static void test_find(void **unused)
{
	static const char *const names[] = { "-b", "-c", "-a", "-a.0123", "-\033[2J", "-a-name-that-is-too-long" };
	const size_t count = sizeof names / sizeof names[0];
	char path[80], found[4][INSTANCE_SIZE];
	int fds[sizeof names / sizeof names[0]];

	(void)unused;
	for (size_t i = 0; i < count; i++) {
		fds[i] = open(shm_path(path, names[i]), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
		assert_int_equal(leftovers_lock(fds[i]), 0); /* or a broker that starts now removes it */
	}
	assert_int_equal(find_ours(found), 3);
	assert_string_equal(found[0], "-a");
	assert_string_equal(found[1], "-b");
	assert_string_equal(found[2], "-c");
	for (size_t i = 0; i < count; i++) {
		unlink(shm_path(path, names[i]));
		close(fds[i]);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_whole),	  cmocka_unit_test(test_torn),	    cmocka_unit_test(test_dead),
		cmocka_unit_test(test_running),	  cmocka_unit_test(test_stopped),   cmocka_unit_test(test_owner),
		cmocka_unit_test(test_truncated), cmocka_unit_test(test_header),    cmocka_unit_test(test_checksum),
		cmocka_unit_test(test_not_json),  cmocka_unit_test(test_not_a_file), cmocka_unit_test(test_names),
		cmocka_unit_test(test_find),	  cmocka_unit_test(test_bloated),   cmocka_unit_test(test_large),
		cmocka_unit_test(test_length_of_others),
	};

	return cmocka_run_group_tests_name("status-read", tests, NULL, NULL);
}
