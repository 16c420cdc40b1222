/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test-status-write.c - the status file follows the broker: each change is in it when the answer is sent, and nothing
 * else is written.
 *
 * Files are read as broker-status reads them. session-harness.h is the world, with a board large enough for many
 * buffers. What the broker writes is counted in the file: each record has the number of the write that wrote it.
 */
#include "broker/request/creation.h"
#include "broker/request/manage.h"
#include "session-harness.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <jansson.h>

#include "broker/show/read.h"
#include "common/now.h"

#define PLACES 20000
#define MANY   2000 /* buffers */
#define SMALL  64   /* bytes of each */

#define STEPS_MAX     20000 /* instructions of a write */
#define TRACE_REFUSED 3     /* exit status */
#ifdef __SANITIZE_ADDRESS__
#define IS_INSTRUMENTED true /* a write takes too many instructions */
#else
#define IS_INSTRUMENTED false
#endif

/* ---- what the broker writes ---- */

static uint64_t counted_from; /* a write */
static bool fails;            /* the file cannot grow */
static unsigned attempts;       /* how often it was to, meanwhile */

int posix_fallocate(int fd, off_t offset, off_t size)
{
	static int (*real)(int, off_t, off_t);

	if (!real)
		*(void **)&real = dlsym(RTLD_NEXT, "posix_fallocate");
	if (!fails || !broker.status || fd != broker.status->file.fd)
		return real(fd, offset, size);
	attempts++;
	return ENOSPC;
}

static void count_from_here(void)
{
	run_passes();
	counted_from = broker.status->sequence;
}

/* Records that were written since. Those that are free have no number: they are counted from what was there before. */
static unsigned written(void)
{
	uint32_t slots = broker.tracking->slots;
	union status_record record;
	unsigned count = 0;

	for (uint32_t slot = 0; slot < slots; slot++) {
		assert_int_equal(pread(broker.status->file.fd, &record, sizeof record, (off_t)STATUS_OFFSET(slot)),
				 sizeof record);
		count += record.seal.checksum && record.seal.sequence > counted_from;
	}
	return count;
}

/* ---- what there is ---- */

static const char *name_of(char name[NAME_SIZE], unsigned i)
{
	snprintf(name, NAME_SIZE, "many/%u", i);
	return name;
}

static void on_created(void *context, int error, const char *text)
{
	(void)text;
	assert_int_equal(error, 0);
	++*(unsigned *)context;
}

static void create_range(unsigned from, unsigned to)
{
	static unsigned created;
	char name[NAME_SIZE];

	created = 0;
	for (unsigned i = from; i < to; i++)
		assert_int_equal(broker_create(&broker, name_of(name, i), &(struct amount){ .size = SMALL }, 0, 0600,
					       on_created, &created),
				 0);
	EXPECT_SOON(created == to - from);
}

static void unlink_one(unsigned i)
{
	char name[NAME_SIZE];

	manage_unlink(&broker, registry_find(broker.registry, name_of(name, i)));
}

/* As it is now, no pass is made. */
static struct shown shown_now(void)
{
	struct shown shown;

	assert_int_equal(shown_read_fd(&shown, broker.config->instance, broker.status->file.fd), 0);
	assert_int_equal(shown.unreadable, 0);
	return shown;
}

static json_t *buffers_of(const struct shown *shown)
{
	return json_object_get(shown->text, "buffers");
}

static size_t count_now(const char *key)
{
	struct shown shown = shown_now();
	size_t count = json_array_size(json_object_get(shown.text, key));

	shown_free(&shown);
	return count;
}

static json_int_t number(const json_t *object, const char *key)
{
	return json_integer_value(json_object_get(object, key));
}

/* A number of the first element of that array. */
static json_int_t first_now(const char *array, const char *key)
{
	struct shown shown = shown_now();
	json_int_t value = number(json_array_get(json_object_get(shown.text, array), 0), key);

	shown_free(&shown);
	return value;
}

