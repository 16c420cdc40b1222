/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test-load-random.c - random requests of several clients, after each of which the broker that loads the ledger equals
 * the living one; and from a commit on the way, also within a request, a broker can be loaded.
 *
 * At each third request the broker seems to be killed, when it has received or has noted the message: the next one goes
 * on, and equals the living one, too. $LOAD_STEPS says how many requests: .ci/run asks for 20,000 in the normal build.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "successor.h"

#include "broker/session/session-end.h"

#define PEERS  4u
#define NAMES  10u
#define HELD   24u
#define STEPS  10000u
#define OTHER  1234u /* a user who is not the broker's */

/* A grant that a client holds. */
struct held {
	uint64_t mapping, serial;
};

static struct member {
	struct peer   peer;
	bool          is_in;
	struct held   held[HELD];
	unsigned      count;
	struct ticket ticket;
	bool          has_ticket;
} members[PEERS];
static unsigned seed, commits, loads, kills;
static bool kills_none; /* what is sent next is not the first that the broker has not read */

static unsigned pick(unsigned count)
{
	return (unsigned)rand_r(&seed) % count;
}

static const char *some_name(void)
{
	static char names[2][8];
	static unsigned next;
	char *name = names[next++ % 2];

	snprintf(name, sizeof names[0], "b%u", pick(NAMES));
	return name;
}

/* Every hundredth commit, also one within a request: what is loaded is whole. */
static void look_at_commit(void)
{
	struct loaded loaded;

	if (commits++ % 100)
		return;
	assert_int_equal(successor_load(ledger_fd(&note.ledger), &loaded), 0);
	assert_int_equal(loaded.damaged, 0);
	successor_end();
	loads++;
}

static int setup(void **state)
{
	int error;

	harness_buffers = 24;
	harness_handles = 64;
	error = harness_setup(state);
	if (!error)
		successor_note();
	successor_committed = look_at_commit;
	return error;
}

static int teardown(void **state)
{
	successor_forget();
	return harness_teardown(state);
}

/* ---- requests ---- */

/*
 * At times the broker seems to be killed at what is sent next. Returns whether it is. A create may get its range in
 * other memory from the next broker, so the two are not equal if that handles it.
 */
static bool kill_perhaps(enum wire_type type)
{
	enum successor_moment moment = (enum successor_moment)pick(KILL_MOMENTS);
	bool is_killed = !kills_none && !pick(3) && (type != WIRE_CREATE || moment == KILL_COMMITTED);

	if (is_killed)
		successor_kill_at(moment);
	return is_killed;
}

/* The next broker goes on, and has done the same in the end; it answers, too. */
static void go_on(void)
{
	EXPECT_SOON(successor_is_killed());
	for (unsigned i = 0; i < 20; i++)
		broker_pass(&broker, false);
	successor_expect_same_effect();
	successor_end();
	kills++;
}

/* Sends it and returns the answer. What answers no request or an earlier one, and descriptors, are dropped. */
static struct wire_message ask_for(struct member *member, struct wire_message *message)
{
	static uint64_t requests = 10;
	struct wire_message answer = { 0 };
	struct socket_extra extra = { 0 };
	bool is_killed = kill_perhaps((enum wire_type)message->type);

	message->request = ++requests;
	say(member->peer.sock, message);
	while (answer.request != message->request) {
		assert_int_equal(receive_with(member->peer.sock, &answer, &extra), 0);
		if (extra.fd >= 0)
			close(extra.fd);
	}
	if (is_killed)
		go_on();
	return answer;
}

static void ask_named(struct member *member, enum wire_type type, const char *name)
{
	struct wire_message message = named(type, 7, name);

	ask_for(member, &message);
}

/* An answer shows that the broker has read what was sent before. */
static void expect_read(struct member *member)
{
	kills_none = true;
	ask_named(member, WIRE_STAT, "b0");
	kills_none = false;
}

