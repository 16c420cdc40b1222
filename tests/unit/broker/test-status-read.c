/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test-status-read.c - broker-status reads what brokers write, and refuses everything else in one error message.
 *
 * Most files are memfds, which are files of tmpfs as /dev/shm's are; what is about names lies in /dev/shm under
 * instances of this process. Leaves nothing there.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "broker/base/process-start.h"
#include "broker/status/leftovers.h"
#include "status-file.h"

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

/* Also: a refusal has an error message and leaves the output alone. Closes fd. */
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

/* The element of that array, as text. Closes fd. */
static void expect_element(int fd, const char *array, size_t i, const char *wanted)
{
	struct shown shown = read_file(fd);
	char *text = json_dumps(json_array_get(json_object_get(shown.text, array), i), JSON_COMPACT);

	assert_non_null(text);
	assert_string_equal(text, wanted);
	free(text);
	shown_free(&shown);
	close(fd);
}

static void test_whole(void **unused)
{
	int fd = good_file();
	struct shown shown = read_file(fd);

	(void)unused;
	assert_string_equal(shown.instance, "x");
	assert_int_equal(shown.owner, geteuid());
	assert_int_equal(shown.unreadable, 0);
	assert_true(shown.header.pid == (uint64_t)getpid());
	assert_string_equal(json_string_value(json_object_get(shown.text, "instance")), "other");
	assert_int_equal(json_integer_value(json_object_get(shown.text, "waiting")), 3);
	assert_int_equal(json_integer_value(
				 json_object_get(json_object_get(shown.text, "counters"), "buffers_created")),
			 2);
	shown_free(&shown);
	close(fd);
}

#define HOLDER "{\"session\":5,\"pid\":1,\"uid\":7,\"command\":\"solver\",\"device\":0,\"held\":false}"

/*
 * Rows are joined: grants and mappings are counted where they belong, and whoever maps what nobody uses is waited for.
 */
static void test_joined(void **unused)
{
	(void)unused;
	expect_element(good_file(), "devices", 0,
		       "{\"index\":0,\"name\":\"a "
		       "device\",\"uuid\":\"00000000-0000-0000-0000-000000000000\",\"bytes\":1000,\"used\":700,"
		       "\"idle\":10,\"pooled\":20,\"free\":270}");
	expect_element(good_file(), "sessions", 0,
		       "{\"session\":5,\"pid\":1,\"uid\":7,\"command\":\"solver\",\"state\":\"open\",\"since\":"
		       "1600000000,\"answer\":\"not "
		       "asked\",\"answered\":0,\"mappings\":1,\"held\":0,\"bytes\":4096,\"devices\":[0],\"grants\":1,"
		       "\"holds\":[\"live\"]}");
	expect_element(good_file(), "buffers", 0,
		       "{\"name\":\"draining\",\"generation\":8,\"bytes\":0,\"allocated\":300,\"created\":1500000000,"
		       "\"device\":0,\"state\":\"draining\",\"owner\":0,\"group\":0,\"mode\":0,\"ephemeral\":false,"
		       "\"timeline\":false,\"alone\":false,\"sealed\":false,\"same_address\":false,\"growable\":false,"
		       "\"ended\":false,\"export\":\"ipc\",\"grants\":1,\"held\":0,\"holders\":[" HOLDER "]}");
	expect_element(good_file(), "buffers", 1,
		       "{\"name\":\"live\",\"generation\":9,\"bytes\":0,\"allocated\":400,\"created\":1500000000,"
		       "\"device\":0,\"state\":\"live\",\"owner\":0,\"group\":0,\"mode\":0,\"ephemeral\":false,"
		       "\"timeline\":false,\"alone\":false,\"sealed\":false,\"same_address\":false,\"growable\":false,"
		       "\"ended\":false,\"export\":\"ipc\",\"grants\":1,\"held\":0,\"holders\":[" HOLDER "]}");
	expect_element(good_file(), "users", 0,
		       "{\"uid\":7,\"used\":{\"bytes\":4096,\"buffers\":2,\"sessions\":1,\"grants\":0,\"tickets\":0,"
		       "\"greetings\":0,\"waits\":0,\"mappings\":0,\"descriptors\":0,\"queued\":0},\"quota\":{}}");
}

