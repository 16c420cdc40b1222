/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test-inherited.c - what a broker that has loaded says to the keeper of what it inherited. The loads of all other
 * tests take their descriptors by inherited.c, too. successor.h is the world.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "broker/keeper/line.h"
#include "successor.h"

static struct keep keep;
static struct note second; /* the successor's ledger */
static struct line line;
static int         keepers; /* the keeper's end of the successor's line */

static int setup(void **state)
{
	int error;

	harness_exported = EXPORT_VMM;
	error = harness_setup(state);
	if (!error)
		successor_note();
	return error;
}

static int teardown(void **state)
{
	successor_forget();
	return harness_teardown(state);
}

static void begin(void)
{
	int pair[2];

	successor_begin();
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair), 0);
	keepers = pair[0];
	assert_int_equal(line_open(&line, successor.base, pair[1]), 0);
	assert_int_equal(note_begin(&successor, &second), 0);
	assert_int_equal(keep_begin(&successor, &keep, &line), 0);
	second.keep = &keep;
}

static void end(void)
{
	keep_end(&keep);
	note_end(&successor, &second);
	line_close(&line);
	close(keepers);
	successor_end();
}

static int expect_request(enum line_kind kind, uint64_t key)
{
	struct line_request request;
	int fd;

	assert_int_equal(line_receive(keepers, &request, &fd), 0);
	assert_int_equal(request.kind, kind);
	assert_int_equal(request.key, key);
	return fd;
}

static void expect_nothing(void)
{
	struct line_request request;
	int fd;

	assert_int_equal(line_receive(keepers, &request, &fd), -EAGAIN);
}

static void load(void)
{
	struct loaded loaded;

	assert_int_equal(successor_go_on(ledger_fd(&note.ledger), &loaded), 0);
	assert_int_equal(loaded.damaged, 0);
	inherited_loaded(successor_inherited(), &keep);
	note_commit(&successor, &second);
}

static struct peer join_with_buffer(void)
{
	struct peer peer = join();
	struct wire_message message = named(WIRE_CREATE, 7, "a");

	message.create.flags = GPUB_TIMELINE;
	assert_int_equal(answer_to(&peer, &message).type, WIRE_DONE);
	broker_publish(&broker);
	return peer;
}

static void test_what_is_kept_is_not_put_again(void **state)
{
	struct peer peer = join_with_buffer();

	(void)state;
	begin();
	load();
	inherited_close(successor_inherited(), &keep);
	expect_nothing();
	end();
	ask(&peer, WIRE_UNLINK, "a");
	part(&peer);
}

/* Whether the last end for writing of the pipe is closed. */
static bool is_closed(int pipe, int ms)
{
	return poll(&(struct pollfd){ .fd = pipe, .events = POLLIN }, 1, ms) == 1;
}

/* It is closed here when the keeper has closed it, and not by the loop. */
static void test_what_no_record_names_is_dropped_and_closed(void **state)
{
	const uint64_t key = keep_key(KEPT_MEMORY, 999), of_another_kind = keep_key(KEPT_MASTER, 1);
	struct peer peer = join_with_buffer();
	int stray[2], fence;

	(void)state;
	assert_int_equal(pipe2(stray, O_CLOEXEC), 0);
	assert_int_equal(kept_put(keeper_kept(), key, stray[1]), 0);
	assert_int_equal(kept_put(keeper_kept(), of_another_kind, open("/dev/null", O_RDONLY | O_CLOEXEC)), 0);
	begin();
	load();
	expect_nothing();
	inherited_close(successor_inherited(), &keep);
	expect_request(LINE_DROP, key);
	fence = expect_request(LINE_PUT, keep_key(KEPT_FENCE, 2));
	expect_request(LINE_DROP, keep_key(KEPT_FENCE, 2));
	expect_nothing();
	assert_true(kept_drop(keeper_kept(), key));
	assert_false(is_closed(stray[0], 50));
	close(fence);
	assert_true(is_closed(stray[0], 10000));
	assert_int_equal(kept_count(successor_inherited()->kept), 1);
	close(stray[0]);
	end();
	kept_drop(keeper_kept(), of_another_kind);
	ask(&peer, WIRE_UNLINK, "a");
	part(&peer);
}

/* Memory that the load has released: its record has no descriptor any more. */
static void test_what_the_load_gives_back_is_dropped(void **state)
{
	struct peer peer = join_with_buffer();
	struct allocation *allocation = broker.memory->allocations;
	uint64_t key = keep_key(KEPT_MEMORY, allocation->memory);
	struct loaded loaded;

	(void)state;
	begin();
	assert_int_equal(successor_go_on(ledger_fd(&note.ledger), &loaded), 0);
	close(successor.memory->allocations->descriptor); /* as a RELEASE takes it away */
	successor.memory->allocations->descriptor = -1;
	inherited_loaded(successor_inherited(), &keep);
	note_commit(&successor, &second);
	expect_nothing();
	inherited_close(successor_inherited(), &keep);
	expect_request(LINE_DROP, key);
	expect_nothing();
	end();
	ask(&peer, WIRE_UNLINK, "a");
	part(&peer);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = { TEST(test_what_is_kept_is_not_put_again),
					    TEST(test_what_no_record_names_is_dropped_and_closed),
					    TEST(test_what_the_load_gives_back_is_dropped) };

	return cmocka_run_group_tests_name("inherited", tests, harness_group_setup, harness_group_teardown);
}
