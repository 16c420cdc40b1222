/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test-greeting.c - a connection becomes a session: what is charged for it, what the client must prove, what the
 * session has then, and that each failure on the way leaves nothing behind.
 *
 * Most tests call greeting.c on one end of a socket pair, and are the client at the other end. The kernel names this
 * process as the peer. session-harness.h makes the broker.
 */
#include "session-harness.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "broker/base/process-start.h"
#include "broker/session/greeting.h"
#include "broker/session/session-end.h"
#include "common/error.h"
#include "common/export.h"
#include "tests/unit/broker/failing.h"

#define SECONDS 10 /* that a client has to greet: GREETING_SECONDS of greeting.c */

/* ---- a connection of a socket pair ---- */

static int client, server, reserved; /* both ends of the connection, and the descriptor reserved for the pidfd */

static void connect_pair(void)
{
	int pair[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair), 0);
	client = pair[0];
	server = pair[1];
	reserved = eventfd(0, EFD_CLOEXEC);
	assert_true(reserved >= 0);
}

static void close_pair(void)
{
	close(client);
	close(server);
	close(reserved);
}

static bool is_open(int fd)
{
	return fcntl(fd, F_GETFD) >= 0;
}

/* Nothing is read in these tests. */
static void on_ready(evutil_socket_t fd, short what, void *session)
{
	(void)fd, (void)what, (void)session;
}

static struct session *arrive(void)
{
	int error = 1;
	struct session *session;

	connect_pair();
	session = greeting_arrive(&broker, server, reserved, &error);
	assert_non_null(session);
	assert_int_equal(error, 0);
	return session;
}

/* A session that has sent its challenge, which is received. */
static struct session *begin(struct wire_message *challenge)
{
	struct session *session = arrive();

	greeting_begin(session, on_ready);
	assert_int_equal(received_already(client, challenge), WIRE_CHALLENGE);
	return session;
}

static void finish(struct session *session)
{
	session_free(session);
	close(client);
}

static struct socket_extra from_here(void)
{
	return (struct socket_extra){ .fd = -1, .has_sender = true, .sender = { .pid = getpid() } };
}

/* The broker has no trace of a connection. */
static void expect_nothing_kept(void)
{
	assert_null(broker.sessions->by_id);
	assert_int_equal(broker.sessions->arrived, 0);
	assert_null(broker.accounting->accounts);
	assert_null(broker.queue->users);
	assert_int_equal(broker.counters.sessions_opened, 0);
}

/* The client reads a refusal with that error, and the end of the connection. */
static void expect_refusal(int error)
{
	struct wire_message message;
	struct socket_extra extra;

	assert_int_equal(received_already(client, &message), WIRE_REFUSED);
	assert_int_equal(message.request, 0);
	assert_int_equal(message.refused.error, error);
	assert_int_equal(socket_receive(client, &message, &extra, true, MSG_DONTWAIT), -ECONNRESET);
}

static void set_quota(enum resource resource, uint64_t limit)
{
	broker.accounting->quotas.fallback.limit[resource] = limit;
}

/* ---- the connection arrives ---- */

static void test_an_arrival_is_charged_and_listed(void **state)
{
	uint64_t last = broker.sessions->next_id;
	time_t before = time(NULL);
	struct session *session = arrive();

	(void)state;
	assert_int_equal(session->state, SESSION_ARRIVED);
	assert_int_equal(session->id, last + 1);
	assert_ptr_equal(session_find(&broker, last + 1), session);
	assert_in_range(session->since, before, time(NULL));
	assert_int_equal(session->who.uid, geteuid());
	assert_int_equal(session->fd, server);
	assert_int_equal(session->reserved, reserved);
	assert_int_equal(session->pidfd, -1);
	assert_int_equal(session->rank, RANK_NONE);
	assert_int_equal(broker.sessions->arrived, 1);
	assert_int_equal(greeting(), 1);
	assert_int_equal(used(geteuid(), RESOURCE_DESCRIPTORS), 2);
	assert_int_equal(used(geteuid(), RESOURCE_SESSIONS), 0);
	assert_false(session_is_welcome(session));
	session_free(session);
	assert_false(is_open(server));
	assert_false(is_open(reserved));
	close(client);
	expect_nothing_kept();
}

