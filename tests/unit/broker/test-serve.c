/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test-serve.c - what the broker reads of a session and when: greetings, packets, what a disconnected client sends, and
 * the work that comes before reading. Tasks are test-serve-task.c's.
 *
 * The handlers (struct session_hooks) are this program's, so a test decides what a message does. How much work fits
 * into a pass is test-fair-queue.c's and test-connections.c's. session-harness.h makes the broker and its clients.
 */
#include "session-harness.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "broker/session/serve.h"
#include "broker/session/session-end.h"
#include "common/error.h"
#include "common/now.h"
#include "tests/unit/broker/failing.h"

#define SHARE 16 /* cost of the work for a user in a pass: fair-queue.c's */

static void one_pass(void)
{
	broker_pass(&broker, false);
}

/* ---- what a message means ---- */

static unsigned handled, silences, ends; /* number of calls */
static uint64_t last_request;
static unsigned refuse_at, disconnect_at; /* numbers of the messages that do it; 0: none does */

static int handle(struct session *session, const struct wire_message *message)
{
	handled++;
	last_request = message->request;
	if (handled == refuse_at)
		return error_set(-EPROTO, "it said what must not be said");
	if (handled == disconnect_at)
		session_disconnect(session, "its handler does not like it");
	else
		session_done(session, message->request, -1);
	return 0;
}

static unsigned silence(struct session *session)
{
	(void)session;
	silences++;
	return 0;
}

static unsigned end(struct session *session)
{
	(void)session;
	ends++;
	return 0;
}

static const struct session_hooks hooks = { handle, hook_none, silence, end };

static int setup(void **state)
{
	int error = harness_setup(state);

	handled = silences = ends = refuse_at = disconnect_at = 0;
	if (!error)
		broker.sessions->hooks = &hooks;
	return error;
}

static struct wire_message request(uint64_t number)
{
	return named(WIRE_STAT, number, "a");
}

static void say_request(const struct peer *peer, uint64_t number)
{
	struct wire_message message = request(number);

	say(peer->sock, &message);
}

static void say_packet(const struct peer *peer, unsigned count)
{
	struct wire_message packet[SOCKET_PACKET_MAX];

	for (unsigned i = 0; i < count; i++)
		packet[i] = request(i + 1);
	assert_int_equal(send(peer->sock, packet, count * sizeof *packet, 0), count * sizeof *packet);
}

static bool is_cut(const struct peer *peer)
{
	return session_of(peer)->state == SESSION_DISCONNECTED;
}

static void part_and_end(struct peer *peer)
{
	part(peer);
	EXPECT_SOON(!session_find(&broker, peer->session));
}

/* ---- connections ---- */

static void test_a_connection_that_is_refused_stays_the_callers(void **state)
{
	int pair[2], reserved = eventfd(0, EFD_CLOEXEC);

	(void)state;
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair), 0);
	broker.accounting->quotas.fallback.limit[RESOURCE_GREETINGS] = 0;
	assert_int_equal(session_accept(&broker, pair[1], reserved), -EDQUOT);
	assert_null(broker.sessions->by_id);
	assert_true(fcntl(pair[1], F_GETFD) >= 0 && fcntl(reserved, F_GETFD) >= 0);
	broker.accounting->quotas.fallback.limit[RESOURCE_GREETINGS] = 1;
	assert_int_equal(session_accept(&broker, pair[1], reserved), 0);
	assert_int_equal(broker.sessions->by_id->state, SESSION_GREETING); /* there was a share for it */
	close(pair[0]);
	EXPECT_SOON(!broker.sessions->by_id);
}

/* ---- greetings ---- */

static int dial_challenged(struct wire_message *hello)
{
	int sock = dial();

	*hello = receive_message(sock);
	*hello = hello_to(hello);
	return sock;
}

static void expect_turned_away_saying(int sock, const char *text)
{
	struct wire_message message = receive_message(sock);

	assert_int_equal(message.type, WIRE_REFUSED);
	assert_int_equal(message.refused.error, -EPROTO);
	assert_non_null(strstr(message.refused.text, text));
	expect_end(sock);
	close(sock);
	assert_null(broker.sessions->by_id);
	assert_int_equal(handled, 0);
}

static void invariant_5_a_greeting_comes_alone(void **state)
{
	struct wire_message packet[2];
	int sock = dial_challenged(&packet[0]);

	(void)state;
	packet[1] = request(1);
	assert_int_equal(send(sock, packet, sizeof packet, 0), sizeof packet);
	expect_turned_away_saying(sock, "more than its greeting");
}

