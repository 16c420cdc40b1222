/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test-session-inherited.c - a process died with messages unread, and another process still has its socket.
 *
 * What the process sent is read, in its user's share. Nobody can send more: a message bears the pid of its sender, and
 * a living process may have got the dead one's pid. Here the dead process is this one, so it is such a process.
 * session-harness.h makes the broker and its clients.
 */
#include "session-harness.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define FLOODER 4001
#define OTHER   4002
#define SHARE   16   /* messages of a user in a pass: fair-queue.c's */
#define FLOOD   1000 /* many times that */

static uint64_t messages_read(void)
{
	return broker.counters.closed_foreign;
}

/*
 * Nothing is answered to these, so nobody has to read. Returns how many there are: fewer where net.core.wmem_max is
 * small.
 */
static unsigned send_flood(const struct peer *peer)
{
	struct wire_message message;
	int bytes = FLOOD * 1024;

	if (setsockopt(peer->sock, SOL_SOCKET, SO_SNDBUFFORCE, &bytes, sizeof bytes))
		setsockopt(peer->sock, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof bytes);
	wire_init(&message, WIRE_CLOSED, 0);
	for (unsigned i = 0; i < FLOOD; i++)
		if (socket_send(peer->sock, &message, -1, MSG_DONTWAIT))
			return i;
	return FLOOD;
}

/* As the kernel would report it. From then on nobody can send. */
static void die(const struct peer *peer)
{
	struct wire_message message = named(WIRE_UNLINK, 1, "a");
	uint64_t before = messages_read();

	event_active(session_of(peer)->death, EV_READ, 0);
	broker_pass(&broker, false);
	assert_in_range(messages_read() - before, 0, SHARE);
	assert_int_equal(socket_send(peer->sock, &message, -1, MSG_DONTWAIT), -ECONNRESET);
}

/* One pass, in which the other user asks and is answered. Returns how many messages of the flood were read in it. */
static uint64_t pass_with(const struct peer *other)
{
	struct wire_message message, question = named(WIRE_STAT, 7, "no-such-buffer");
	uint64_t before = messages_read();

	say(other->sock, &question);
	broker_pass(&broker, false);
	assert_int_equal(received_already(other->sock, &message), WIRE_REFUSED);
	return messages_read() - before;
}

/* Behind the final messages there is no hang-up, since another process has the socket. */
static void invariant_5_final_messages_have_their_users_share(void **state)
{
	struct peer flooder = join_as(FLOODER), other = join_as(OTHER);
	unsigned sent;

	(void)state;
	run_passes();
	sent = send_flood(&flooder);
	assert_true(sent > SHARE);
	die(&flooder);
	while (messages_read() + SHARE < sent)
		assert_in_range(pass_with(&other), 1, SHARE);
	EXPECT_SOON(broker.counters.sessions_cut == 1);
	assert_int_equal(messages_read(), sent);
	part(&flooder);
	part(&other);
}

static void set_rate(uint64_t requests)
{
	static struct user_quota user = { .uid = FLOODER };
	struct quotas quotas = { .users = &user, .count = 1 };

	quota_init(&quotas.fallback);
	quota_init(&user.quota);
	user.quota.requests = requests;
	broker_configure(&broker, &quotas, &broker.config->creators);
}

/* They do not wait for the rate, since others may wait for what they free. Their user goes into debt for them. */
static void invariant_5_final_messages_are_a_debt_of_their_user(void **state)
{
	struct peer flooder = join_as(FLOODER), living = join_as(FLOODER);
	unsigned sent = send_flood(&flooder);

	(void)state;
	set_rate(0);
	die(&flooder);
	EXPECT_SOON(messages_read() == sent);
	assert_true(session_of(&living)->place.user->tokens <= 1 - (double)sent);
	EXPECT_SOON(broker.counters.sessions_cut == 1);
	set_rate(QUOTA_NONE);
	part(&flooder);
	part(&living);
}