static void expect_arrival_fails(int expected)
{
	int error = 0;

	assert_null(greeting_arrive(&broker, server, reserved, &error));
	assert_int_equal(error, expected);
	assert_true(is_open(server) && is_open(reserved));
	expect_nothing_kept();
}

static void invariant_5_an_arrival_over_a_quota_keeps_nothing(void **state)
{
	(void)state;
	connect_pair();
	set_quota(RESOURCE_GREETINGS, 0);
	expect_arrival_fails(-EDQUOT);
	set_quota(RESOURCE_GREETINGS, 1);
	set_quota(RESOURCE_DESCRIPTORS, 1);
	expect_arrival_fails(-EDQUOT);
	set_quota(RESOURCE_DESCRIPTORS, 2);
	finish(greeting_arrive(&broker, server, reserved, &(int){ 0 }));
	expect_nothing_kept();
}

static void test_an_arrival_without_a_peer_keeps_nothing(void **state)
{
	int no_socket = eventfd(0, EFD_CLOEXEC);

	(void)state;
	connect_pair();
	close(server);
	server = no_socket;
	expect_arrival_fails(-ENOTSOCK);
	close_pair();
}

/* Each of the calls for memory fails once: the arrival is undone, and the next one succeeds. */
static void test_an_arrival_without_memory_keeps_nothing(void **state)
{
	unsigned calls = 0;
	struct session *session;

	(void)state;
	connect_pair();
	for (;; calls++) {
		int error = 0;

		fail_after(calls);
		session = greeting_arrive(&broker, server, reserved, &error);
		if (!fail_ended())
			break;
		assert_null(session);
		assert_int_equal(error, -ENOMEM);
		assert_true(is_open(server) && is_open(reserved));
		expect_nothing_kept();
	}
	assert_non_null(session);
	assert_true(calls >= 4); /* the session, the user's account and queue, the table of sessions */
	finish(session);
	expect_nothing_kept();
}

/* ---- the challenge ---- */

/* The session's greeting is late in some ten seconds: libevent's clocks differ a little. */
static void expect_time_limit(const struct session *session)
{
	struct timeval due;

	assert_true(event_pending(session->reading, EV_TIMEOUT, &due));
	assert_in_range(due.tv_sec - time(NULL), SECONDS / 2, SECONDS + 1);
}

static bool has_time_limit(const struct session *session)
{
	return event_pending(session->reading, EV_TIMEOUT, NULL);
}

static void test_the_challenge_comes_when_the_process_is_known(void **state)
{
	static const uint8_t zeros[WIRE_NONCE_SIZE];
	struct wire_message first, second;
	struct session *session = begin(&first);
	int of_first = client;

	(void)state;
	assert_int_equal(session->state, SESSION_GREETING);
	assert_int_equal(broker.sessions->arrived, 0);
	assert_int_equal(session->pid, getpid());
	assert_int_equal(session->who.gid, getegid());
	assert_int_equal(session->start, process_start((uint64_t)getpid(), NULL));
	assert_string_not_equal(session->command, "");
	assert_true(session->pidfd >= 0);
	assert_int_equal(session->reserved, -1);
	assert_false(is_open(reserved) && reserved != session->pidfd);
	assert_int_equal(first.request, 0);
	assert_memory_equal(first.hello.nonce, session->nonce, WIRE_NONCE_SIZE);
	assert_memory_not_equal(first.hello.nonce, zeros, WIRE_NONCE_SIZE);
	assert_true(event_pending(session->reading, EV_READ, NULL));
	assert_true(event_pending(session->death, EV_READ, NULL));
	expect_time_limit(session);
	assert_int_equal(greeting(), 1);
	assert_int_equal(used(geteuid(), RESOURCE_SESSIONS), 0);
	assert_int_equal(broker.counters.sessions_opened, 0);
	finish(session);
	finish(begin(&second));
	assert_memory_not_equal(first.hello.nonce, second.hello.nonce, WIRE_NONCE_SIZE);
	close(of_first);
	expect_nothing_kept();
}