static json_int_t counter_now(const char *key)
{
	struct shown shown = shown_now();
	json_int_t value = number(json_object_get(shown.text, "counters"), key);

	shown_free(&shown);
	return value;
}

static json_int_t tickets_now(void)
{
	struct shown shown = shown_now();
	const json_t *user = json_array_get(json_object_get(shown.text, "users"), 0);
	json_int_t value = number(json_object_get(user, "used"), "tickets");

	shown_free(&shown);
	return value;
}

static bool state_is(const char *array, const char *state)
{
	struct shown shown = shown_now();
	const json_t *first = json_array_get(json_object_get(shown.text, array), 0);
	const char *word = json_string_value(json_object_get(first, "state"));
	bool is = word && !strcmp(word, state);

	shown_free(&shown);
	return is;
}

static void drain(struct peer *peer, const char *name)
{
	struct wire_message message = named(WIRE_DRAIN, 1, name);

	message.drain.timeout_ms = -1;
	assert_int_equal(answer_to(peer, &message).type, WIRE_DONE);
}

/* ---- what is shown ---- */

static void test_a_broker_that_starts_is_shown(void **state)
{
	struct shown shown = shown_now();

	(void)state;
	assert_int_equal(json_array_size(buffers_of(&shown)), 0);
	assert_int_equal(json_array_size(json_object_get(shown.text, "devices")), 1);
	assert_string_equal(json_string_value(json_object_get(shown.text, "instance")), broker.config->instance);
	assert_string_equal(json_string_value(json_object_get(shown.text, "device_kind")), "host");
	shown_free(&shown);
}

/* Each once, in the order in which they were made. */
static void test_all_buffers_are_shown(void **state)
{
	char name[NAME_SIZE];
	struct shown shown;
	json_t *buffer;
	size_t i;

	(void)state;
	create_range(0, MANY);
	shown = shown_now();
	assert_int_equal(json_array_size(buffers_of(&shown)), MANY);
	json_array_foreach (buffers_of(&shown), i, buffer)
		assert_string_equal(json_string_value(json_object_get(buffer, "name")), name_of(name, (unsigned)i));
	shown_free(&shown);
	for (unsigned j = 0; j < MANY; j++)
		unlink_one(j);
	EXPECT_SOON(!broker.registry->buffer_count);
	run_pass();
	assert_int_equal(count_now("buffers"), 0);
	create_range(MANY, MANY + 3);
	assert_int_equal(count_now("buffers"), 3);
}

/* The keys that readers know, in the order of the manual, and each buffer's values. */
static void test_what_is_said_of_a_buffer(void **state)
{
	struct peer peer = join();
	struct shown shown;
	char *buffer, *keys = NULL;
	const char *key;
	json_t *value;
	size_t length;
	FILE *out = open_memstream(&keys, &length);

	(void)state;
	strcpy(session_of(&peer)->command, "a \"\\\n\x01 b");
	tracked_changed(broker.tracking, &session_of(&peer)->tracked);
	create_range(0, 1);
	acquire(&peer, "many/0");
	shown = shown_now();
	buffer = json_dumps(json_array_get(buffers_of(&shown), 0), JSON_COMPACT);
	json_object_foreach (shown.text, key, value)
		fprintf(out, "%s ", key);
	fclose(out);
	assert_string_equal(keys,
			    "instance pid address device_kind memory_owner updated stopping waiting devices "
			    "buffers sessions timelines waits users counters times ");
	assert_non_null(strstr(buffer, "{\"name\":\"many/0\",\"generation\":1,\"bytes\":64,\"allocated\":"));
	assert_non_null(strstr(buffer, "\"state\":\"live\""));
	assert_non_null(strstr(buffer, "\"mode\":384,\"ephemeral\":false,\"timeline\":false,\"alone\":false,\"sealed\":"
				       "false,\"same_address\":false,\"growable\":false,\"ended\":false,\"export\":"
				       "\"ipc\",\"grants\":1,\"held\":0,\"holders\":[{\"session\":1,"));
	assert_non_null(strstr(buffer, "\"command\":\"a \\\"\\\\\\n\\u0001 b\",\"device\":0,\"held\":false}]}"));
	free(buffer);
	free(keys);
	shown_free(&shown);
	hang_up_dying(&peer);
}