static void do_create(struct member *member)
{
	static const unsigned flags[] = { 0, 0, 0, GPUB_DEDICATED, GPUB_EPHEMERAL, GPUB_TIMELINE, GPUB_SAME_ADDRESS,
					  GPUB_TIMELINE | GPUB_EPHEMERAL };
	static const unsigned modes[] = { 0600, 0600, 0666, 0640 };
	struct wire_message message = named(WIRE_CREATE, 7, some_name());

	message.create.size = pick(2) ? 1 + pick(2000) : 1 + pick(1u << 20);
	message.create.flags = flags[pick(sizeof flags / sizeof *flags)];
	message.create.mode = modes[pick(sizeof modes / sizeof *modes)];
	message.create.reserve = pick(8) ? 0 : 4u << 20;
	if (message.create.reserve)
		message.create.flags &= ~(unsigned)GPUB_SAME_ADDRESS;
	if (!pick(4) && !message.create.reserve)
		message.create.layout =
			(gpub_layout){ .code = GPUB_INT, .bits = 8, .lanes = 1, .ndim = 1, .shape = { 1 } };
	ask_for(member, &message);
}

static void hold(struct member *member, const struct wire_message *answer)
{
	if (answer->type == WIRE_GRANT && member->count < HELD)
		member->held[member->count++] = (struct held){ answer->grant.mapping, answer->grant.serial };
}

static void do_acquire(struct member *member)
{
	struct wire_message message = named(WIRE_ACQUIRE, 7, some_name()), answer;

	if (member->count == HELD)
		return;
	message.acquire.rights = 1 + pick(3);
	answer = ask_for(member, &message);
	hold(member, &answer);
}

static void do_closed(struct member *member)
{
	uint64_t mapping;
	bool is_killed;

	if (!member->count)
		return;
	mapping = member->held[pick(member->count)].mapping;
	is_killed = kill_perhaps(WIRE_CLOSED);
	send_closed(member->peer.sock, mapping);
	if (is_killed)
		go_on();
	for (unsigned i = member->count; i--;)
		if (member->held[i].mapping == mapping)
			member->held[i] = member->held[--member->count];
	expect_read(member);
}

static void do_quiesced(struct member *member)
{
	struct wire_message message;
	bool is_killed;
	unsigned which;

	if (!member->count)
		return;
	which = pick(member->count);
	wire_init(&message, WIRE_QUIESCED, 0);
	message.grant_id.mapping = member->held[which].mapping;
	message.grant_id.serial = member->held[which].serial;
	is_killed = kill_perhaps(WIRE_QUIESCED);
	say(member->peer.sock, &message);
	if (is_killed)
		go_on();
	expect_read(member);
}

static void do_unlink(struct member *member)
{
	ask_named(member, WIRE_UNLINK, some_name());
}

static void do_seal(struct member *member)
{
	ask_named(member, WIRE_SEAL, some_name());
}

static void do_rename(struct member *member)
{
	struct wire_message message = named(WIRE_RENAME, 7, some_name());

	strcpy(message.rename.to, some_name());
	message.rename.flags = pick(4);
	ask_for(member, &message);
}

static void do_resize(struct member *member)
{
	struct wire_message message = named(WIRE_RESIZE, 7, some_name());

	message.resize.size = 1 + pick(4u << 20);
	ask_for(member, &message);
}

static void do_change(struct member *member)
{
	struct wire_message message = named(WIRE_CHANGE, 7, some_name());

	message.change.what = 1 + pick(3);
	message.change.mode = pick(2) ? 0600 : 0666;
	message.change.owner = pick(2) ? OTHER : geteuid();
	ask_for(member, &message);
}

static void do_issue(struct member *member)
{
	struct wire_message message = named(WIRE_ISSUE, 7, some_name()), answer;

	message.issue.rights = GPUB_READ;
	message.issue.uid = TICKET_ANY_USER;
	message.issue.once = pick(4) != 0;
	message.issue.lifetime_ms = pick(2) ? 1000000 : 0;
	answer = ask_for(member, &message);
	if (answer.type == WIRE_TICKET) {
		member->ticket = answer.ticket;
		member->has_ticket = true;
	}
}