/* Each of the calls for memory fails once: the client is told, and nothing is kept. */
static void test_a_challenge_without_memory_is_a_refusal(void **state)
{
	unsigned calls = 0;
	int before = descriptors();
	struct session *session;
	struct wire_message message;

	(void)state;
	for (;; calls++) {
		session = arrive();
		fail_after(calls);
		greeting_begin(session, on_ready);
		if (!fail_ended())
			break;
		expect_refusal(-ENOMEM);
		close(client);
		expect_nothing_kept();
		assert_int_equal(descriptors(), before);
		assert_int_equal(broker.counters.sessions_refused, calls + 1);
	}
	assert_true(calls >= 6); /* the key, three events, two of which are added, and the time limit */
	assert_int_equal(received_already(client, &message), WIRE_CHALLENGE);
	finish(session);
	expect_nothing_kept();
	assert_int_equal(descriptors(), before);
}

/* A test can have no client in a pid namespace that it does not see, so the socket has no peer that is known. */
static void test_a_process_that_cannot_be_identified_is_refused(void **state)
{
	int before = descriptors(), no_socket = eventfd(0, EFD_CLOEXEC), connection;
	struct session *session = arrive();

	(void)state;
	/* the session's socket stays what it is for the refusal; its number names something else meanwhile */
	connection = fcntl(server, F_DUPFD_CLOEXEC, 0);
	assert_int_equal(dup3(no_socket, server, O_CLOEXEC), server);
	greeting_begin(session, on_ready);
	expect_nothing_kept();
	assert_int_equal(broker.counters.sessions_refused, 1);
	assert_int_equal(events_of(EVENT_CONNECTION_REFUSED), 1);
	close(connection);
	close(no_socket);
	close(client);
	assert_int_equal(descriptors(), before);
}

/* Nobody is told, and the work is counted as little. */
static void test_a_connection_that_was_closed_ends_without_a_refusal(void **state)
{
	struct fair_user *user;
	struct session *session = arrive(), *other;
	int of_first = client;

	(void)state;
	other = arrive(); /* keeps the user */
	close(of_first);
	user = other->place.user;
	fair_allows(&other->place);
	user->work = 0;
	greeting_begin(session, on_ready);
	assert_int_equal(user->work, COST_GONE);
	assert_int_equal(HASH_COUNT(broker.sessions->by_id), 1);
	assert_int_equal(broker.sessions->arrived, 1);
	assert_int_equal(broker.counters.sessions_refused, 0);
	assert_int_equal(events_of(EVENT_CONNECTION_REFUSED), 0);
	user->work = 0;
	greeting_begin(other, on_ready);
	assert_int_equal(user->work, COST_CONNECTION);
	finish(other);
	expect_nothing_kept();
}

static void invariant_5_a_connection_without_a_share_waits(void **state)
{
	struct session *session = arrive();
	struct wire_message message;

	(void)state;
	fair_allows(&session->place);
	fair_count_work(&session->place, 100);
	greeting_begin(session, on_ready);
	assert_int_equal(session->state, SESSION_ARRIVED);
	assert_true(session->place.waits);
	assert_int_equal(session->pidfd, -1);
	assert_int_equal(received_already(client, &message), 0);
	session->place.user->work = 0;
	fair_drop(&session->place);
	greeting_begin(session, on_ready);
	assert_int_equal(session->state, SESSION_GREETING);
	finish(session);
}

/* Since Linux 6.16 a connection from before the listener was set up has no credentials unless its socket asks. */
static void test_the_kernel_stamps_what_the_client_sends(void **state)
{
	struct wire_message message;
	struct session *session = begin(&message);
	int on = 0;
	socklen_t size = sizeof on;

	(void)state;
	assert_int_equal(getsockopt(server, SOL_SOCKET, SO_PASSCRED, &on, &size), 0);
	assert_int_equal(on, 1);
	finish(session);
}

