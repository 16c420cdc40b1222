/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test-session-inherited.c - a process is dead, and one that was forked from it still has its socket: what it can do
 * with it.
 *
 * A message bears the pid of its sender, which a living process may have got anew: that it looks like the dead one's
 * own is not enough to hear it before others. session-harness.h is the world.
 */
#include "session-harness.h"

#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define FLOODER    4001
#define OTHER      4002
#define SHARE      16   /* messages of a user in a pass: fair-queue.c's */
#define LAST_WORDS 1024 /* of a dead process, whatever its user's rate: fair-queue.c's */
#define FLOOD      4000 /* more than both */

static uint64_t heard(void)
{
	return broker.counters.closed_foreign;
}

/*
 * Nothing is answered to these, so nobody has to read. Returns how many there are: fewer where net.core.wmem_max is
 * small and this is not root, and then there is not much to see.
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

/* One pass, in which the other user asks and is answered. Returns how many of the flood were heard in it. */
static uint64_t pass_with(const struct peer *other)
{
	struct wire_message message, question = named(WIRE_STAT, 7, "no-such-buffer");
	uint64_t before = heard();

	say(other->sock, &question);
	broker_pass(&broker, false);
	assert_int_equal(heard_already(other->sock, &message), WIRE_REFUSED);
	return heard() - before;
}

/* They are read in its user's share, and when all are there is no hang-up behind them: another one has the socket. */
static void invariant_5_a_flood_behind_a_death_has_no_more_than_its_share(void **state)
{
	struct peer flooder = join_as(FLOODER), other = join_as(OTHER);
	unsigned sent;

	(void)state;
	turn_some();
	sent = send_flood(&flooder);
	session_of(&flooder)->place.dead = true;
	while (heard() + SHARE < sent)
		assert_in_range(pass_with(&other), 1, SHARE);
	EXPECT_SOON(broker.counters.sessions_cut == 1);
	assert_int_equal(heard(), sent);
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

/* As many as a dead process can have left go into its user's debt; what is beyond them waits for tokens. */
static void invariant_5_a_flood_behind_a_death_keeps_to_its_users_rate(void **state)
{
	struct peer flooder = join_as(FLOODER);
	unsigned sent = send_flood(&flooder);

	(void)state;
	set_rate(0);
	session_of(&flooder)->place.dead = true;
	sent = sent < LAST_WORDS ? sent : LAST_WORDS;
	EXPECT_SOON(heard() == sent);
	turn_some();
	assert_int_equal(heard(), sent);
	set_rate(QUOTA_NONE);
	part(&flooder);
}

/* A process may have many sessions, and then many die at once; who lives on is late for as long as the rate says. */
static void invariant_5_many_last_words_have_one_share(void **state)
{
	enum { DEAD = 4 };
	struct peer dead[DEAD], late = join_as(FLOODER), other = join_as(OTHER);
	struct wire_message question = named(WIRE_STAT, 7, "no-such-buffer");
	uint64_t refused = broker.counters.refused_no_name, passes = 0;
	unsigned sent[DEAD], all = 0;

	(void)state;
	for (int i = 0; i < DEAD; i++)
		dead[i] = join_as(FLOODER);
	turn_some();
	set_rate(0);
	say(late.sock, &question);
	turn_some();
	for (int i = 0; i < DEAD; i++) {
		sent[i] = send_flood(&dead[i]);
		all += sent[i] < LAST_WORDS ? sent[i] : LAST_WORDS;
		session_of(&dead[i])->place.dead = true;
	}
	for (; heard() < all; passes++)
		assert_in_range(pass_with(&other), 1, SHARE);
	assert_int_equal(broker.counters.refused_no_name, refused + passes);
	set_rate(QUOTA_NONE);
	for (int i = 0; i < DEAD; i++)
		part(&dead[i]);
	part(&late);
	part(&other);
}

/* ---- another process has the socket ---- */

/* What a session is told that is cut off. */
static void keep(int sock)
{
	struct pollfd p = { .fd = sock, .events = POLLRDHUP };

	if (poll(&p, 1, PATIENCE_MS) == 1)
		tell();
	linger();
	_exit(0);
}

/* It waits for a name and for memory, holds a buffer, and is about to die. */
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

/* The keeper says nothing: there is neither a message nor a hang-up that would tell the broker. */
static void invariant_9_a_death_behind_a_kept_socket_ends_what_the_process_waited_for(void **state)
{
	struct peer owner = join();
	struct wire_message large = named(WIRE_CREATE, 1, "a");
	struct child child;

	(void)state;
	large.create.size = 100u << 20;
	say(owner.sock, &large);
	assert_int_equal(hear(owner.sock).type, WIRE_DONE);
	child = child_start(fork_a_keeper, -1);
	EXPECT_SOON(broker.waiting->count == 2);
	turn_some();
	assert_int_equal(broker.counters.sessions_cut, 0);
	child_kill(&child);
	EXPECT_SOON(broker.counters.sessions_cut == 1);
	EXPECT_SOON(!broker.waiting->count);
	EXPECT_SOON(told(&child));
	/* and nothing else: the keeper may touch the memory */
	expect_done(&owner, WIRE_UNLINK, "a");
	turn_some();
	assert_int_equal(broker.registry->grant_count, 1);
	assert_int_equal(broker.counters.allocations_freed, 0);
	child_forget(&child);
	EXPECT_SOON(broker.counters.allocations_freed == 1);
	part(&owner);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		ON(invariant_5_a_flood_behind_a_death_has_no_more_than_its_share),
		ON(invariant_5_a_flood_behind_a_death_keeps_to_its_users_rate),
		ON(invariant_5_many_last_words_have_one_share),
		ON(invariant_9_a_death_behind_a_kept_socket_ends_what_the_process_waited_for),
	};

	return cmocka_run_group_tests_name("last words", tests, harness_group_setup, harness_group_teardown);
}