/* A process calls itself what it likes: the rest is not the worse for it. */
static void test_a_command_that_is_not_text_is_left_out(void **state)
{
	struct peer peer = join();
	struct shown shown;

	(void)state;
	strcpy(session_of(&peer)->command, "\xff\xfe");
	tracked_changed(broker.tracking, &session_of(&peer)->tracked);
	run_pass();
	shown = shown_now();
	assert_int_equal(json_array_size(json_object_get(shown.text, "sessions")), 1);
	assert_null(json_object_get(json_array_get(json_object_get(shown.text, "sessions"), 0), "command"));
	shown_free(&shown);
	part(&peer);
}

/* ---- when it is shown: no pass is made between the answer and the look ---- */

static void test_what_was_answered_is_shown(void **state)
{
	struct wire_message change = named(WIRE_CHANGE, 1, "x");
	struct wire_grant grant;
	struct peer peer;
	json_int_t refused;

	(void)state;
	for (int i = 1; i <= 20; i++) {
		peer = join();
		assert_true(state_is("sessions", "open"));
		expect_done(&peer, WIRE_CREATE, "x");
		assert_int_equal(count_now("buffers"), 1);
		assert_true(state_is("buffers", "live"));
		grant = acquire(&peer, "x");
		assert_int_equal(first_now("buffers", "grants"), 1);
		assert_int_equal(first_now("sessions", "mappings"), 1);
		assert_int_equal(first_now("sessions", "bytes"), grant.span);
		assert_int_equal(counter_now("mappings_opened"), i);
		send_closed(peer.sock, grant.mapping);
		expect_served(&peer);
		assert_int_equal(first_now("buffers", "grants"), 0);
		assert_int_equal(first_now("sessions", "bytes"), 0);
		change.change.what = WIRE_CHANGE_MODE;
		change.change.mode = i % 2 ? 0640 : 0600;
		assert_int_equal(answer_to(&peer, &change).type, WIRE_DONE);
		assert_int_equal(first_now("buffers", "mode"), change.change.mode);
		drain(&peer, "x");
		assert_int_equal(count_now("buffers"), 0);
		assert_int_equal(counter_now("buffers_unlinked"), i);
		refused = counter_now("refused_no_name");
		ask(&peer, WIRE_STAT, "x");
		assert_int_equal(counter_now("refused_no_name"), refused + 1);
		ask(&peer, WIRE_LEAVE, "");
		assert_true(state_is("sessions", "leaving"));
		part(&peer);
		EXPECT_SOON(!broker.sessions->by_id);
		run_pass();
		assert_int_equal(count_now("sessions"), 0);
	}
}

/* A ticket that is good once is charged to its owner until it is redeemed. */
static void test_a_redeemed_ticket_is_shown(void **state)
{
	struct wire_message issue = named(WIRE_ISSUE, 1, "x"), redeem;
	struct peer peer = join();

	(void)state;
	expect_done(&peer, WIRE_CREATE, "x");
	issue.issue.rights = GPUB_READ;
	issue.issue.uid = TICKET_ANY_USER;
	issue.issue.once = 1;
	wire_init(&redeem, WIRE_REDEEM, 2);
	redeem.redeem.ticket = answer_to(&peer, &issue).ticket;
	assert_int_equal(counter_now("tickets_issued"), 1);
	assert_int_equal(tickets_now(), 1);
	assert_int_equal(answer_to(&peer, &redeem).type, WIRE_GRANT);
	assert_int_equal(counter_now("tickets_redeemed"), 1);
	assert_int_equal(tickets_now(), 0);
	hang_up_dying(&peer);
}