/* ---- the time limit ---- */

static void test_the_time_limit_begins_anew(void **state)
{
	struct wire_message message;
	struct session *session = begin(&message);

	(void)state;
	session_wait(session); /* the time that a session waits for its turn does not count */
	assert_false(has_time_limit(session));
	fair_drop(&session->place);
	greeting_expect(session);
	expect_time_limit(session);
	assert_true(event_pending(session->reading, EV_READ, NULL));
	finish(session);
}

static void test_who_greets_late_is_refused(void **state)
{
	struct wire_message message;
	struct session *session = begin(&message);
	uint64_t id = session->id;

	(void)state;
	greeting_late(session);
	assert_int_equal(received_already(client, &message), WIRE_REFUSED);
	assert_int_equal(message.refused.error, -EPROTO);
	assert_non_null(strstr(message.refused.text, "no greeting came within 10 seconds"));
	assert_int_equal(event_last(EVENT_CONNECTION_REFUSED)->actor.session, id);
	close(client);
	expect_nothing_kept();
}

/* ---- the greeting ---- */

static void expect_greeting_fails(struct session *session, const struct wire_message *hello,
				  const struct socket_extra *extra, int error)
{
	struct wire_message message;

	assert_int_equal(greeting_take(session, hello, extra), error);
	assert_int_equal(session->state, SESSION_GREETING);
	assert_int_equal(received_already(client, &message), 0);
	assert_int_equal(used(geteuid(), RESOURCE_SESSIONS), 0);
	assert_int_equal(greeting(), 1);
	assert_int_equal(broker.counters.sessions_opened, 0);
	assert_true(has_time_limit(session));
}

static void test_only_the_answer_to_the_challenge_is_taken(void **state)
{
	const struct socket_extra extra = from_here();
	struct wire_message hello, bad;
	struct session *session = begin(&hello);

	(void)state;
	hello = hello_to(&hello);
	for (unsigned bit = 0; bit < 8 * WIRE_NONCE_SIZE; bit++) {
		bad = hello;
		bad.hello.nonce[bit / 8] ^= (uint8_t)(1 << bit % 8);
		expect_greeting_fails(session, &bad, &extra, -EPROTO);
		assert_non_null(strstr(error_text(), "not an answer to the challenge"));
	}
	for (unsigned type = 1; type < WIRE_TYPES; type++) {
		bad = hello;
		bad.type = type;
		if (type != WIRE_HELLO)
			expect_greeting_fails(session, &bad, &extra, -EPROTO);
	}
	finish(session);
}

static void test_only_the_process_that_connected_may_greet(void **state)
{
	struct socket_extra extra = from_here();
	struct wire_message hello;
	struct session *session = begin(&hello);

	(void)state;
	hello = hello_to(&hello);
	extra.sender.pid = getppid();
	expect_greeting_fails(session, &hello, &extra, -EPROTO);
	assert_non_null(strstr(error_text(), "connect anew after a fork"));
	extra = from_here();
	extra.has_sender = false;
	expect_greeting_fails(session, &hello, &extra, -EPROTO);
	finish(session);
}

/* Its number may be another process's by now, as may a message with that number. */
static void test_a_dead_process_does_not_greet(void **state)
{
	const struct socket_extra extra = from_here();
	struct wire_message hello;
	struct session *session = begin(&hello);
	siginfo_t info;
	pid_t dead = fork();

	(void)state;
	if (!dead)
		_exit(0);
	assert_int_equal(waitid(P_PID, (id_t)dead, &info, WEXITED | WNOWAIT), 0);
	event_del(session->death);
	close(session->pidfd);
	session->pidfd = (int)syscall(SYS_pidfd_open, dead, 0);
	assert_true(session->pidfd >= 0);
	hello = hello_to(&hello);
	expect_greeting_fails(session, &hello, &extra, -EPROTO);
	assert_int_equal(waitpid(dead, NULL, 0), dead);
	finish(session);
}