static void invariant_5_a_malformed_greeting_is_turned_away(void **state)
{
	struct wire_message hello;
	int sock = dial_challenged(&hello);

	(void)state;
	hello.version++;
	say(sock, &hello);
	expect_turned_away_saying(sock, "");
	sock = dial_challenged(&hello);
	assert_int_equal(send(sock, &hello, sizeof hello - 1, 0), sizeof hello - 1);
	expect_turned_away_saying(sock, "");
	sock = dial_challenged(&hello);
	hello.hello.nonce[0]++;
	say(sock, &hello);
	expect_turned_away_saying(sock, "not an answer to the challenge");
	/* an end of what it sends is no hang-up */
	sock = dial_challenged(&hello);
	assert_int_equal(shutdown(sock, SHUT_WR), 0);
	expect_turned_away_saying(sock, "");
}

/* It is work for its user as two messages are. */
static void test_what_a_greeting_costs(void **state)
{
	struct peer other = join(); /* keeps the user */
	struct wire_message hello;
	int sock = dial_challenged(&hello);
	struct fair_user *user = session_of(&other)->place.user;

	(void)state;
	fair_allows(&session_of(&other)->place);
	user->work = 0;
	say(sock, &hello);
	one_pass();
	assert_int_equal(broker.counters.sessions_opened, 2);
	assert_int_equal(user->work, COST_GREETING);
	close(sock);
	part(&other);
}

/* The time limit does not run while a session waits for its turn, and runs anew when its socket was found empty. */
static void test_a_greeting_is_late_only_if_the_broker_waited_for_it(void **state)
{
	struct wire_message hello;
	int sock = dial_challenged(&hello);
	struct session *session = broker.sessions->by_id;

	(void)state;
	session_wait(session);
	event_active(session->reading, EV_TIMEOUT, 0); /* it was about to be called */
	event_base_loop(broker.base, EVLOOP_NONBLOCK);
	assert_ptr_equal(broker.sessions->by_id, session);
	assert_int_equal(session->state, SESSION_GREETING);
	one_pass();
	assert_true(event_pending(session->reading, EV_TIMEOUT, NULL));
	event_active(session->reading, EV_TIMEOUT, 0);
	expect_turned_away_saying(sock, "no greeting came within 10 seconds");
}

/* Without a time limit a client could stay in its greeting for ever. */
static void invariant_5_a_greeting_without_a_time_limit_is_turned_away(void **state)
{
	struct wire_message hello, message;
	int sock = dial_challenged(&hello);
	struct session *session = broker.sessions->by_id;

	(void)state;
	session_wait(session);
	fail_after(0);
	one_pass();
	assert_true(fail_ended());
	message = receive_message(sock);
	assert_int_equal(message.type, WIRE_REFUSED);
	assert_int_equal(message.refused.error, -ENOMEM);
	expect_end(sock);
	close(sock);
	assert_null(broker.sessions->by_id);
	assert_int_equal(greeting(), 0);
}

/* ---- messages ---- */

static void test_messages_are_handled_in_their_order(void **state)
{
	struct peer peer = join();
	uint64_t before = now_ns(CLOCK_MONOTONIC);

	(void)state;
	for (unsigned i = 1; i <= 3; i++)
		say_request(&peer, i);
	for (unsigned i = 1; i <= 3; i++)
		assert_int_equal(receive_message(peer.sock).request, i);
	assert_int_equal(handled, 3);
	assert_in_range(broker.received, before, now_ns(CLOCK_MONOTONIC));
	part_and_end(&peer);
	assert_int_equal(silences, 1);
	assert_int_equal(ends, 1);
	assert_int_equal(broker.counters.sessions_left, 1);
}

/* Each message costs, also in one packet; and one answer goes out for all of them. */
static void test_answers_to_a_packet_come_in_a_packet(void **state)
{
	struct peer peer = join();
	static struct socket_packet packet;
	struct session *session = session_of(&peer);

	(void)state;
	fair_allows(&session->place);
	session->place.user->work = 0;
	say_packet(&peer, 5);
	one_pass();
	assert_int_equal(handled, 5);
	assert_int_equal(session->place.user->work, 5 * COST_MESSAGE);
	assert_int_equal(socket_receive_packet(peer.sock, &packet, true, MSG_DONTWAIT), 0);
	assert_int_equal(packet.count, 5);
	assert_null(session->outbox.first);
	part(&peer);
}

