/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test-messages.c - messages that come again, as from the successor of a broker that ended, in each state of what they
 * are about: nothing is opened twice, no mapping that this process has is reported as closed, and no descriptor is
 * left. And a GRANT that comes late, or to a record without idle slots, or whose memory cannot be opened. The broker is
 * the other end of a socket pair.
 */
#include "records-harness.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <utlist.h>

#include "client/messages.h"
#include "client/receiver.h"
#include "common/board.h"
#include "common/error.h"
#include "common/export.h"
#include "common/sealed.h"
#include "common/socket.h"
#include "common/ticket.h"

#define OTHER  10 /* the id of a mapping that this process does not have */
#define SERIAL 5  /* of the buffer in the harness's record */

static struct board_header header;
static struct sealed_handle handles[1];
static int broker;

/* What the device does while it opens memory; NULL: nothing. */
static void (*while_opening)(void);

static int open_memory(int ordinal, const struct device_handle *handle, uint64_t size, void **ptr)
{
	(void)ordinal;
	(void)handle;
	(void)size;
	if (while_opening)
		while_opening();
	*ptr = memory;
	return 0;
}

static int connected(void **state)
{
	int pair[2];

	if (setup(state) || socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair))
		return -1;
	link_init(&client->link);
	owned_fd_take(&client->link.sock, pair[0]);
	broker = pair[1];
	header = (struct board_header){ .buffers = 1, .handles = 1, .devices = 1 };
	client->board.header = &header;
	client->board.words = &board_generation;
	client->board.handles = handles;
	while_opening = NULL;
	record->mapping->size = sizeof memory;
	return 0;
}

static int disconnected(void **state)
{
	link_close(&client->link);
	close(broker);
	memset(&client->board, 0, sizeof client->board);
	return teardown(state);
}

/* The GRANT of a new mapping, in answer to that request. */
static struct wire_message grant_of(uint64_t request, uint64_t mapping)
{
	struct wire_message message;

	wire_init(&message, WIRE_GRANT, request);
	message.grant = (struct wire_grant){ .mapping = mapping,
					     .serial = SERIAL,
					     .size = sizeof memory,
					     .span = sizeof memory,
					     .reserve = sizeof memory,
					     .rights = GPUB_READ };
	return message;
}

/* Whether the client has sent CLOSED of that mapping; 0: it has sent nothing. */
static void expect_closed(uint64_t mapping)
{
	struct wire_message message;
	struct socket_extra extra;
	int error = socket_receive(broker, &message, &extra, false, MSG_DONTWAIT);

	if (!mapping) {
		assert_int_equal(error, -EAGAIN);
		return;
	}
	assert_int_equal(error, 0);
	assert_int_equal(message.type, WIRE_CLOSED);
	assert_int_equal(message.grant_id.mapping, mapping);
}

static void invariant_2_a_grant_that_comes_again_closes_nothing(void **state)
{
	struct wire_message message = grant_of(77, MAPPING);

	(void)state;
	assert_true(messages_handle(client, &message, -1));
	expect_closed(0);
	assert_true(mapping_find(client, MAPPING) && record->mapping == mapping_find(client, MAPPING));
	message = grant_of(77, OTHER);
	assert_true(messages_handle(client, &message, -1));
	expect_closed(OTHER);
	assert_null(mapping_find(client, OTHER));
}

static void grant_again(uint64_t mapping)
{
	struct wire_message message = grant_of(77, mapping);

	assert_true(messages_handle(client, &message, -1));
}

/* The broker counts the second CLOSED and ignores it, because no other mapping ever has this id. */
static void invariant_2_a_grant_that_comes_again_after_the_close(void **state)
{
	(void)state;
	assert_int_equal(close_now(false), 0);
	expect_closed(MAPPING);
	grant_again(MAPPING);
	expect_closed(MAPPING);
	expect_closed(0);
}

static int close_beside_a_grant(int ordinal, void *base)
{
	(void)ordinal;
	(void)base;
	grant_again(MAPPING);
	expect_closed(0);
	return fake_close_error;
}

static void close_with_a_grant(void)
{
	static struct device closing;

	closing = fake;
	closing.close = close_beside_a_grant;
	client->device = &closing;
	assert_int_equal(close_now(false), fake_close_error);
}

