/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test-openmetrics.c - metrics of status files as brokers write them, and as somebody writes them to break the text or
 * its reader: no series twice, no line that is not a sample, no more of them than the limits say.
 *
 * The files are in /dev/shm and locked by this process, so that their broker counts as running.
 */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>
#include <sodium.h>

#include "broker/base/process-start.h"
#include "broker/show/openmetrics.h"
#include "broker/show/read.h"

#define NO_USER 3000000000u /* and those behind it: nobody has a name for them */

static char names[1][INSTANCE_SIZE];
static struct metrics_wanted wanted = { { names, 1 }, METRICS_ANY_OWNER };
static char path[64];
static char *text;
static size_t text_size;
static int fd;
static unsigned slots;

/* ---- the file ---- */

static struct status_header header(void)
{
	return (struct status_header){ .magic = STATUS_MAGIC,
				       .format = STATUS_FORMAT,
				       .counters_count = sizeof(struct counters) / sizeof(uint64_t),
				       .pid = (uint64_t)getpid(),
				       .start_time = process_start((uint64_t)getpid(), NULL),
				       .device_kind = "cuda",
				       .waiting = 3,
				       .counters = { .buffers_created = 7, .bytes_made = UINT64_MAX } };
}

static void put_header(void)
{
	struct status_header to = header();

	to.records = slots;
	status_seal(&to.seal, STATUS_HEADER_SEALED, 1);
	assert_int_equal(pwrite(fd, &to, sizeof to, 0), sizeof to);
}

static void put(union status_record record, uint32_t type)
{
	record.type = type;
	status_seal(&record.seal, status_size(type), 1);
	assert_int_equal(pwrite(fd, &record, sizeof record, (off_t)STATUS_OFFSET(slots)), sizeof record);
	slots++;
}

static void put_device(uint64_t index, const char *name)
{
	union status_record record = {
		.device = { .index = index, .bytes = 1000, .idle = 20, .pooled = 3, .uuid = { 0xab } }
	};

	strncpy(record.device.name, name, sizeof record.device.name - 1);
	put(record, TRACKED_DEVICE);
}

static void put_user(uint64_t uid)
{
	union status_record record = { .user = { .uid = uid, .used = { 4096, 2, 1 }, .requests = QUOTA_NONE } };

	memset(record.user.limit, 0xff, sizeof record.user.limit);
	record.user.limit[RESOURCE_BUFFERS] = 9;
	put(record, TRACKED_USER);
}

static void put_buffer(uint64_t generation, uint32_t owner, enum status_buffer_state state)
{
	union status_record record = { .buffer = { .state = state,
						   .generation = generation,
						   .allocated = 256,
						   .owner = owner,
						   .name = "secret/name" } };

	put(record, TRACKED_BUFFER);
}

static void put_histogram(uint64_t id)
{
	union status_record record = { .histogram = {
					       .id = id, .nanoseconds = 1500000001, .buckets = { 2, 1, [24] = 4 } } };

	put(record, TRACKED_HISTOGRAM);
}

static int setup(void **state)
{
	(void)state;
	snprintf(names[0], sizeof names[0], "unit-om-%d", getpid());
	snprintf(path, sizeof path, SHM_DIR STATUS_PREFIX "%s", names[0]);
	fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	slots = 0;
	return fd >= 0 && !leftovers_lock(fd) ? 0 : -1;
}

static int teardown(void **state)
{
	(void)state;
	close(fd);
	unlink(path);
	free(text);
	text = NULL;
	return 0;
}

/* ---- the text ---- */

static void make(enum metrics_format format)
{
	FILE *to;

	free(text);
	to = open_memstream(&text, &text_size);
	assert_int_equal(metrics_write(to, format, &wanted), 0);
	fclose(to);
}

static bool has(const char *line)
{
	const char *at = strstr(text, line);

	return at && (at == text || at[-1] == '\n') && at[strlen(line)] == '\n';
}

static unsigned lines_with(const char *begin)
{
	unsigned count = 0;

	for (const char *at = text; (at = strstr(at, begin)); at++)
		count += at == text || at[-1] == '\n';
	return count;
}