/* Quotas too: brokerd's reload is done when they hold, and are shown. */
static void test_new_quotas_are_shown(void **state)
{
	struct quotas quotas = broker.config->quotas;
	struct peer peer = join();
	struct shown shown;

	(void)state;
	quotas.fallback.limit[RESOURCE_GRANTS] = 77;
	broker_configure(&broker, &quotas, broker.creators);
	shown = shown_now();
	assert_int_equal(number(json_object_get(json_array_get(json_object_get(shown.text, "users"), 0), "quota"),
				"grants"),
			 77);
	shown_free(&shown);
	part(&peer);
}

/* invariant 5: what a change costs does not grow with what others have. */
static void invariant_5_a_change_writes_itself_alone(void **state)
{
	/* the user, and a buffer; session, mapping and grant; user and session; each: a histogram */
	static const unsigned at_most[] = { 3, 5, 3 };
	struct peer peer = join();

	(void)state;
	create_range(0, 10);
	for (int many = 0; many < 2; many++) {
		if (many)
			create_range(10, MANY);
		for (int step = 0; step < 3; step++) {
			count_from_here();
			if (step == 0)
				expect_done(&peer, WIRE_CREATE, "x");
			else if (step == 1)
				acquire(&peer, "x");
			else
				ask(&peer, WIRE_UNLINK, "x");
			run_passes();
			assert_in_range(written(), 1, at_most[step]);
		}
	}
	count_from_here();
	run_passes();
	assert_int_equal(broker.status->sequence, counted_from); /* an idle broker writes nothing */
	hang_up_dying(&peer);
}

/* ---- when it cannot be written ---- */

/* The log's next line, while log_line() goes to a file. */
static void expect_logged(int log, const char *reason)
{
	char line[512] = "";

	assert_true(pread(log, line, sizeof line - 1, 0) > 0);
	assert_non_null(strstr(line, "the status file is not up to date"));
	assert_non_null(strstr(line, reason));
	assert_null(strchr(strchr(line, '\n') + 1, '\n')); /* once */
}

/* Until the file has no room for another record. The number of the next one. */
static unsigned fill_file(void)
{
	const struct status *status = broker.status;
	unsigned next = 0;

	for (; STATUS_OFFSET(status->tracking.slots) + STATUS_RECORD_SIZE <= status->file.size; next++)
		create_range(next, next + 1);
	return next;
}

/*
 * Where there is no room the broker goes on, says so once, and all that changed meanwhile is shown when there is room
 * again.
 */
static void test_what_cannot_be_written_is_written_later(void **state)
{
	int log = memfd_create("log", MFD_CLOEXEC), errors = dup(STDERR_FILENO);
	struct peer peer = join();
	unsigned next = fill_file();
	size_t before = count_now("buffers");

	(void)state;
	dup2(log, STDERR_FILENO);
	fails = true;
	create_range(next, next + 100);
	unlink_one(1);
	acquire(&peer, "many/0");
	EXPECT_SOON(broker.registry->buffer_count == before + 99);
	run_passes();
	dup2(errors, STDERR_FILENO);
	expect_logged(log, strerror(ENOSPC));
	assert_int_equal(count_now("buffers"), before);
	assert_int_equal(first_now("sessions", "mappings"), 0);
	fails = false;
	EXPECT_SOON(count_now("buffers") == before + 99); /* nobody has to ask for anything */
	assert_int_equal(first_now("sessions", "mappings"), 1);
	close(log);
	close(errors);
	hang_up_dying(&peer);
}

/* A try takes all that is left of /dev/shm, and gives it back: not each answer to anybody may wait for that. */
static void invariant_5_a_full_file_system_is_not_tried_with_each_answer(void **state)
{
	int log = memfd_create("log", MFD_CLOEXEC), errors = dup(STDERR_FILENO);
	struct peer peer = join();
	unsigned next = fill_file();
	uint64_t began = now_ms(CLOCK_MONOTONIC);

	(void)state;
	dup2(log, STDERR_FILENO);
	fails = true;
	attempts = 0;
	for (unsigned i = 0; i < 300; i++) {
		create_range(next + i, next + i + 1);
		ask(&peer, WIRE_STAT, "none");
	}
	dup2(errors, STDERR_FILENO);
	assert_in_range(attempts, 1, 1 + (now_ms(CLOCK_MONOTONIC) - began) / 100);
	fails = false;
	close(log);
	close(errors);
	part(&peer);
}