/* What comes behind a message that breaks the protocol is not handled, and what came before it is not answered. */
static void invariant_5_a_packet_ends_at_a_message_that_breaks_the_protocol(void **state)
{
	struct peer peer = join();

	(void)state;
	refuse_at = 2;
	say_packet(&peer, 4);
	expect_end(peer.sock);
	assert_true(is_cut(&peer));
	assert_int_equal(handled, 2);
	assert_string_equal(event_last(EVENT_CUT)->text, "it said what must not be said");
	assert_null(session_of(&peer)->outbox.first);
	part_and_end(&peer);
}

static void invariant_5_a_packet_ends_at_a_malformed_message(void **state)
{
	struct wire_message packet[3] = { request(1), request(2), request(3) };
	struct peer peer = join();

	(void)state;
	packet[1].version++;
	assert_int_equal(send(peer.sock, packet, sizeof packet, 0), sizeof packet);
	expect_end(peer.sock);
	assert_true(is_cut(&peer));
	assert_int_equal(handled, 1);
	part_and_end(&peer);
}

/* A handler may disconnect the client of the message. */
static void test_a_packet_ends_where_its_client_is_disconnected(void **state)
{
	struct peer peer = join();

	(void)state;
	disconnect_at = 3;
	say_packet(&peer, 5);
	expect_end(peer.sock);
	assert_int_equal(handled, 3);
	assert_string_equal(event_last(EVENT_CUT)->text, "its handler does not like it");
	assert_int_equal(broker.counters.sessions_cut, 1);
	part_and_end(&peer);
}

static void invariant_5_a_message_alone_that_breaks_the_protocol_disconnects(void **state)
{
	struct peer peer = join();

	(void)state;
	refuse_at = 1;
	say_request(&peer, 1);
	expect_end(peer.sock);
	assert_int_equal(handled, 1);
	say_request(&peer, 2);
	run_passes();
	assert_int_equal(handled, 1);
	part_and_end(&peer);
}

/* In a child, with the session's socket. */
static void speak_for_parent(int sock)
{
	struct wire_message message = request(1);

	say(sock, &message);
}

static void invariant_2_a_forked_child_does_not_speak_for_its_parent(void **state)
{
	struct peer peer = join();
	struct child child = child_start(speak_for_parent, peer.sock);

	(void)state;
	assert_int_equal(waitpid(child.pid, NULL, 0), child.pid);
	child_forget(&child);
	expect_end(peer.sock);
	assert_int_equal(handled, 0);
	assert_string_equal(event_last(EVENT_CUT)->text, "another process used its socket");
	part_and_end(&peer);
}

/* The rest stays in the socket until a later pass. */
static void invariant_5_a_session_is_read_as_far_as_its_share_goes(void **state)
{
	struct peer peer = join();
	struct session *session = session_of(&peer);

	(void)state;
	for (unsigned i = 0; i < SHARE + 3; i++)
		say_request(&peer, i + 1);
	session_wait(session); /* known to have something to read */
	assert_true(sessions_serve(&broker));
	assert_int_equal(handled, SHARE);
	assert_true(session->place.waits);
	assert_false(sessions_serve(&broker));
	assert_int_equal(handled, SHARE + 3);
	assert_false(session->place.waits);
	part(&peer);
}

/*
 * An answer to an INQUIRE is no request of its user, so it takes no token; but the work that it makes is counted. An
 * answer that the session does not owe is a request.
 */
static void test_an_answer_that_is_owed_takes_no_token(void **state)
{
	struct peer peer = join();
	struct session *session = session_of(&peer);
	struct fair_user *user = session->place.user;
	struct wire_message waits;

	(void)state;
	wire_init(&waits, WIRE_WAITS, 1);
	broker.accounting->quotas.fallback.requests = 1;
	fair_allows(&session->place);
	user->work = 0;
	user->tokens = 1;
	session->inquired.answer = ANSWER_OWED;
	say(peer.sock, &waits);
	one_pass();
	assert_int_equal(handled, 1);
	assert_int_equal(user->work, COST_MESSAGE);
	assert_true(user->tokens > 0.5);
	session->inquired.answer = ANSWER_GIVEN;
	say(peer.sock, &waits);
	one_pass();
	assert_int_equal(handled, 2);
	assert_true(user->tokens < 0.5);
	broker.accounting->quotas.fallback.requests = QUOTA_NONE;
	part(&peer);
}