static int compare_lines(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Each line is a comment or a sample, of printable ASCII, and no series is there twice. Spoils the text. */
static void check_series(void)
{
	static char *series[200000];
	size_t count = 0;

	for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n")) {
		for (const char *at = line; *at; at++)
			assert_true(*at >= ' ' && *at <= '~');
		if (*line == '#')
			continue;
		assert_int_equal(strncmp(line, "gpubroker_", 10), 0);
		assert_non_null(strrchr(line, ' '));
		*strrchr(line, ' ') = 0;
		assert_true(count < sizeof series / sizeof *series);
		series[count++] = line;
	}
	qsort(series, count, sizeof *series, compare_lines);
	for (size_t i = 1; i < count; i++)
		assert_string_not_equal(series[i - 1], series[i]);
}

/* ---- what a broker wrote ---- */

static void test_what_a_broker_holds(void **state)
{
	(void)state;
	put_device(0, "NVIDIA H200");
	put_user(NO_USER);
	put_buffer(1, NO_USER, STATUS_LIVE);
	put_buffer(2, NO_USER, STATUS_LIVE);
	put_buffer(3, NO_USER, STATUS_DRAINING);
	put_header();
	make(METRICS_OPENMETRICS);
#define MEMORY                                                                                       \
	"gpubroker_memory_bytes{broker=\"%s\",%sdevice_uuid=\"GPU-ab000000-0000-0000-0000-000000000000\"," \
	"state=\"%s\"} %d"
	static const struct {
		const char *user, *state;
		int         bytes;
	} memory[] = { { "user=\"3000000000\",", "live", 512 },
		       { "user=\"3000000000\",", "draining", 256 },
		       { "", "idle", 20 },
		       { "", "pooled", 3 } };
	char line[300];

	for (size_t i = 0; i < sizeof memory / sizeof *memory; i++) {
		snprintf(line, sizeof line, MEMORY, names[0], memory[i].user, memory[i].state, memory[i].bytes);
		assert_true(has(line));
	}
	snprintf(line, sizeof line, "gpubroker_up{broker=\"%s\",state=\"running\"} 1", names[0]);
	assert_true(has(line));
	snprintf(line, sizeof line, "gpubroker_bytes_made_total{broker=\"%s\"} 18446744073709551615", names[0]);
	assert_true(has(line));
	snprintf(line, sizeof line,
		 "gpubroker_user_used_bytes{broker=\"%s\",user=\"3000000000\",resource=\"bytes\"} 4096", names[0]);
	assert_true(has(line));
	snprintf(line, sizeof line, "gpubroker_user_quota{broker=\"%s\",user=\"3000000000\",resource=\"buffers\"} 9",
		 names[0]);
	assert_true(has(line));
	assert_int_equal(lines_with("gpubroker_user_quota{"), 1);
	assert_int_equal(lines_with("gpubroker_sessions{"), STATUS_SESSION_STATES);
	assert_true(has("# TYPE gpubroker_buffers_created counter"));
	assert_true(has("# UNIT gpubroker_memory_bytes bytes"));
	assert_string_equal(text + text_size - 6, "# EOF\n");
	check_series();
}

static void test_the_older_format(void **state)
{
	(void)state;
	put_header();
	make(METRICS_PROMETHEUS);
	assert_true(has("# TYPE gpubroker_buffers_created_total counter"));
	assert_true(has("# TYPE gpubroker_build_info gauge"));
	assert_null(strstr(text, "# UNIT"));
	assert_null(strstr(text, "# EOF"));
	check_series();
}

static void test_buckets_add_up(void **state)
{
	static const struct {
		const char *suffix, *bound, *value;
	} lines[] = { { "_bucket", ",le=\"1.6e-05\"", "2" }, { "_bucket", ",le=\"3.2e-05\"", "3" },
		      { "_bucket", ",le=\"134.217728\"", "3" }, { "_bucket", ",le=\"+Inf\"", "7" },
		      { "_count", "", "7" }, { "_sum", "", "1.500000001" } };
	char line[200];

	(void)state;
	put_histogram(HISTOGRAM_CREATE);
	put_header();
	make(METRICS_OPENMETRICS);
	for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
		snprintf(line, sizeof line, "gpubroker_create_seconds%s{broker=\"%s\"%s} %s", lines[i].suffix, names[0],
			 lines[i].bound, lines[i].value);
		assert_true(has(line));
	}
	assert_int_equal(lines_with("gpubroker_create_seconds_bucket"), HISTOGRAM_BUCKETS);
	assert_int_equal(lines_with("gpubroker_drain_seconds"), 0);
}