static void invariant_2_a_grant_that_comes_again_during_the_close(void **state)
{
	(void)state;
	close_with_a_grant();
	expect_closed(MAPPING);
	expect_closed(0);
}

/* The memory stays mapped until the process ends, so the broker must never get its CLOSED. */
static void invariant_2_a_grant_that_comes_again_after_a_close_that_failed(void **state)
{
	(void)state;
	fake_close_error = -EIO;
	close_with_a_grant();
	grant_again(MAPPING);
	expect_closed(0);
	assert_true(mapping_find(client, MAPPING)->leaked);
}

static void invariant_2_a_grant_that_comes_again_during_a_disconnect(void **state)
{
	(void)state;
	client->leaving = true;
	grant_again(MAPPING);
	expect_closed(0);
	grant_again(OTHER);
	expect_closed(OTHER);
	grant_again(OTHER);
	expect_closed(OTHER);
	expect_closed(0);
}

/* A record that waits for the answer to an acquire of "b". *request: number of the acquire. */
static struct record *waiting_record(struct waiter *waiter, uint64_t *request)
{
	struct wire_message message;
	struct record *waiting;

	wire_init(&message, WIRE_ACQUIRE, 0);
	pthread_mutex_lock(&client->lock);
	waiting = record_bind(client, "b", 0);
	assert_non_null(waiting);
	record_request_begin(client, waiting, waiter, &message);
	pthread_mutex_unlock(&client->lock);
	*request = message.request;
	return waiting;
}

/* The acquire's time was over. A grant under a mapping that is here needs no answer: it ends with the mapping. */
static void invariant_2_a_grant_behind_a_refusal(void **state)
{
	struct wire_message message;
	struct waiter waiter;
	uint64_t request;
	struct record *waiting = waiting_record(&waiter, &request);

	(void)state;
	wire_refuse(&message, request, -ETIMEDOUT, "no buffer appeared");
	for (int twice = 0; twice < 2; twice++)
		assert_true(messages_handle(client, &message, -1));
	assert_true(waiter.done && waiter.error == -ETIMEDOUT);
	message = grant_of(request, OTHER);
	assert_true(messages_handle(client, &message, -1));
	expect_closed(OTHER);
	message = grant_of(request, MAPPING);
	message.grant.place = WIRE_NO_HANDLE;
	assert_true(messages_handle(client, &message, -1));
	expect_closed(0);
	assert_int_equal(RECORD_STATE(atomic_load(&waiting->state)), RECORD_NONE);
}

static void test_a_grant_under_a_mapping_that_is_here_comes_again(void **state)
{
	struct wire_message message;
	struct waiter waiter;
	uint64_t request;
	struct record *waiting = waiting_record(&waiter, &request), *in;
	unsigned records;

	(void)state;
	message = grant_of(request, MAPPING);
	message.grant.place = WIRE_NO_HANDLE;
	for (int twice = 0; twice < 2; twice++) {
		assert_true(messages_handle(client, &message, -1));
		expect_closed(0);
		assert_int_equal(RECORD_STATE(atomic_load(&waiting->state)), RECORD_OPEN);
		DL_COUNT2(record->mapping->records, in, records, mapping_next);
		assert_int_equal(records, 2);
	}
	/* and once more, when the process does not use the buffer any more, or has closed the mapping */
	pthread_mutex_lock(&client->lock);
	record_release(client, waiting, 0, NULL);
	pthread_mutex_unlock(&client->lock);
	assert_true(messages_handle(client, &message, -1));
	expect_closed(0);
	assert_int_equal(RECORD_STATE(atomic_load(&waiting->state)), RECORD_NONE);
	message.grant.mapping = OTHER;
	assert_true(messages_handle(client, &message, -1));
	expect_closed(0);
}