/* The broker ended one of those that name each other before the reader came to it. */
static void test_what_names_nothing_is_left_out(void **unused)
{
	static const int gone[] = { SESSION, MAPPING };

	(void)unused;
	for (size_t i = 0; i < sizeof gone / sizeof *gone; i++) {
		int fd = good_file();
		struct shown shown;
		json_t *buffer;
		size_t j;

		put_record(fd, gone[i], record_of(FREE));
		shown = read_file(fd);
		assert_int_equal(size_of(&shown, "buffers"), 2);
		json_array_foreach (json_object_get(shown.text, "buffers"), j, buffer) {
			assert_int_equal(json_integer_value(json_object_get(buffer, "grants")), 0);
			assert_int_equal(json_array_size(json_object_get(buffer, "holders")), 0);
		}
		assert_int_equal(shown.unreadable, 0);
		shown_free(&shown);
		close(fd);
	}
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
	struct status_header header = header_of(RECORDS);
	int fd = good_file(), brokers = reopen(fd);
	pid_t child = stopped_child();

	(void)unused;
	assert_int_equal(leftovers_lock(brokers), 0);
	header.pid = (uint64_t)child;
	header.start_time = process_start(header.pid, NULL);
	put_header(fd, header);
	assert_int_equal(state_of_file(fd), SHOWN_STOPPED);
	header.start_time++;
	put_header(fd, header);
	assert_int_equal(state_of_file(fd), SHOWN_RUNNING);
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
	close(brokers);
	close(fd);
}

static void test_age(void **unused)
{
	struct shown shown = { .header.updated = (uint64_t)time(NULL) - 100 };

	(void)unused;
	assert_in_range(shown_age(&shown), 100, 110);
	shown.header.updated += 1000; /* the clock went back */
	assert_int_equal(shown_age(&shown), 0);
}

/* ---- who is trusted ---- */

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

/* Within the header it is no status; behind it, what is gone is counted. */
static void test_truncated(void **unused)
{
	static const size_t lengths[] = { 0, 1, sizeof(struct status_header) - 1 };

	(void)unused;
	for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
		int fd = good_file();

		assert_int_equal(ftruncate(fd, (off_t)lengths[i]), 0);
		assert_refused(fd, -EAGAIN);
	}
	for (int records = 0; records < FREE; records++) {
		int fd = good_file();
		struct shown shown;

		assert_int_equal(ftruncate(fd, (off_t)STATUS_OFFSET(records) + 10), 0);
		shown = read_file(fd);
		assert_int_equal(shown.unreadable, RECORDS - records);
		shown_free(&shown);
		close(fd);
	}
}

static int file_with(struct status_header header)
{
	int fd = good_file();

	put_header(fd, header);
	return fd;
}

static void test_header(void **unused)
{
	const struct status_header good = header_of(RECORDS);
	struct status_header bad = good;
	int fd = good_file();

	(void)unused;
	bad.magic++;
	assert_refused(file_with(bad), -EBADMSG);
	bad = good, bad.format++;
	assert_refused(file_with(bad), -EBADMSG);
	bad = good, bad.format = STATUS_FORMAT_OLDEST - 1;
	assert_refused(file_with(bad), -EBADMSG);
	bad = good, bad.counters_count++;
	assert_refused(file_with(bad), -EBADMSG);
	bad = good, bad.records = STATUS_RECORDS_MAX + 1ull;
	assert_refused(file_with(bad), -EBADMSG);
	bad = good, bad.records = UINT64_MAX;
	assert_refused(file_with(bad), -EBADMSG);
	put(fd, &good, sizeof good, 0); /* not sealed */
	assert_refused(fd, -EAGAIN);
}

/* An older broker's file has no records of a job and of the owner of the memory, and is else the same. */
static void test_older_format(void **unused)
{
	struct status_header header = header_of(RECORDS);
	struct shown shown;
	int fd;

	(void)unused;
	header.format = STATUS_FORMAT_OLDEST;
	fd = file_with(header);
	shown = read_file(fd);
	assert_int_equal(shown.count, FREE);
	assert_int_equal(shown.unreadable, 0);
	assert_null(json_object_get(shown.text, "job"));
	assert_null(json_object_get(shown.text, "memory_owner"));
	assert_null(shown_owner(&shown));
	shown_free(&shown);
	close(fd);
}