static void invariant_5_a_session_over_its_users_quota_is_not_welcome(void **state)
{
	const struct socket_extra extra = from_here();
	struct wire_message hello;
	struct session *session = begin(&hello);

	(void)state;
	hello = hello_to(&hello);
	set_quota(RESOURCE_SESSIONS, 0);
	expect_greeting_fails(session, &hello, &extra, -EDQUOT);
	set_quota(RESOURCE_SESSIONS, 1);
	assert_int_equal(greeting_take(session, &hello, &extra), 0);
	finish(session);
	assert_null(broker.accounting->accounts);
}

static void greet_with(uint32_t flags, uint32_t rank, struct session **session)
{
	const struct socket_extra extra = from_here();
	struct wire_message hello;

	*session = begin(&hello);
	hello = hello_to(&hello);
	hello.hello.flags = flags;
	hello.hello.rank = rank;
	assert_int_equal(greeting_take(*session, &hello, &extra), 0);
}

static void test_what_a_greeting_says_of_its_process(void **state)
{
	struct session *session;

	(void)state;
	greet_with(0, 5, &session);
	assert_false(session->proof.mps);
	assert_false(session->answers);
	assert_int_equal(session->rank, RANK_NONE);
	finish(session);
	greet_with(WIRE_HELLO_MPS, 5, &session);
	assert_true(session->proof.mps);
	assert_false(session->answers);
	assert_int_equal(session->rank, RANK_NONE);
	finish(session);
	greet_with(WIRE_HELLO_WAITS, 5, &session);
	assert_false(session->proof.mps);
	assert_true(session->answers);
	assert_int_equal(session->rank, RANK_NONE);
	finish(session);
	greet_with(WIRE_HELLO_RANK, 5, &session);
	assert_false(session->proof.mps);
	assert_false(session->answers);
	assert_int_equal(session->rank, 5);
	finish(session);
}

static void test_a_welcome_opens_the_session(void **state)
{
	const struct socket_extra extra = from_here();
	struct wire_message message;
	struct socket_extra received;
	struct session *session = begin(&message);
	struct board board;

	(void)state;
	message = hello_to(&message);
	broker.changed = false;
	assert_int_equal(greeting_take(session, &message, &extra), 0);
	assert_int_equal(session->state, SESSION_OPEN);
	assert_true(session->opened && session_is_welcome(session));
	assert_false(has_time_limit(session));
	assert_true(event_pending(session->reading, EV_READ, NULL));
	assert_int_equal(greeting(), 0);
	assert_int_equal(used(geteuid(), RESOURCE_SESSIONS), 1);
	assert_int_equal(used(geteuid(), RESOURCE_DESCRIPTORS), 2);
	assert_int_equal(broker.counters.sessions_opened, 1);
	assert_int_equal(session->tracked.type, TRACKED_SESSION);
	assert_ptr_equal(broker.tracking->at[session->tracked.number - 1], &session->tracked);
	assert_true(broker.changed);
	sessions_send(&broker);
	assert_int_equal(socket_receive(client, &message, &received, true, MSG_DONTWAIT), 0);
	assert_int_equal(message.type, WIRE_WELCOME);
	assert_int_equal(message.request, 0);
	assert_int_equal(message.welcome.session, session->id);
	assert_memory_equal(message.welcome.key, session->key, WIRE_KEY_SIZE);
	assert_int_equal(message.welcome.user, geteuid());
	assert_int_equal(message.welcome.broker, geteuid());
	assert_int_equal(board_map(&board, received.fd), 0);
	assert_memory_equal(board.header->instance_id, broker.board->header->instance_id, 16);
	close(received.fd);
	board_unmap(&board);
	finish(session);
	assert_null(broker.accounting->accounts);
	assert_null(broker.sessions->by_id);
}

/* ---- refusing ---- */