/* A user who does not see all of a broker's status does not see how many names were lost, and is told no number. */
static void test_what_is_hidden_of_the_owner_has_no_sample(void **state)
{
	union status_record record = { .owner = { .pid = 7, .died = 2, .died_at = 5000, .lost_all = 3 } };

	(void)state;
	put(record, TRACKED_OWNER);
	put_header();
	make(METRICS_OPENMETRICS);
	assert_int_equal(lines_with("gpubroker_memory_owners_died_total{"), 1);
	assert_int_equal(lines_with("gpubroker_names_lost_total{"), 1);
	slots--;
	record.owner.lost_all = STATUS_HIDDEN;
	put(record, TRACKED_OWNER);
	make(METRICS_OPENMETRICS);
	assert_int_equal(lines_with("gpubroker_memory_owners_died_total{"), 1);
	assert_int_equal(lines_with("gpubroker_names_lost_total{"), 0);
}

/* Labels are what there is little of: nobody's names and pids. */
static void test_no_names_of_buffers(void **state)
{
	union status_record session = { .session = { .id = 1, .pid = 424242, .command = "solver" } };

	(void)state;
	put_buffer(1, NO_USER, STATUS_LIVE);
	put(session, TRACKED_SESSION);
	put_header();
	make(METRICS_OPENMETRICS);
	assert_null(strstr(text, "secret"));
	assert_null(strstr(text, "424242"));
	assert_null(strstr(text, "solver"));
	assert_int_equal(lines_with("gpubroker_buffers{"), 1);
}

static void test_300_users(void **state)
{
	(void)state;
	put_device(0, "NVIDIA H200");
	for (unsigned i = 0; i < 300; i++) {
		put_user(NO_USER + i);
		for (unsigned j = 0; j < 10; j++)
			put_buffer(1 + i * 10 + j, NO_USER + i, j % 2 ? STATUS_LIVE : STATUS_DRAINING);
	}
	put_header();
	make(METRICS_OPENMETRICS);
	assert_int_equal(lines_with("gpubroker_memory_bytes{"), 2 * 300 + 2);
	assert_int_equal(lines_with("gpubroker_user_used{"), 300 * (RESOURCES - 2));
	assert_int_equal(lines_with("gpubroker_user_used_bytes{"), 300 * 2);
	assert_null(strstr(text, "(others)"));
	check_series();
}

/* ---- a broker that is not there ---- */

static void test_a_dead_broker_holds_nothing(void **state)
{
	struct flock unlock = { .l_type = F_UNLCK, .l_whence = SEEK_SET };
	char line[100];

	(void)state;
	put_device(0, "NVIDIA H200");
	put_buffer(1, NO_USER, STATUS_LIVE);
	put_header();
	assert_int_equal(fcntl(fd, F_OFD_SETLK, &unlock), 0);
	make(METRICS_OPENMETRICS);
	snprintf(line, sizeof line, "gpubroker_up{broker=\"%s\",state=\"dead\"} 0", names[0]);
	assert_true(has(line));
	assert_int_equal(lines_with("gpubroker_memory_bytes"), 0);
	assert_int_equal(lines_with("gpubroker_buffers"), 0);
}

static void test_an_unreadable_file(void **state)
{
	char line[100];

	(void)state;
	assert_int_equal(pwrite(fd, "nonsense", 8, 0), 8);
	make(METRICS_OPENMETRICS);
	snprintf(line, sizeof line, "gpubroker_up{broker=\"%s\",state=\"unreadable\"} 0", names[0]);
	assert_true(has(line));
}

static void test_an_absent_broker(void **state)
{
	char line[100];

	(void)state;
	unlink(path);
	make(METRICS_OPENMETRICS);
	snprintf(line, sizeof line, "gpubroker_up{broker=\"%s\",state=\"absent\"} 0", names[0]);
	assert_true(has(line));
	assert_int_equal(lines_with("gpubroker_"), 2);
}

/* ---- a file that somebody wrote to hurt ---- */

static void test_texts_are_escaped(void **state)
{
	(void)state;
	put_device(0, "a\"b\\c\nd{e}\x7f\xc3\xa9");
	put_header();
	make(METRICS_OPENMETRICS);
	assert_non_null(strstr(text, ",model=\"a\\\"b\\\\c?d{e}???\"} 1000\n"));
	check_series();
}