/* The harness's device has no open(): an attempt would crash. */
static void invariant_2_a_grant_of_a_mapping_that_is_here_opens_nothing(void **state)
{
	struct wire_message message;
	struct waiter waiter;
	uint64_t request;
	struct record *again = waiting_record(&waiter, &request);
	unsigned mappings = client->mapping_count;

	(void)state;
	message = grant_of(request, MAPPING);
	assert_true(messages_handle(client, &message, -1));
	expect_closed(0);
	assert_int_equal(RECORD_STATE(atomic_load(&again->state)), RECORD_OPEN);
	assert_ptr_equal(again->mapping, record->mapping);
	assert_int_equal(client->mapping_count, mappings);
	/* a third answer to the request finds nobody that waits */
	assert_true(messages_handle(client, &message, -1));
	expect_closed(0);
	assert_int_equal(RECORD_STATE(atomic_load(&again->state)), RECORD_OPEN);
	record_wait_end(again, &waiter);
}

/* Its memory comes once more, too, and is mapped already. */
static void invariant_2_memory_that_comes_again_is_dropped(void **state)
{
	struct wire_message message, grant;
	struct waiter waiter;
	uint64_t request;
	struct record *again = waiting_record(&waiter, &request);

	(void)state;
	record->mapping->opened.exported = EXPORT_VMM;
	wire_init(&message, WIRE_MEMORY, 0);
	message.memory.mapping = MAPPING;
	message.memory.span = sizeof memory;
	assert_true(messages_handle(client, &message, dup(STDIN_FILENO)));
	assert_int_equal(client->chunks.count, 1);
	grant = grant_of(request, MAPPING);
	grant.grant.exported = EXPORT_VMM;
	assert_true(messages_handle(client, &grant, -1));
	assert_int_equal(client->chunks.count, 0);
	assert_int_equal(RECORD_STATE(atomic_load(&again->state)), RECORD_OPEN);
	expect_closed(0);
	record_wait_end(again, &waiter);
}

/* ---- a GRANT of a mapping that is to be opened ---- */

/* The GRANT of the mapping OTHER, whose sealed handle is in the board, to a client whose device opens memory. */
static struct wire_message grant_to_open(uint64_t request)
{
	static struct device opening;
	const struct device_handle handle = { { 0 } };
	struct wire_message message = grant_of(request, OTHER);
	struct seal_terms terms = board_grant_terms(&header, client->session, &message.grant);

	opening = fake;
	opening.open = open_memory;
	client->device = &opening;
	handle_seal(&handles[0], &terms, &handle, client->key);
	return message;
}

static void leave(void)
{
	client->leaving = true;
}

/* Nobody would close the mapping later: the disconnect may have closed all mappings already. */
static void test_memory_that_a_disconnect_finds_half_open_is_closed(void **state)
{
	struct wire_message message;
	struct waiter waiter;
	uint64_t request;
	struct record *waiting = waiting_record(&waiter, &request);

	(void)state;
	message = grant_to_open(request);
	while_opening = leave;
	assert_true(messages_handle(client, &message, -1));
	assert_int_equal(fake_closed, 1);
	expect_closed(OTHER);
	assert_null(mapping_find(client, OTHER));
	assert_int_equal(RECORD_STATE(atomic_load(&waiting->state)), RECORD_NONE);
	assert_true(waiter.done);
	assert_int_equal(waiter.error, -ESTALE);
	assert_non_null(strstr(waiter.text, "disconnected"));
}

static int open_nothing(int ordinal, const struct device_handle *handle, uint64_t size, void **ptr)
{
	(void)ordinal;
	(void)handle;
	(void)size;
	(void)ptr;
	return error_set(-ENODEV, "the memory does not exist any more");
}

/* The answer that the acquirer gets to a GRANT of the buffer with this index, whose memory cannot be opened. */
static int unopened(uint32_t buffer)
{
	static struct device failing;
	struct wire_message message;
	struct waiter waiter;
	uint64_t request;
	struct record *waiting = waiting_record(&waiter, &request);

	message = grant_to_open(request);
	failing = fake;
	failing.open = open_nothing;
	client->device = &failing;
	message.grant.buffer = buffer;
	assert_true(messages_handle(client, &message, -1));
	expect_closed(OTHER);
	assert_null(mapping_find(client, OTHER));
	assert_int_equal(RECORD_STATE(atomic_load(&waiting->state)), RECORD_NONE);
	assert_true(waiter.done);
	return waiter.error;
}