/* ---- the end of what a client sends ---- */

/* Its process is dead, and another one has its socket: the end that the shutdown made is no hang-up. */
static void test_the_end_of_a_dead_process_whose_socket_is_kept(void **state)
{
	struct peer peer = join();

	(void)state;
	session_on_death(-1, EV_READ, session_of(&peer));
	EXPECT_SOON(is_cut(&peer));
	assert_non_null(strstr(event_last(EVENT_CUT)->text, "another one has its socket"));
	assert_false(session_of(&peer)->hung_up);
	part_and_end(&peer);
}

static void test_an_end_that_is_no_hang_up_disconnects(void **state)
{
	struct peer peer = join();

	(void)state;
	assert_int_equal(shutdown(peer.sock, SHUT_WR), 0);
	EXPECT_SOON(is_cut(&peer));
	assert_null(strstr(event_last(EVENT_CUT)->text, "another one has its socket"));
	assert_false(session_of(&peer)->hung_up);
	/* the broker's direction stays open: with both shut the socket would look as if the client had hung up */
	run_passes();
	assert_int_equal(HASH_COUNT(broker.sessions->by_id), 1);
	part_and_end(&peer);
}

static void test_a_hang_up_is_no_disconnection(void **state)
{
	struct peer peer = join();

	(void)state;
	say_request(&peer, 1);
	part_and_end(&peer);
	assert_int_equal(handled, 1); /* what was sent before it is handled */
	assert_int_equal(broker.counters.sessions_cut, 0);
	assert_int_equal(broker.counters.sessions_left, 1);
}

/* ---- discarding ---- */

static unsigned drops;

static void drop(struct session_task *task)
{
	(void)task;
	drops++;
}

static void test_a_disconnected_client_sees_the_end_and_is_not_read(void **state)
{
	struct session_task task = { .drop = drop };
	struct peer peer = join();
	struct session *session = session_of(&peer);

	(void)state;
	drops = 0;
	session->task = &task;
	session_disconnect(session, "for a test");
	assert_int_equal(drops, 0); /* the middle of a change is no time for it */
	broker.changed = false;
	event_base_loop(broker.base, EVLOOP_NONBLOCK);
	assert_true(broker.changed);
	assert_int_equal(drops, 1);
	assert_int_equal(silences, 1);
	assert_true(session->discarding);
	expect_end(peer.sock);
	for (unsigned i = 0; i < 3; i++)
		say_request(&peer, i + 1);
	run_passes();
	assert_int_equal(handled, 0);
	assert_int_equal(silences, 1);
	assert_true(recv(session->fd, &(char){ 0 }, 1, MSG_DONTWAIT | MSG_PEEK) < 0 && errno == EAGAIN);
	part_and_end(&peer);
}

/* What is discarded is work for the sender's user. */
static void invariant_5_what_is_discarded_takes_the_share(void **state)
{
	struct peer peer = join();
	struct session *session = session_of(&peer);

	(void)state;
	for (unsigned i = 0; i < 2 * SHARE; i++)
		say_request(&peer, i + 1);
	fair_allows(&session->place);
	session->place.user->work = SHARE - 3;
	session_disconnect(session, "for a test");
	event_base_loop(broker.base, EVLOOP_NONBLOCK);
	assert_int_equal(session->place.user->work, SHARE);
	assert_true(session->place.waits);
	EXPECT_SOON(!session->place.waits);
	assert_true(recv(session->fd, &(char){ 0 }, 1, MSG_DONTWAIT | MSG_PEEK) < 0 && errno == EAGAIN);
	assert_false(event_pending(session->reading, EV_TIMEOUT, NULL)); /* nothing is left to come back for */
	part_and_end(&peer);
}

/* What could not be discarded is tried again by a timer, which ends when the socket is read. */
static void test_no_timer_is_left_when_all_is_discarded(void **state)
{
	static const struct timeval later = { .tv_sec = 60 };
	struct peer peer = join();
	struct session *session = session_of(&peer);

	(void)state;
	session_disconnect(session, "for a test");
	EXPECT_SOON(session->discarding);
	assert_int_equal(event_add(session->reading, &later), 0);
	event_active(session->reading, EV_TIMEOUT, 0);
	event_base_loop(broker.base, EVLOOP_NONBLOCK);
	assert_false(event_pending(session->reading, EV_TIMEOUT, NULL));
	assert_true(event_pending(session->reading, EV_READ, NULL));
	part_and_end(&peer);
}