static void do_redeem(struct member *member)
{
	const struct member *issuer = &members[pick(PEERS)];
	struct wire_message message, answer;

	if (!issuer->has_ticket || member->count == HELD)
		return;
	wire_init(&message, WIRE_REDEEM, 7);
	message.redeem.ticket = issuer->ticket;
	answer = ask_for(member, &message);
	hold(member, &answer);
}

static void do_writer(struct member *member)
{
	struct wire_message message;

	if (!member->count)
		return;
	wire_init(&message, WIRE_WRITER, 7);
	message.grant_id.mapping = member->held[pick(member->count)].mapping;
	message.grant_id.serial = member->held[pick(member->count)].serial;
	ask_for(member, &message);
}

static void come(struct member *member)
{
	memset(member, 0, sizeof *member);
	member->peer = member - members == PEERS - 1 ? join_as_charged(OTHER) : join();
	member->is_in = true;
}

/* Tells the broker that the process of a session that has hung up is dead. */
static void die(const struct peer *peer)
{
	struct session *session = session_find(&broker, peer->session);

	if (!session)
		return;
	session_on_death(-1, 0, session);
	EXPECT_SOON(!session_find(&broker, peer->session));
}

/* Leaves with open mappings at times: the session then stays until its process is dead, which die() pretends. */
static void do_leave(struct member *member)
{
	struct peer *peer = &member->peer;

	if (pick(8))
		return;
	if (pick(2)) {
		struct wire_message message;

		wire_init(&message, WIRE_LEAVE, 9);
		say(peer->sock, &message);
		run_passes();
		expect_equal_successor();
	}
	part(peer);
	run_passes();
	expect_equal_successor();
	die(peer);
	member->is_in = false;
}

static void do_keep(struct member *member)
{
	(void)member;
	if (!pick(20))
		broker_keep(&broker, pick(2) ? 4u << 20 : pick(2) ? 64u << 20 : 0);
}

static void step(void)
{
	static void (*const steps[])(struct member *) = {
		do_create, do_create, do_create, do_create, do_acquire, do_acquire, do_acquire, do_acquire,
		do_acquire, do_closed, do_closed, do_quiesced, do_quiesced, do_unlink, do_unlink, do_rename,
		do_resize, do_change, do_seal, do_issue, do_redeem, do_writer, do_leave, do_keep
	};
	struct member *member = &members[pick(PEERS)];

	if (!member->is_in)
		come(member);
	steps[pick(sizeof steps / sizeof *steps)](member);
}

static void random_run(unsigned begin, unsigned count)
{
	seed = begin;
	for (unsigned i = 0; i < count; i++) {
		step();
		expect_equal_successor();
	}
	for (unsigned i = 0; i < PEERS; i++) {
		if (!members[i].is_in)
			continue;
		part(&members[i].peer);
		run_passes();
		die(&members[i].peer);
		members[i].is_in = false;
	}
	run_passes();
	expect_equal_successor();
}

static void test_random_requests(void **state)
{
	const char *steps = getenv("LOAD_STEPS");

	(void)state;
	random_run(20261129, steps ? (unsigned)atoi(steps) : STEPS);
	assert_true(loads >= commits / 100 && kills > 100);
}

static int setup_vmm(void **state)
{
	harness_exported = EXPORT_VMM;
	return setup(state);
}

/* Memory that clients map by descriptors, which the keeper keeps. */
static void test_random_requests_for_descriptors(void **state)
{
	const char *steps = getenv("LOAD_STEPS");

	(void)state;
	random_run(20261130, (steps ? (unsigned)atoi(steps) : STEPS) / 4);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_random_requests, setup, teardown),
		cmocka_unit_test_setup_teardown(test_random_requests_for_descriptors, setup_vmm, teardown)
	};

	return cmocka_run_group_tests_name("load, at random", tests, harness_group_setup, harness_group_teardown);
}