/* Who reads a text with a series twice refuses all of it, other brokers' too. */
static void test_no_series_is_there_twice(void **state)
{
	char line[200];

	(void)state;
	for (int i = 0; i < 3; i++) {
		put_device(0, i ? "one" : "other");
		put_device(UINT64_MAX, "beyond");
		put_user(NO_USER);
		put_buffer(1, NO_USER, STATUS_LIVE);
		put_histogram(HISTOGRAM_DRAIN);
	}
	put_header();
	make(METRICS_OPENMETRICS);
	snprintf(line, sizeof line, "gpubroker_user_used{broker=\"%s\",user=\"3000000000\",resource=\"buffers\"} 6",
		 names[0]);
	assert_true(has(line));
	assert_int_equal(lines_with("gpubroker_device_memory_bytes{"), 1);
	check_series();
}

static void test_users_and_samples_are_bounded(void **state)
{
	unsigned samples = 0;
	char line[200];

	(void)state;
	for (unsigned i = 0; i < 2 * METRICS_USERS_MAX; i++)
		put_user(NO_USER + i);
	put_header();
	make(METRICS_OPENMETRICS);
	/* the file's owner is a user, too */
	snprintf(line, sizeof line, "gpubroker_user_used{broker=\"%s\",user=\"(others)\",resource=\"buffers\"} %u",
		 names[0], 2 * (METRICS_USERS_MAX + 1));
	assert_true(has(line));
	assert_int_equal(lines_with("gpubroker_user_quota{"), METRICS_USERS_MAX);
	for (unsigned device = 0; device < DEVICE_MAX; device++) {
		union status_record record = { .device = { .index = device, .uuid = { (uint8_t)device, 1 } } };

		put(record, TRACKED_DEVICE);
	}
	for (unsigned i = 0; i < 24000; i++) {
		union status_record record = { .buffer = { .state = i % STATUS_BUFFER_STATES,
							   .generation = i + 1,
							   .device = i / 4 % DEVICE_MAX,
							   .owner = NO_USER + i / 256,
							   .name = "x" } };

		put(record, TRACKED_BUFFER);
	}
	put_header();
	make(METRICS_OPENMETRICS);
	snprintf(line, sizeof line, "gpubroker_omitted_samples{broker=\"%s\"} 0", names[0]);
	assert_false(has(line));
	for (const char *at = text; (at = strchr(at, '\n')); at++)
		samples += at[1] == 'g';
	/* the program's own, and the count of those that are left out */
	assert_int_equal(samples, METRICS_SAMPLES_MAX + 2);
	check_series();
}

/* Anybody may have the name of a broker that is not there. */
static void test_another_users_file_is_not_the_brokers(void **state)
{
	char line[200];

	(void)state;
	put_user(NO_USER);
	put_header();
	wanted.owner = geteuid();
	make(METRICS_OPENMETRICS);
	assert_int_equal(lines_with("gpubroker_broker_info"), 1);
	wanted.owner = NO_USER;
	make(METRICS_OPENMETRICS);
	wanted.owner = METRICS_ANY_OWNER;
	snprintf(line, sizeof line, "gpubroker_up{broker=\"%s\",state=\"absent\"} 0", names[0]);
	assert_true(has(line));
	assert_int_equal(lines_with("gpubroker_broker_info"), 0);
}

/* A text that was cut would end in the middle of a number. */
static void test_what_cannot_be_written_is_an_error(void **state)
{
	char small[700];
	FILE *to = fmemopen(small, sizeof small, "w");

	(void)state;
	put_header();
	setvbuf(to, NULL, _IONBF, 0);
	assert_int_equal(metrics_write(to, METRICS_PROMETHEUS, &wanted), -ENOSPC);
	fclose(to);
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_what_a_broker_holds),
		TEST(test_the_older_format),
		TEST(test_buckets_add_up),
		TEST(test_what_is_hidden_of_the_owner_has_no_sample),
		TEST(test_no_names_of_buffers),
		TEST(test_300_users),
		TEST(test_a_dead_broker_holds_nothing),
		TEST(test_an_unreadable_file),
		TEST(test_an_absent_broker),
		TEST(test_texts_are_escaped),
		TEST(test_no_series_is_there_twice),
		TEST(test_users_and_samples_are_bounded),
		TEST(test_another_users_file_is_not_the_brokers),
		TEST(test_what_cannot_be_written_is_an_error),
	};

	return sodium_init() < 0 ? 1 : cmocka_run_group_tests(tests, NULL, NULL);
}