static struct shown read_owner(struct status_owner owner)
{
	union status_record record = { .first.owner = owner };
	int fd = good_file();
	struct shown shown;

	record.type = TRACKED_ADDRESS;
	record.first.owner.type = TRACKED_OWNER;
	status_seal(&record.first.owner.seal, sizeof record.first.owner, 1);
	put_record(fd, FREE, record);
	shown = read_file(fd);
	close(fd);
	return shown;
}

static struct shown read_broker(struct status_broker broker, struct status_program program)
{
	union status_record record = { .second = { .broker = broker, .program = program } };
	int fd = good_file();
	struct shown shown;

	record.type = TRACKED_DEVICE;
	record.second.broker.type = TRACKED_BROKER;
	status_seal(&record.second.broker.seal, sizeof record.second.broker, 1);
	if (*program.version)
		record.second.program.type = TRACKED_PROGRAM;
	status_seal(&record.second.program.seal, sizeof record.second.program, 1);
	put_record(fd, FREE, record);
	shown = read_file(fd);
	close(fd);
	return shown;
}

static void test_process_and_program(void **unused)
{
	const struct status_broker broker = { .pid = 7, .restarts = 2, .how = 4, .pause_us = 3000, .objects = 5 };
	struct status_program program = { .version = "1.2.3" };
	struct shown shown = read_broker(broker, program);
	const json_t *json = json_object_get(shown.text, "broker_process");

	(void)unused;
	assert_int_equal(shown_process(&shown), 7);
	assert_string_equal(shown_version(&shown), "1.2.3");
	assert_string_equal(json_string_value(json_object_get(json, "version")), "1.2.3");
	assert_string_equal(json_string_value(json_object_get(json, "ended")), "upgraded");
	shown_free(&shown);
	shown = read_broker(broker, (struct status_program){ .version = "" }); /* one that does not tell */
	assert_int_equal(shown_process(&shown), 7);
	assert_null(shown_version(&shown));
	assert_null(json_object_get(json_object_get(shown.text, "broker_process"), "version"));
	shown_free(&shown);
	memset(program.version, '1', sizeof program.version); /* a text without its end */
	shown = read_broker(broker, program);
	assert_int_equal(shown.unreadable, 1);
	assert_null(shown_version(&shown));
	shown_free(&shown);
}

static void test_memory_owner(void **unused)
{
	struct status_owner owner = { .state = STATUS_OWNER_STARTS,
				      .died = 2,
				      .died_at = 5000,
				      .died_pid = 6,
				      .lost = STATUS_HIDDEN,
				      .lost_all = 3 };
	struct shown shown = read_owner(owner);
	const json_t *json = json_object_get(shown.text, "memory_owner");

	(void)unused;
	assert_string_equal(json_string_value(json_object_get(json, "state")), "starting");
	assert_null(json_object_get(json, "pid"));
	assert_int_equal(json_integer_value(json_object_get(json, "died")), 2);
	assert_int_equal(json_integer_value(json_object_get(json, "died_pid")), 6);
	assert_int_equal(json_integer_value(json_object_get(json, "died_at")), 5);
	assert_null(json_object_get(json, "lost"));
	assert_int_equal(json_integer_value(json_object_get(json, "lost_all")), 3);
	assert_int_equal(shown_owner(&shown)->died, 2);
	shown_free(&shown);
	owner = (struct status_owner){ .state = STATUS_OWNER_RUNS, .pid = 9 };
	shown = read_owner(owner);
	json = json_object_get(shown.text, "memory_owner");
	assert_int_equal(json_integer_value(json_object_get(json, "pid")), 9);
	assert_null(json_object_get(json, "died_pid"));
	assert_null(json_object_get(json, "lost_all"));
	shown_free(&shown);
	owner.state = STATUS_OWNER_STATES; /* no such state */
	shown = read_owner(owner);
	assert_null(shown_owner(&shown));
	assert_null(json_object_get(shown.text, "memory_owner"));
	assert_int_equal(shown.unreadable, 1);
	shown_free(&shown);
}