/* A parent may have had the signal blocked. */
static void test_a_file_guards_itself_where_the_signal_was_blocked(void **state)
{
	sigset_t bus, now;
	unsigned next;

	(void)state;
	sigemptyset(&bus);
	sigaddset(&bus, SIGBUS);
	pthread_sigmask(SIG_BLOCK, &bus, NULL);
	next = fill_file();
	create_range(next, next + 1);
	pthread_sigmask(SIG_SETMASK, NULL, &now);
	assert_false(sigismember(&now, SIGBUS));
}

/* What ends while there is no room needs none. */
static void test_what_ends_needs_no_room(void **state)
{
	int log = memfd_create("log", MFD_CLOEXEC), errors = dup(STDERR_FILENO);
	unsigned next = fill_file();
	size_t before = count_now("buffers");

	(void)state;
	dup2(log, STDERR_FILENO);
	fails = true;
	create_range(next, next + 100);
	for (unsigned i = next; i < next + 100; i++)
		unlink_one(i);
	EXPECT_SOON(broker.registry->buffer_count == before);
	run_passes();
	dup2(errors, STDERR_FILENO);
	assert_int_equal(count_now("buffers"), before);
	assert_int_equal(counter_now("buffers_unlinked"), 100);
	fails = false;
	close(log);
	close(errors);
}

/*
 * Two buffers are freed together with the memory that they share, and a drain waits for each. Their records wait for
 * room, so they are filled anew before the first answer. The second one must not be looked for in memory that is gone.
 */
static void test_buffers_that_are_freed_together(void **state)
{
	static const char *const names[] = { "one", "two" };
	struct wire_message message;
	struct peer peer = join();
	uint64_t mapping = 0;
	unsigned filled = fill_file();

	(void)state;
	fails = true;
	for (int i = 0; i < 2; i++) {
		message = named(WIRE_CREATE, 1, names[i]);
		message.create.size = SMALL;
		assert_int_equal(answer_to(&peer, &message).type, WIRE_DONE);
		mapping = acquire(&peer, names[i]).mapping;
	}
	for (int i = 0; i < 2; i++) {
		message = named(WIRE_DRAIN, 2, names[i]);
		message.drain.timeout_ms = -1;
		say(peer.sock, &message);
	}
	EXPECT_SOON(broker.waiting->count == 2);
	send_closed(peer.sock, mapping);
	for (int answers = 0; answers < 2; answers += message.type == WIRE_DONE)
		message = receive_message(peer.sock);
	fails = false;
	expect_served(&peer);
	assert_int_equal(count_now("buffers"), filled);
	part(&peer);
}

static void test_the_reason_is_that_of_what_failed(void **state)
{
	int log = memfd_create("log", MFD_CLOEXEC), errors = dup(STDERR_FILENO);
	struct rlimit before, small;
	unsigned next = fill_file();

	(void)state;
	signal(SIGXFSZ, SIG_IGN);
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
	small = (struct rlimit){ .rlim_cur = broker.status->file.size, .rlim_max = before.rlim_max };
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
	dup2(log, STDERR_FILENO);
	errno = ECHILD;
	create_range(next, next + 2);
	dup2(errors, STDERR_FILENO);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
	expect_logged(log, strerror(EFBIG));
	create_range(next + 2, next + 3);
	EXPECT_SOON(count_now("buffers") == next + 3);
	close(log);
	close(errors);
}

/* The broker's own user may truncate the file: the broker goes on, and what changes next has it written anew, whole. */
static void test_a_file_that_was_truncated_is_written_anew(void **state)
{
	unsigned next = 1000;

	(void)state;
	create_range(0, next);
	for (off_t size = 0; size < 3 * 65536; size += 5000) {
		assert_int_equal(ftruncate(broker.status->file.fd, size), 0);
		create_range(next, next + 1);
		next++;
		assert_int_equal(count_now("buffers"), next); /* the new one's record is behind the end */
	}
	assert_int_equal(ftruncate(broker.status->file.fd, 0), 0);
	create_range(next, next + 1000);
	assert_int_equal(count_now("buffers"), next + 1000);
}

