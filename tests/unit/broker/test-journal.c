/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test-journal.c - where stderr is the journal's, a line goes there with its fields; otherwise, and when the journal
 * does not take it, to stderr. Nothing that a client chose can become a field.
 *
 * The journal is a socket in a folder of this test's, and stderr a pipe.
 */
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cmocka.h>

#include "broker/base/context.h"
#include "broker/base/events.h"
#include "broker/base/journal.h"
#include "broker/base/log.h"

static char folder[] = "/tmp/test-journal-XXXXXX", path[64];
static int server, reader, stderr_before;
static char got[8192];
static ssize_t got_size;

static void stream_is(unsigned long long device, unsigned long long inode)
{
	char text[64];

	snprintf(text, sizeof text, "%llu:%llu", device, inode);
	setenv("JOURNAL_STREAM", text, 1);
}

static void stream_is_stderr(void)
{
	struct stat st;

	assert_int_equal(fstat(STDERR_FILENO, &st), 0);
	stream_is(st.st_dev, st.st_ino);
}

static int setup(void **state)
{
	struct sockaddr_un name = { .sun_family = AF_UNIX };
	int ends[2];

	(void)state;
	strcpy(folder + sizeof folder - 7, "XXXXXX");
	if (!mkdtemp(folder))
		return -1;
	snprintf(path, sizeof path, "%s/socket", folder);
	strcpy(name.sun_path, path);
	server = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	stderr_before = dup(STDERR_FILENO);
	if (bind(server, (struct sockaddr *)&name, sizeof name) || pipe2(ends, O_CLOEXEC) ||
	    fcntl(ends[0], F_SETFL, O_NONBLOCK) || dup2(ends[1], STDERR_FILENO) < 0)
		return -1;
	close(ends[1]);
	reader = ends[0];
	stream_is_stderr();
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	journal_close();
	unsetenv("JOURNAL_STREAM");
	unlink(path);
	rmdir(folder);
	close(server);
	close(reader);
	return dup2(stderr_before, STDERR_FILENO) < 0 || close(stderr_before);
}

/* The next datagram, in got; false: there is none. */
static bool received(void)
{
	got_size = recv(server, got, sizeof got - 1, 0);
	got[got_size > 0 ? got_size : 0] = 0;
	return got_size > 0;
}

static bool has_line(const char *line)
{
	char with_end[600];

	snprintf(with_end, sizeof with_end, "%s\n", line);
	for (const char *at = got; (at = memmem(at, (size_t)(got + got_size - at), with_end, strlen(with_end))); at++)
		if (at == got || at[-1] == '\n')
			return true;
	return false;
}

/* What stderr got since the last time. */
static const char *said(void)
{
	static char text[4096];
	ssize_t size = read(reader, text, sizeof text - 1);

	text[size > 0 ? size : 0] = 0;
	return text;
}

static void test_a_line_with_its_fields(void **state)
{
	static struct events events;
	static struct broker broker = { .events = &events };

	(void)state;
	journal_open(path);
	event_happened(&broker, &(struct broker_event){ .kind = EVENT_CREATE_REFUSED,
							.error = -EDQUOT,
							.actor = { 4, 12, 1000, "heat" },
							.bytes = 4096,
							.name = "a/b",
							.text = "it is over" });
	assert_true(received());
	assert_true(has_line(
		"MESSAGE=session 4 (pid 12, heat, uid 1000) was refused the create of 'a/b' of 4 KiB: it is over"));
	assert_true(has_line("PRIORITY=5") && has_line("SYSLOG_IDENTIFIER=test-journal"));
	assert_true(has_line("GPUBROKER_EVENT=create-refused") && has_line("GPUBROKER_REASON=quota"));
	assert_true(has_line("GPUBROKER_SESSION=4") && has_line("GPUBROKER_CLIENT_PID=12") &&
		    has_line("GPUBROKER_CLIENT_UID=1000"));
	assert_true(has_line("GPUBROKER_BUFFER=a/b") && has_line("GPUBROKER_BYTES=4096"));
	assert_null(strstr(got, "OTHER"));
	assert_string_equal(said(), "");
}

static void test_plain_lines_go_there_too(void **state)
{
	(void)state;
	journal_open(path);
	log_say("a failure");
	assert_true(received() && has_line("MESSAGE=a failure") && has_line("PRIORITY=4"));
	assert_string_equal(said(), "");
}

/* A reader of the protocol takes the length's word, and then the line's end. */
static void test_a_value_cannot_become_a_field(void **state)
{
	static const char value[] = "x\nGPUBROKER_EVENT=create\nPRIORITY=0";
	const struct journal_field field = { "GPUBROKER_BUFFER", value, 0, true };
	uint64_t length;
	char *at;

	(void)state;
	journal_open(path);
	assert_true(journal_send(6, &field, 1, "two\nlines"));
	assert_true(received());
	at = memmem(got, (size_t)got_size, "GPUBROKER_BUFFER\n", 17);
	assert_non_null(at);
	memcpy(&length, at + 17, sizeof length);
	assert_int_equal(le64toh(length), strlen(value));
	assert_memory_equal(at + 25, value, strlen(value));
	assert_int_equal(at[25 + strlen(value)], '\n');
	assert_int_equal(at + 26 + strlen(value) - got, got_size);
	assert_memory_equal(got, "MESSAGE\n\11\0\0\0\0\0\0\0two\nlines\n", 26);
}

static void test_another_stderr_is_not_the_journals(void **state)
{
	struct stat st;

	(void)state;
	fstat(STDERR_FILENO, &st);
	stream_is(st.st_dev, st.st_ino + 1);
	journal_open(path);
	log_say("to stderr");
	assert_false(received());
	assert_non_null(strstr(said(), "to stderr\n"));
	setenv("JOURNAL_STREAM", "garbage", 1);
	journal_open(path);
	unsetenv("JOURNAL_STREAM");
	journal_open(path);
	log_say("to stderr");
	assert_false(received());
	assert_non_null(strstr(said(), "to stderr\n"));
}

static void test_a_journal_that_is_gone_or_full(void **state)
{
	const char *line = "to stderr\n";
	int sent = 0;

	(void)state;
	journal_open(path);
	while (journal_send(6, NULL, 0, "fills it") && sent < 100000)
		sent++;
	assert_in_range(sent, 1, 99999);
	log_say("to stderr");
	assert_non_null(strstr(said(), line));
	while (received())
		;
	log_say("to the journal");
	assert_true(received() && has_line("MESSAGE=to the journal"));
	unlink(path);
	log_say("to stderr");
	assert_non_null(strstr(said(), line));
}

static void test_what_is_too_long_goes_to_stderr(void **state)
{
	char value[8000];
	const struct journal_field field = { "GPUBROKER_BUFFER", value, 0, true };

	(void)state;
	memset(value, 'x', sizeof value - 1);
	value[sizeof value - 1] = 0;
	journal_open(path);
	assert_false(journal_send(6, &field, 1, "short"));
	log_fields(LOG_QUIET, false, &field, 1, "short");
	assert_false(received());
	assert_non_null(strstr(said(), "short\n"));
}

#define ON(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		ON(test_a_line_with_its_fields),	     ON(test_plain_lines_go_there_too),
		ON(test_a_value_cannot_become_a_field),	     ON(test_another_stderr_is_not_the_journals),
		ON(test_a_journal_that_is_gone_or_full), ON(test_what_is_too_long_goes_to_stderr),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