/* The buffer has lost its name then, and the acquirer asks again. */
static void test_memory_that_ended_before_the_open_is_asked_for_again(void **state)
{
	(void)state;
	assert_int_equal(unopened(0), -ENODEV);
	atomic_store(&board_generation, BOARD_WORD(SERIAL, BOARD_DRAINING));
	assert_int_equal(unopened(0), -EAGAIN);
	atomic_store(&board_generation, BOARD_WORD(SERIAL + 1, BOARD_LIVE));
	assert_int_equal(unopened(0), -EAGAIN);
}

/* A false broker's: no word of the board has the index, so none is read. */
static void test_a_grant_of_no_buffer_is_refused(void **state)
{
	(void)state;
	assert_int_equal(unopened(1), -EPROTO);
	assert_int_equal(unopened(UINT32_MAX / 16), -EPROTO);
	assert_int_equal(unopened(UINT32_MAX), -EPROTO);
}

/*
 * A record whose mapping was lost in a reset keeps slots that wait for returns of then. A ticket that is good once
 * would be lost if its redeemed buffer got such a record and no further slot.
 */
static void test_a_redeemed_buffer_gets_further_slots(void **state)
{
	static const struct ticket ticket = { .rights = GPUB_READ };
	struct mapping *lost = record->mapping;
	struct wire_message message;
	char text[GPUB_TICKET_MAX];
	gpub_lease lease;

	(void)state;
	for (unsigned i = 0; i < SLOTS; i++)
		assert_int_equal(give_back_on(hold()), 0);
	record_release(client, record, 0, NULL);
	mapping_remove(client, lost);
	client->devices = 1;
	client->index_of[0] = client->ordinal_of[0] = 0;
	assert_int_equal(receiver_init(client), 0);
	/* the answer to the second request from now on, for the record that is free */
	message = grant_to_open((client->next_number + 2) << RECORD_NUMBER_BITS | record->number);
	assert_int_equal(socket_send(broker, &message, -1, 0), 0);
	ticket_encode(&ticket, text);
	assert_int_equal(gpub_redeem(client, text, &lease), 0);
	assert_ptr_equal(lease.ptr, memory);
	assert_ptr_equal(slot_at(&client->slots, token_index(lease.token))->record, record);
	assert_int_equal(gpub_return(&lease), 0);
	assert_int_equal(close_now(false), 0);
}

/* A refusal behind the answer is dropped by its number. */
static void test_a_second_answer_is_dropped(void **state)
{
	struct wire_message refused;

	(void)state;
	record->request = 77;
	wire_refuse(&refused, 77, -ENOENT, "there is no such buffer");
	assert_true(messages_handle(client, &refused, -1));
	assert_int_equal(RECORD_STATE(atomic_load(&record->state)), RECORD_OPEN);
	expect_closed(0);
}

/* ---- other messages that come again ---- */

static bool is_closed(int fd)
{
	return fcntl(fd, F_GETFD) < 0;
}

/* Whether the client does not take the descriptor for its own that comes with the message. */
static bool closes_descriptor(const struct wire_message *message)
{
	int fd = dup(STDIN_FILENO);

	assert_true(messages_handle(client, message, fd));
	return is_closed(fd);
}

static bool is_of_session(const struct wire_row *row)
{
	return row->sender == WIRE_BROKER && strcmp(row->name, "CHALLENGE") && strcmp(row->name, "WELCOME") &&
	       strcmp(row->name, "LEFT");
}

/* That of a MEMORY is kept for the GRANT. */
static void test_what_nobody_waits_for_leaves_no_descriptor(void **state)
{
	struct wire_message message;

	(void)state;
	for (unsigned type = 1; type < WIRE_TYPES; type++) {
		if (!is_of_session(wire_row(type)) || type == WIRE_MEMORY)
			continue;
		wire_init(&message, (enum wire_type)type, 77);
		message.grant.place = WIRE_NO_HANDLE;
		assert_true(closes_descriptor(&message) && closes_descriptor(&message));
	}
	assert_int_equal(RECORD_STATE(atomic_load(&record->state)), RECORD_OPEN);
}