static void test_a_rejection_names_the_process_and_frees_the_session(void **state)
{
	struct wire_message message;
	struct session *session = begin(&message);
	const struct broker_event *event;
	uint64_t id = session->id;
	int pidfd = session->pidfd;

	(void)state;
	broker.changed = false;
	greeting_reject(session, error_set(-EPERM, "not you"));
	assert_true(broker.changed);
	assert_int_equal(received_already(client, &message), WIRE_REFUSED);
	assert_int_equal(message.refused.error, -EPERM);
	assert_string_equal(message.refused.text, "not you");
	event = event_last(EVENT_CONNECTION_REFUSED);
	assert_int_equal(event->error, -EPERM);
	assert_string_equal(event->text, "not you");
	assert_int_equal(event->actor.session, id);
	assert_int_equal(event->actor.pid, getpid());
	assert_int_equal(event->actor.uid, geteuid());
	assert_int_equal(broker.counters.sessions_refused, 1);
	assert_false(is_open(server) || is_open(pidfd));
	close(client);
	expect_nothing_kept();
}

static void test_a_refused_connection_stays_the_callers(void **state)
{
	struct wire_message message;
	const struct broker_event *event;

	(void)state;
	connect_pair();
	connection_refuse(&broker, server, error_set(-EDQUOT, "too many"));
	assert_int_equal(received_already(client, &message), WIRE_REFUSED);
	assert_int_equal(message.request, 0);
	assert_int_equal(message.refused.error, -EDQUOT);
	assert_string_equal(message.refused.text, "too many");
	event = event_last(EVENT_CONNECTION_REFUSED);
	assert_int_equal(event->actor.session, 0);
	assert_int_equal(event->actor.pid, 0);
	assert_int_equal(broker.counters.sessions_refused, 1);
	assert_true(is_open(server) && is_open(reserved));
	close_pair();
}

/* Its client does not read, and the socket is one that blocks. */
static void invariant_5_a_refusal_does_not_wait_for_the_client(void **state)
{
	struct wire_message message;

	(void)state;
	connect_pair();
	wire_init(&message, WIRE_DONE, 0);
	while (!socket_send(server, &message, -1, MSG_DONTWAIT))
		;
	assert_int_equal(fcntl(server, F_SETFL, 0), 0);
	alarm(60); /* ends the program if the call blocks */
	connection_refuse(&broker, server, error_set(-EDQUOT, "too many"));
	alarm(0);
	assert_int_equal(broker.counters.sessions_refused, 1);
	close_pair();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		ON(test_an_arrival_is_charged_and_listed),
		ON(invariant_5_an_arrival_over_a_quota_keeps_nothing),
		ON(test_an_arrival_without_a_peer_keeps_nothing),
		ON(test_an_arrival_without_memory_keeps_nothing),
		ON(test_the_challenge_comes_when_the_process_is_known),
		ON(test_a_challenge_without_memory_is_a_refusal),
		ON(test_a_process_that_cannot_be_identified_is_refused),
		ON(test_a_connection_that_was_closed_ends_without_a_refusal),
		ON(invariant_5_a_connection_without_a_share_waits),
		ON(test_the_kernel_stamps_what_the_client_sends),
		ON(test_the_time_limit_begins_anew),
		ON(test_who_greets_late_is_refused),
		ON(test_only_the_answer_to_the_challenge_is_taken),
		ON(test_only_the_process_that_connected_may_greet),
		ON(test_a_dead_process_does_not_greet),
		ON(invariant_5_a_session_over_its_users_quota_is_not_welcome),
		ON(test_what_a_greeting_says_of_its_process),
		ON(test_a_welcome_opens_the_session),
		ON(test_a_rejection_names_the_process_and_frees_the_session),
		ON(test_a_refused_connection_stays_the_callers),
		ON(invariant_5_a_refusal_does_not_wait_for_the_client),
	};

	return cmocka_run_group_tests_name("greeting", tests, harness_group_setup, harness_group_teardown);
}