/* Changes all that there is, and writes it, one instruction at a time. */
static _Noreturn void write_traced(void)
{
	struct buffer *buffer;

	for (buffer = broker.registry->serials; buffer; buffer = buffer->by_serial.next) {
		buffer->mode = buffer->mode == 0600 ? 0640 : 0600;
		tracked_changed(broker.tracking, &buffer->tracked);
	}
	broker.counters.buffers_created += 1000;
	broker.counters.timelines_marked += 1000;
	if (ptrace(PTRACE_TRACEME, 0, NULL, NULL))
		_exit(TRACE_REFUSED);
	raise(SIGSTOP);
	status_write(&broker);
	_exit(0);
}

/*
 * The broker may be killed behind any instruction: after each one of a write, the header and each record are whole, as
 * they were or as they are to be.
 */
static void test_a_killed_broker_leaves_whole_records(void **state)
{
	unsigned steps = 0;
	int status;
	pid_t child;

	(void)state;
	if (IS_INSTRUMENTED) {
		print_message("# not tried: this build has too many instructions\n");
		return;
	}
	create_range(0, 3);
	child = fork();
	if (!child)
		write_traced();
	while (waitpid(child, &status, 0) == child && WIFSTOPPED(status) && steps < STEPS_MAX) {
		assert_int_equal(count_now("buffers"), 3);
		assert_int_equal(ptrace(PTRACE_SINGLESTEP, child, NULL, NULL), 0);
		steps++;
	}
	/* a simulator runs it, or it may not be traced */
	if (steps == STEPS_MAX || WEXITSTATUS(status) == TRACE_REFUSED) {
		kill(child, SIGKILL);
		waitpid(child, &status, 0);
		print_message("# not tried: a process cannot be traced here by single steps\n");
		return;
	}
	assert_true(WIFEXITED(status) && !WEXITSTATUS(status) && steps > 100);
	assert_true(counter_now("timelines_marked") >= 1000);
}

/* A fault that is not the file's has the effect that it had: here it ends a process. */
static void test_a_bus_error_elsewhere_is_one(void **state)
{
	int status, fd = memfd_create("elsewhere", MFD_CLOEXEC);
	char *elsewhere = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	const struct rlimit none = { 0 };
	pid_t child;

	(void)state;
	signal(SIGBUS, SIG_DFL);
	create_range(0, 300); /* a new mapping */
	child = fork();
	if (!child) {
		setrlimit(RLIMIT_CORE, &none);
		alarm(10);
		*(volatile char *)elsewhere = 1;
		_exit(0);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGBUS);
	munmap(elsewhere, 4096);
	close(fd);
}

static int group_setup(void **state)
{
	harness_buffers = PLACES;
	return harness_group_setup(state);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		ON(test_a_broker_that_starts_is_shown),
		ON(test_all_buffers_are_shown),
		ON(test_what_is_said_of_a_buffer),
		ON(test_a_command_that_is_not_text_is_left_out),
		ON(test_what_was_answered_is_shown),
		ON(test_a_redeemed_ticket_is_shown),
		ON(test_new_quotas_are_shown),
		ON(invariant_5_a_change_writes_itself_alone),
		ON(test_what_cannot_be_written_is_written_later),
		ON(invariant_5_a_full_file_system_is_not_tried_with_each_answer),
		ON(test_a_file_guards_itself_where_the_signal_was_blocked),
		ON(test_what_ends_needs_no_room),
		ON(test_buffers_that_are_freed_together),
		ON(test_the_reason_is_that_of_what_failed),
		ON(test_a_file_that_was_truncated_is_written_anew),
		ON(test_a_killed_broker_leaves_whole_records),
		ON(test_a_bus_error_elsewhere_is_one),
	};

	return cmocka_run_group_tests_name("status-write", tests, group_setup, harness_group_teardown);
}