/* Each message that answers a call: the first one is the call's, with its descriptor; the second one nobody's. */
static void test_a_call_takes_one_answer(void **state)
{
	static const enum wire_type answers[] = { WIRE_DONE, WIRE_INFO, WIRE_TICKET, WIRE_VIEW, WIRE_REFUSED };
	struct wire_message message, second;

	(void)state;
	for (size_t i = 0; i < sizeof answers / sizeof *answers; i++) {
		struct call call = { .number = 77, .fd = -1, .file = -1 };
		int fd = dup(STDIN_FILENO);

		record->request = 0;
		client->calls = &call;
		wire_init(&message, answers[i], 77);
		second = message;
		second.bytes[0] = 1;
		assert_true(messages_handle(client, &message, fd));
		assert_true(call.done && call.fd == fd && !is_closed(fd));
		assert_true(closes_descriptor(&second));
		assert_true(call.fd == fd && !is_closed(fd));
		assert_memory_equal(&call.reply, &message, sizeof message);
		close(fd);
		client->calls = NULL;
	}
}

static void test_a_notice_that_comes_again_changes_nothing(void **state)
{
	struct mapping *mapping = record->mapping, *wanted;
	struct record *due;
	struct wire_message message;
	unsigned count;

	(void)state;
	mapping->opened.exported = EXPORT_VMM; /* such a mapping is listed when it is wanted */
	for (int twice = 0; twice < 2; twice++) {
		wire_init(&message, WIRE_NOTICE, 0);
		message.grant_id = (struct wire_grant_id){ .mapping = MAPPING, .serial = SERIAL };
		assert_true(messages_handle(client, &message, -1));
		DL_COUNT2(client->due, due, count, due_next);
		assert_true(record->unlinked && count == 1);
		message.grant_id.serial = 0;
		assert_true(messages_handle(client, &message, -1));
		DL_COUNT2(client->wanted, wanted, count, wanted_next);
		assert_true(mapping->wanted && count == 1);
	}
	mapping->opened.exported = EXPORT_IPC;
	DL_DELETE2(client->wanted, mapping, wanted_prev, wanted_next);
	assert_int_equal(close_now(false), 0);
	expect_closed(MAPPING);
	assert_true(messages_handle(client, &message, -1));
	expect_closed(0);
	assert_null(client->due);
}

/* Its broker takes two answers: broker/request/inquiry.h. */
static void test_an_inquiry_that_comes_again_is_answered_again(void **state)
{
	struct wire_message message, answer;
	struct socket_extra extra;

	(void)state;
	wire_init(&message, WIRE_INQUIRE, 0);
	for (int twice = 0; twice < 2; twice++) {
		assert_true(messages_handle(client, &message, -1));
		assert_int_equal(socket_receive(broker, &answer, &extra, false, MSG_DONTWAIT), 0);
		assert_true(answer.type == WIRE_WAITS && !answer.waits.count && !answer.waits.more);
		expect_closed(0);
	}
}

#define CONNECTED(name) cmocka_unit_test_setup_teardown(name, connected, disconnected)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CONNECTED(invariant_2_a_grant_that_comes_again_closes_nothing),
		CONNECTED(invariant_2_a_grant_that_comes_again_after_the_close),
		CONNECTED(invariant_2_a_grant_that_comes_again_during_the_close),
		CONNECTED(invariant_2_a_grant_that_comes_again_after_a_close_that_failed),
		CONNECTED(invariant_2_a_grant_that_comes_again_during_a_disconnect),
		CONNECTED(invariant_2_a_grant_behind_a_refusal),
		CONNECTED(test_a_grant_under_a_mapping_that_is_here_comes_again),
		CONNECTED(test_what_nobody_waits_for_leaves_no_descriptor),
		CONNECTED(test_a_call_takes_one_answer),
		CONNECTED(test_a_notice_that_comes_again_changes_nothing),
		CONNECTED(test_an_inquiry_that_comes_again_is_answered_again),
		CONNECTED(invariant_2_a_grant_of_a_mapping_that_is_here_opens_nothing),
		CONNECTED(invariant_2_memory_that_comes_again_is_dropped),
		CONNECTED(test_a_second_answer_is_dropped),
		CONNECTED(test_memory_that_a_disconnect_finds_half_open_is_closed),
		CONNECTED(test_a_redeemed_buffer_gets_further_slots),
		CONNECTED(test_memory_that_ended_before_the_open_is_asked_for_again),
		CONNECTED(test_a_grant_of_no_buffer_is_refused),
	};

	return cmocka_run_group_tests_name("messages", tests, NULL, NULL);
}