/* ---- what comes first ---- */

static unsigned expiries;

static unsigned expire_once(struct session *session)
{
	(void)session;
	return expiries++ ? 0 : SHARE;
}

static void test_work_that_is_due_comes_before_reading(void **state)
{
	static struct session_hooks expiring;
	struct peer peer = join();
	struct session *session = session_of(&peer);

	(void)state;
	expiring = hooks;
	expiring.expire = expire_once;
	broker.sessions->hooks = &expiring;
	expiries = 0;
	say_request(&peer, 1);
	session_owe(session, DUE_EXPIRY);
	sessions_serve(&broker);
	assert_int_equal(expiries, 1); /* it took the share */
	assert_int_equal(handled, 0);
	sessions_serve(&broker);
	assert_int_equal(expiries, 2);
	assert_int_equal(handled, 1);
	broker.sessions->hooks = &hooks;
	part(&peer);
}

/* A session with a mapping, whose client has closed the socket. */
static struct session *hung_up_session(struct peer *peer)
{
	struct session *session;

	broker.sessions->hooks = hooks_usual;
	*peer = join();
	session = session_of(peer);
	expect_done(peer, WIRE_CREATE, "a");
	acquire(peer, "a");
	broker.sessions->hooks = &hooks;
	part(peer);
	session_hang_up(session);
	return session;
}

/* A session that has hung up and is kept for its mappings has nothing to read. */
static void test_nothing_is_read_after_the_hang_up(void **state)
{
	struct peer peer;
	struct session *session = hung_up_session(&peer);

	(void)state;
	session_owe(session, DUE_EXPIRY);
	assert_false(sessions_serve(&broker));
	assert_int_equal(session->due, 0);
	assert_int_equal(session->fd, -1);
	assert_int_equal(HASH_COUNT(session->mappings.by_id), 1);
	session_on_death(-1, EV_READ, session);
	EXPECT_SOON(!session_find(&broker, peer.session));
}

/* With more mappings than its share allows, the end goes on in later passes. */
static void test_an_end_goes_on_when_it_is_served(void **state)
{
	struct peer peer;
	struct session *session = hung_up_session(&peer);

	(void)state;
	session->place.dead = session->place.ending = true;
	session_wait(session);
	sessions_serve(&broker);
	assert_null(session_find(&broker, peer.session));
	assert_int_equal(broker.counters.mappings_died, 1);
}

#define SERVE(name) cmocka_unit_test_setup_teardown(name, setup, harness_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		SERVE(test_a_connection_that_is_refused_stays_the_callers),
		SERVE(invariant_5_a_greeting_comes_alone),
		SERVE(invariant_5_a_malformed_greeting_is_turned_away),
		SERVE(test_what_a_greeting_costs),
		SERVE(test_a_greeting_is_late_only_if_the_broker_waited_for_it),
		SERVE(invariant_5_a_greeting_without_a_time_limit_is_turned_away),
		SERVE(test_messages_are_handled_in_their_order),
		SERVE(test_answers_to_a_packet_come_in_a_packet),
		SERVE(invariant_5_a_packet_ends_at_a_message_that_breaks_the_protocol),
		SERVE(invariant_5_a_packet_ends_at_a_malformed_message),
		SERVE(test_a_packet_ends_where_its_client_is_disconnected),
		SERVE(invariant_5_a_message_alone_that_breaks_the_protocol_disconnects),
		SERVE(invariant_2_a_forked_child_does_not_speak_for_its_parent),
		SERVE(invariant_5_a_session_is_read_as_far_as_its_share_goes),
		SERVE(test_an_answer_that_is_owed_takes_no_token),
		SERVE(test_the_end_of_a_dead_process_whose_socket_is_kept),
		SERVE(test_an_end_that_is_no_hang_up_disconnects),
		SERVE(test_a_hang_up_is_no_disconnection),
		SERVE(test_a_disconnected_client_sees_the_end_and_is_not_read),
		SERVE(invariant_5_what_is_discarded_takes_the_share),
		SERVE(test_no_timer_is_left_when_all_is_discarded),
		SERVE(test_work_that_is_due_comes_before_reading),
		SERVE(test_nothing_is_read_after_the_hang_up),
		SERVE(test_an_end_goes_on_when_it_is_served),
	};

	return cmocka_run_group_tests_name("serving", tests, harness_group_setup, harness_group_teardown);
}