static struct shown read_job(const char *id, size_t size)
{
	union status_record record = { .job = { .launcher = "Slurm" } };
	int fd = good_file();
	struct shown shown;

	record.type = TRACKED_JOB;
	memcpy(record.job.id, id, size);
	put_record(fd, FREE, record);
	shown = read_file(fd);
	close(fd);
	return shown;
}

static void test_job(void **unused)
{
	char endless[STATUS_JOB_SIZE];
	struct shown shown = read_job("42", sizeof "42");
	const json_t *job = json_object_get(shown.text, "job");

	(void)unused;
	assert_string_equal(json_string_value(json_object_get(job, "launcher")), "Slurm");
	assert_string_equal(json_string_value(json_object_get(job, "id")), "42");
	shown_free(&shown);
	memset(endless, '4', sizeof endless);
	shown = read_job(endless, sizeof endless);
	assert_null(json_object_get(shown.text, "job"));
	assert_int_equal(shown.unreadable, 1);
	shown_free(&shown);
	shown = read_job("\xff", sizeof "\xff"); /* no text */
	assert_null(json_object_get(shown.text, "job"));
	assert_int_equal(shown.unreadable, 0);
	shown_free(&shown);
}

/* Records that a broker never has so: a few are listed again and again, as if many buffers waited for them. */
static void test_bloated(void **unused)
{
	const int count = 5000;
	int fd = good_file();
	size_t listed = 0, i;
	struct shown shown;
	json_t *buffer;

	(void)unused;
	put_header(fd, header_of((uint64_t)count));
	for (int slot = RECORDS; slot < count; slot++)
		put_record(fd, slot, record_of(slot < 100 ? MAPPING : DRAINING));
	shown = read_file(fd);
	assert_int_equal(size_of(&shown, "buffers"), count - 100 + 2);
	json_array_foreach (json_object_get(shown.text, "buffers"), i, buffer)
		listed += json_array_size(json_object_get(buffer, "holders"));
	assert_in_range(listed, 64, 5 * count);
	shown_free(&shown);
	close(fd);
}

/* As many as a large broker's: a file of one's own is read whole. */
static void test_large(void **unused)
{
	const int count = 80000;
	union status_record record = record_of(LIVE);
	int fd = good_file();
	struct shown shown;

	(void)unused;
	put_header(fd, header_of((uint64_t)count));
	for (int slot = RECORDS; slot < count; slot++) {
		record.buffer.generation = (uint64_t)slot + 100;
		put_record(fd, slot, record);
	}
	shown = read_file(fd);
	assert_int_equal(size_of(&shown, "buffers"), count - RECORDS + 2);
	shown_free(&shown);
	close(fd);
}

/* More than a few megabytes only of one's own, or root's: the header alone is looked at. */
static void test_length_of_others(void **unused)
{
	int fd = good_file();

	(void)unused;
	put_header(fd, header_of(SHOW_OTHERS_MAX / STATUS_RECORD_SIZE + 1));
	if (geteuid()) {
		struct shown shown = read_file(fd);

		shown_free(&shown);
		close(fd);
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
		cmocka_unit_test(test_whole),
		cmocka_unit_test(test_joined),
		cmocka_unit_test(test_what_names_nothing_is_left_out),
		cmocka_unit_test(test_dead),
		cmocka_unit_test(test_running),
		cmocka_unit_test(test_stopped),
		cmocka_unit_test(test_age),
		cmocka_unit_test(test_owner),
		cmocka_unit_test(test_truncated),
		cmocka_unit_test(test_header),
		cmocka_unit_test(test_older_format),
		cmocka_unit_test(test_process_and_program),
		cmocka_unit_test(test_memory_owner),
		cmocka_unit_test(test_job),
		cmocka_unit_test(test_bloated),
		cmocka_unit_test(test_large),
		cmocka_unit_test(test_length_of_others),
		cmocka_unit_test(test_not_a_file),
		cmocka_unit_test(test_names),
		cmocka_unit_test(test_find),
	};

	return cmocka_run_group_tests_name("status-read", tests, NULL, NULL);
}