/*
 * A process may have many sessions, which then die at once. A living session of its user waits as long as the rate
 * says.
 */
static void invariant_5_final_messages_of_many_sessions_have_one_share(void **state)
{
	enum { DEAD = 4 };
	struct peer dead[DEAD], late = join_as(FLOODER), other = join_as(OTHER);
	struct wire_message question = named(WIRE_STAT, 7, "no-such-buffer");
	uint64_t refused = broker.counters.refused_no_name, passes = 0;
	unsigned all = 0;

	(void)state;
	for (int i = 0; i < DEAD; i++)
		dead[i] = join_as(FLOODER);
	run_passes();
	set_rate(0);
	say(late.sock, &question);
	run_passes();
	for (int i = 0; i < DEAD; i++) {
		all += send_flood(&dead[i]);
		event_active(session_of(&dead[i])->death, EV_READ, 0);
	}
	for (; messages_read() < all; passes++)
		assert_in_range(pass_with(&other), passes > 0, SHARE);
	assert_int_equal(broker.counters.refused_no_name, refused + passes);
	set_rate(QUOTA_NONE);
	for (int i = 0; i < DEAD; i++)
		part(&dead[i]);
	part(&late);
	part(&other);
}

/* ---- another process has the socket ---- */

/* Tries to send when it is told to. */
static void keep(int sock)
{
	struct wire_message message = named(WIRE_STAT, 1, "a");
	char byte;

	if (read(STDIN_FILENO, &byte, 1) == 1 && socket_send(sock, &message, -1, MSG_DONTWAIT) == -ECONNRESET)
		tell();
	linger();
	_exit(0);
}

/* It waits for a name and for memory, has a buffer, and is about to die. */
static void fork_a_keeper(int sock)
{
	struct wire_message message = named(WIRE_ACQUIRE, 5, "never-made");
	struct peer peer = join();

	(void)sock;
	acquire(&peer, "a");
	message.acquire.timeout_ms = -1;
	say(peer.sock, &message);
	message = named(WIRE_CREATE, 6, "wanted");
	message.create.size = 200u << 20;
	message.create.timeout_ms = -1;
	say(peer.sock, &message);
	if (!fork())
		keep(peer.sock);
	pause();
}

/* The keeper sends nothing: there is neither a message nor a hang-up that would tell the broker. */
static void invariant_9_a_death_behind_a_kept_socket_ends_what_the_process_waited_for(void **state)
{
	struct peer owner = join();
	struct wire_message large = named(WIRE_CREATE, 1, "a");
	struct child child;

	(void)state;
	large.create.size = 100u << 20;
	say(owner.sock, &large);
	assert_int_equal(receive_message(owner.sock).type, WIRE_DONE);
	child = child_start(fork_a_keeper, -1);
	EXPECT_SOON(broker.waiting->count == 2);
	run_passes();
	assert_int_equal(broker.counters.sessions_cut, 0);
	child_kill(&child);
	EXPECT_SOON(broker.counters.sessions_cut == 1);
	EXPECT_SOON(!broker.waiting->count);
	assert_int_equal(write(child.out, "!", 1), 1);
	EXPECT_SOON(told(&child));
	/* and nothing else: the keeper may touch the memory */
	expect_done(&owner, WIRE_UNLINK, "a");
	run_passes();
	assert_int_equal(broker.registry->mapping_count, 1);
	assert_int_equal(broker.counters.allocations_freed, 0);
	child_forget(&child);
	EXPECT_SOON(broker.counters.allocations_freed == 1);
	part(&owner);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		ON(invariant_5_final_messages_have_their_users_share),
		ON(invariant_5_final_messages_are_a_debt_of_their_user),
		ON(invariant_5_final_messages_of_many_sessions_have_one_share),
		ON(invariant_9_a_death_behind_a_kept_socket_ends_what_the_process_waited_for),
	};

	return cmocka_run_group_tests_name("final messages", tests, harness_group_setup, harness_group_teardown);
}
