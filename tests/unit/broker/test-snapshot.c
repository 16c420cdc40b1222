/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test-snapshot.c - what a session is shown of the broker: whose objects, in slices that let others work, at the pace
 * at which its client reads, while objects come and go.
 *
 * session-harness.h makes the broker and its clients, of several users.
 */
#include "session-harness.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "broker/base/tracked.h"
#include "broker/session/session.h"
#include "broker/show/records.h"
#include "broker/status/format.h"
#include "broker/status/status.h"

#define ALICE  4001
#define BOB    4002
/* buffers: more records than a socket takes, and more slots than two passes look at */
#define MANY   900
#define PACKET (16 * WIRE_SIZE)        /* the longest one */
#define IMAGE  (STATUS_OFFSET(4 * MANY))

/* What came so far. */
struct image {
	union {
		struct status_header header;
		uint8_t              bytes[IMAGE];
	};
	uint64_t request;
	unsigned parts;
	bool     whole;
	struct wire_view view;
};

static struct image image;

static void ask_for_view(const struct peer *peer, uint64_t request)
{
	struct wire_message message;

	memset(&image, 0, sizeof image);
	image.request = request;
	wire_init(&message, WIRE_SNAPSHOT, request);
	say(peer->sock, &message);
}

static void take(const struct wire_message *message)
{
	assert_int_equal(wire_check(message, WIRE_SIZE), 0);
	assert_int_equal(message->request, image.request);
	assert_false(image.whole);
	if (message->type == WIRE_VIEW) {
		image.view = message->view;
		image.whole = true;
		return;
	}
	assert_int_equal(message->type, WIRE_PART);
	assert_true(message->part.offset + message->part.length <= IMAGE);
	memcpy(image.bytes + message->part.offset, message->part.bytes, message->part.length);
	image.parts++;
}

/* Takes all that has arrived, without a pass. */
static void read_parts(const struct peer *peer)
{
	struct wire_message packet[PACKET / WIRE_SIZE];
	ssize_t length;

	while ((length = recv(peer->sock, packet, sizeof packet, MSG_DONTWAIT)) > 0)
		for (unsigned i = 0; i < length / WIRE_SIZE; i++)
			take(&packet[i]);
}

static bool view_came(const struct peer *peer)
{
	read_parts(peer);
	return image.whole;
}

static void view(const struct peer *peer)
{
	ask_for_view(peer, 7);
	EXPECT_SOON(view_came(peer));
	assert_int_equal(image.view.size, STATUS_OFFSET(image.header.records));
	assert_int_equal(image.header.magic, STATUS_MAGIC);
	assert_true(status_is_whole(&image.header.seal, STATUS_HEADER_SEALED));
}

static const union status_record *record_at(uint64_t slot)
{
	return (const union status_record *)(image.bytes + STATUS_OFFSET(slot));
}

/* How many records of that type it has, each of which is whole. */
static unsigned count(enum tracked_type type)
{
	unsigned found = 0;

	for (uint64_t i = 0; i < image.header.records; i++) {
		assert_true(record_is_good(record_at(i)));
		found += record_at(i)->type == (uint32_t)type;
	}
	return found;
}

static bool has_buffer(const char *name)
{
	for (uint64_t i = 0; i < image.header.records; i++)
		if (record_at(i)->type == TRACKED_BUFFER && !strcmp(record_at(i)->buffer.name, name))
			return true;
	return false;
}

static const struct status_session *session_in(const struct peer *peer)
{
	for (uint64_t i = 0; i < image.header.records; i++)
		if (record_at(i)->type == TRACKED_SESSION && record_at(i)->session.id == peer->session)
			return &record_at(i)->session;
	return NULL;
}

/* ---- whose ---- */

static void test_a_user_is_shown_its_own_and_what_it_uses(void **state)
{
	struct peer alice = join_as(ALICE), bob = join_as(BOB), third = join_as(4003);

	(void)state;
	create_with_mode(&alice, "alice/own", 0600);
	create_with_mode(&alice, "alice/lent", 0644);
	create_with_mode(&bob, "bob/secret", 0600);
	create_with_mode(&bob, "bob/lent", 0644);
	acquire(&bob, "bob/secret");
	acquire(&bob, "alice/lent");
	acquire(&alice, "bob/lent");
	view(&alice);
	assert_false(image.view.all);
	assert_true(has_buffer("alice/own") && has_buffer("alice/lent") && has_buffer("bob/lent"));
	assert_false(has_buffer("bob/secret"));
	assert_int_equal(count(TRACKED_BUFFER), 3);
	assert_int_equal(count(TRACKED_MAPPING), 2);
	assert_int_equal(count(TRACKED_GRANT), 2);
	assert_int_equal(count(TRACKED_USER), 1);
	assert_int_equal(count(TRACKED_DEVICE), 1);
	assert_true(session_in(&alice)->command[0]);
	assert_int_equal(session_in(&bob)->uid, BOB);
	assert_int_equal(session_in(&bob)->pid, getpid());
	assert_int_equal(session_in(&bob)->command[0], 0);
	assert_true(session_in(&alice)->since && !session_in(&bob)->since);
	assert_null(session_in(&third));
	part(&third);
	hang_up_dying(&alice);
	hang_up_dying(&bob);
}

/* A ticket has no name; who may not acquire the buffer by its name is not shown it. */
static void test_a_ticket_shows_no_name(void **state)
{
	struct peer alice = join_as(ALICE), bob = join_as(BOB);
	struct wire_message message = named(WIRE_ISSUE, 3, "alice/secret"), answer;

	(void)state;
	create_with_mode(&alice, "alice/secret", 0600);
	message.issue.rights = GPUB_READ;
	message.issue.uid = TICKET_ANY_USER;
	answer = answer_to(&alice, &message);
	assert_int_equal(answer.type, WIRE_TICKET);
	wire_init(&message, WIRE_REDEEM, 4);
	message.redeem.ticket = answer.ticket;
	assert_int_equal(answer_to(&bob, &message).type, WIRE_GRANT);
	view(&bob);
	assert_true(has_buffer("-"));
	assert_int_equal(count(TRACKED_BUFFER), 1);
	view(&alice);
	assert_true(has_buffer("alice/secret"));
	part(&alice);
	hang_up_dying(&bob);
}

/* Its status record says which is which; a session that holds several of one's buffers comes once. */
static void test_what_another_user_holds_comes_once(void **state)
{
	struct peer alice = join_as(ALICE), bob = join_as(BOB);
	char name[16];

	(void)state;
	for (int i = 0; i < 8; i++) {
		snprintf(name, sizeof name, "lent/%d", i);
		create_with_mode(&alice, name, 0644);
		acquire(&bob, name);
	}
	view(&alice);
	assert_int_equal(count(TRACKED_SESSION), 2);
	assert_int_equal(count(TRACKED_MAPPING), 8);
	view(&bob);
	assert_int_equal(count(TRACKED_SESSION), 1);
	assert_int_equal(count(TRACKED_BUFFER), 8);
	part(&alice);
	hang_up_dying(&bob);
}

static void test_counters_tell_of_others_and_are_left_out(void **state)
{
	static const struct counters none;
	struct peer alice = join_as(ALICE), root = join_as(0);
	struct wire_message waits = named(WIRE_ACQUIRE, 3, "nowhere");

	(void)state;
	waits.acquire.timeout_ms = -1;
	say(root.sock, &waits);
	expect_served(&root);
	view(&alice);
	assert_memory_equal(&image.header.counters, &none, sizeof none);
	assert_int_equal(image.header.waiting, 0);
	assert_int_equal(image.header.seal.sequence, 0);
	for (uint64_t i = 0; i < image.header.records; i++)
		assert_int_equal(record_at(i)->seal.sequence, 0);
	view(&root);
	assert_true(image.view.all);
	assert_int_equal(image.header.counters.sessions_opened, broker.counters.sessions_opened);
	assert_int_equal(image.header.waiting, 1);
	assert_true(session_in(&alice)->command[0]);
	part(&alice);
	part(&root);
}

static const struct status_owner *memory_owner(const struct peer *peer)
{
	ask_for_view(peer, 9);
	EXPECT_SOON(view_came(peer));
	for (uint64_t i = 0; i < image.header.records; i++)
		if (record_at(i)->type == TRACKED_ADDRESS)
			return &record_at(i)->first.owner;
	return NULL;
}

/* How many buffers lost their names tells what others do. */
static void test_all_see_the_owner_of_the_memory(void **state)
{
	struct peer alice = join_as(ALICE), root = join_as(0);

	(void)state;
	assert_int_equal(memory_owner(&alice)->pid, broker.owner_pid);
	status_owner_died(&broker, 3);
	assert_int_equal(memory_owner(&root)->lost, 3);
	assert_int_equal(memory_owner(&root)->lost_all, 3);
	assert_int_equal(memory_owner(&alice)->lost, STATUS_HIDDEN);
	assert_int_equal(memory_owner(&alice)->lost_all, STATUS_HIDDEN);
	assert_int_equal(memory_owner(&alice)->died, 1);
	assert_int_equal(memory_owner(&alice)->state, STATUS_OWNER_STARTS);
	status_owner_serves(&broker);
	part(&alice);
	part(&root);
}

static void test_a_change_of_the_owner_is_one_of_the_view(void **state)
{
	struct peer alice = join_as(ALICE), bob = join_as(BOB), root = join_as(0);
	struct wire_message change = named(WIRE_CHANGE, 3, "given");

	(void)state;
	create_with_mode(&alice, "given", 0600);
	change.change.what = WIRE_CHANGE_OWNER;
	change.change.owner = BOB;
	assert_int_equal(answer_to(&root, &change).type, WIRE_DONE);
	view(&alice);
	assert_int_equal(count(TRACKED_BUFFER), 0);
	view(&bob);
	assert_true(has_buffer("given"));
	part(&alice);
	part(&bob);
	part(&root);
}

/* ---- timelines, and what waits ---- */

static const union status_record *record_of(enum tracked_type type)
{
	for (uint64_t i = 0; i < image.header.records; i++)
		if (record_at(i)->type == (uint32_t)type)
			return record_at(i);
	return NULL;
}

static void create_timeline(struct peer *peer, const char *name)
{
	struct wire_message message = named(WIRE_CREATE, 1, name);

	message.create.mode = 0666;
	message.create.flags = GPUB_TIMELINE;
	assert_int_equal(answer_to(peer, &message).type, WIRE_DONE);
}

static struct wire_grant hold(struct peer *peer, const char *name)
{
	struct wire_message message = named(WIRE_ACQUIRE, 2, name);

	session_of(peer)->answers = true; /* harness peers greet as an older library */
	message.acquire.rights = GPUB_READ | GPUB_WRITE;
	return answer_to(peer, &message).grant;
}

static void write_timeline(struct peer *peer, const struct wire_grant *grant, unsigned rank)
{
	struct wire_message message;

	session_of(peer)->rank = rank;
	wire_init(&message, WIRE_WRITER, 3);
	message.grant_id = (struct wire_grant_id){ .mapping = grant->mapping, .serial = grant->serial };
	assert_int_equal(answer_to(peer, &message).type, WIRE_DONE);
}

static void test_timelines_are_shown_with_their_buffers(void **state)
{
	struct peer alice = join_as(ALICE), bob = join_as(BOB), third = join_as(4003), stranger = join_as(4004);
	struct wire_grant grant;

	(void)state;
	create_timeline(&alice, "t");
	grant = hold(&bob, "t");
	write_timeline(&bob, &grant, 6);
	hold(&third, "t");
	session_of(&bob)->inquired.partial = true;
	view(&bob);
	assert_int_equal(session_in(&bob)->partial, 1);
	assert_int_equal(record_of(TRACKED_TIMELINE)->timeline.rank, 7);
	view(&alice);
	assert_int_equal(count(TRACKED_TIMELINE), 1);
	assert_int_equal(record_of(TRACKED_TIMELINE)->timeline.writer, bob.session);
	assert_int_equal(record_of(TRACKED_TIMELINE)->timeline.pid, getpid());
	assert_int_equal(record_of(TRACKED_TIMELINE)->timeline.rank, 0);
	assert_int_equal(session_in(&bob)->rank, 0);
	assert_int_equal(session_in(&bob)->partial, 0);
	view(&third); /* whose buffer is another's, too, as is its writer */
	assert_int_equal(count(TRACKED_TIMELINE), 1);
	assert_int_equal(record_of(TRACKED_TIMELINE)->timeline.rank, 0);
	assert_int_equal(session_in(&bob)->uid, BOB);
	assert_true(!session_in(&bob)->command[0] && !session_in(&bob)->rank && !session_in(&alice));
	view(&stranger);
	assert_int_equal(count(TRACKED_TIMELINE), 0);
	assert_int_equal(count(TRACKED_SESSION), 1);
	assert_int_equal(count(TRACKED_HISTOGRAM), 0); /* they tell of others */
	part(&alice);
	part(&stranger);
	hang_up_dying(&bob);
	hang_up_dying(&third);
}

/* Its process says that it waits, when it is asked. */
static void say_waits(struct peer *asker, struct peer *peer, const struct wire_grant *grant)
{
	struct wire_message message;

	wire_init(&message, WIRE_REFRESH, 4);
	say(asker->sock, &message);
	assert_int_equal(receive_message(peer->sock).type, WIRE_INQUIRE);
	wire_init(&message, WIRE_WAITS, 0);
	message.waits.count = 1;
	message.waits.wait[0] = (struct wire_wait){ .mapping = grant->mapping, .serial = grant->serial, .value = 9 };
	say(peer->sock, &message);
	assert_int_equal(receive_message(asker->sock).type, WIRE_DONE);
}

static void test_waits_are_shown_to_who_waits_and_whose_buffer_it_is(void **state)
{
	struct peer alice = join_as(ALICE), bob = join_as(BOB), third = join_as(4003);
	struct wire_message nowhere = named(WIRE_ACQUIRE, 5, "nowhere"), drain = named(WIRE_DRAIN, 6, "t");
	struct wire_grant grant;

	(void)state;
	create_timeline(&alice, "t");
	grant = hold(&bob, "t");
	hold(&third, "t");
	session_of(&third)->answers = false;
	say_waits(&alice, &bob, &grant);
	nowhere.acquire.timeout_ms = -1;
	say(third.sock, &nowhere);
	drain.drain.timeout_ms = -1;
	say(alice.sock, &drain);
	assert_int_equal(receive_message(bob.sock).type, WIRE_NOTICE);
	assert_int_equal(receive_message(third.sock).type, WIRE_NOTICE);
	view(&alice);
	assert_int_equal(count(TRACKED_WAIT), 1);
	assert_int_equal(record_of(TRACKED_WAIT)->wait.session, bob.session);
	assert_int_equal(count(TRACKED_REQUEST), 1);
	assert_string_equal(record_of(TRACKED_REQUEST)->request.name, "t");
	view(&bob);
	assert_int_equal(count(TRACKED_WAIT), 1);
	assert_int_equal(count(TRACKED_REQUEST), 0);
	view(&third);
	assert_int_equal(count(TRACKED_WAIT), 0);
	assert_int_equal(count(TRACKED_REQUEST), 1);
	assert_string_equal(record_of(TRACKED_REQUEST)->request.name, "nowhere");
	hang_up_dying(&bob);
	hang_up_dying(&third);
	assert_int_equal(receive_message(alice.sock).type, WIRE_DONE);
	part(&alice);
}

/* ---- in slices ---- */

static void create_many(struct peer *peer)
{
	char name[16];

	for (int i = 0; i < MANY; i++) {
		struct wire_message message;

		snprintf(name, sizeof name, "many/%d", i);
		message = named(WIRE_CREATE, 1, name);
		message.create.size = 256;
		assert_int_equal(answer_to(peer, &message).type, WIRE_DONE);
	}
}

static void unlink_many(struct peer *peer, int from, int step)
{
	char name[16];

	for (int i = from; i < MANY; i += step) {
		snprintf(name, sizeof name, "many/%d", i);
		expect_done(peer, WIRE_UNLINK, name);
	}
}

/* Others' objects are looked at in passes between which everybody else is served. */
static void invariant_5_a_view_takes_its_share_of_a_pass(void **state)
{
	struct peer alice = join_as(ALICE), bob = join_as(BOB);
	unsigned passes = 0;

	(void)state;
	create_many(&bob);
	ask_for_view(&alice, 7);
	for (; !view_came(&alice); passes++)
		run_pass();
	assert_in_range(passes, MANY / 512, MANY);
	assert_int_equal(count(TRACKED_BUFFER), 0);
	ask_for_view(&bob, 7);
	for (passes = 0; !view_came(&bob); passes++) {
		run_pass();
		assert_true(image.parts <= 80 * (passes + 1));
	}
	assert_int_equal(count(TRACKED_BUFFER), MANY);
	unlink_many(&bob, 0, 1);
	part(&alice);
	part(&bob);
}

/*
 * No message waits in the broker: the rest comes when the client reads on. What the broker remembers meanwhile is
 * charged.
 */
static void invariant_5_who_does_not_read_its_view_is_charged_for_it(void **state)
{
	struct peer alice = join_as(ALICE), bob = join_as(BOB);
	const struct session *session = session_of(&bob);

	(void)state;
	create_many(&bob);
	ask_for_view(&bob, 7);
	for (int i = 0; i < 300; i++)
		run_pass();
	assert_non_null(session->task);
	assert_int_equal(session->state, SESSION_OPEN);
	assert_int_equal(session->outbox.count, 0);
	assert_in_range(used(BOB, RESOURCE_QUEUED), broker.tracking->slots / 8, 1024 + broker.tracking->slots / 8);
	expect_served(&alice);
	EXPECT_SOON(view_came(&bob));
	assert_int_equal(used(BOB, RESOURCE_QUEUED), 0);
	assert_int_equal(count(TRACKED_BUFFER), MANY);
	assert_null(session->task);
	unlink_many(&bob, 0, 1);
	part(&alice);
	part(&bob);
}

static void invariant_5_a_view_over_the_quota_is_refused(void **state)
{
	struct peer bob = join_as(BOB);
	struct wire_message question;
	struct quotas quotas = { 0 };

	(void)state;
	quota_init(&quotas.fallback);
	quotas.fallback.limit[RESOURCE_QUEUED] = 10;
	broker_configure(&broker, &quotas, &broker.config->creators);
	wire_init(&question, WIRE_SNAPSHOT, 7);
	expect_refused(&bob, &question, -EDQUOT);
	assert_int_equal(used(BOB, RESOURCE_QUEUED), 0);
	expect_served(&bob);
	part(&bob);
}

static void test_objects_may_go_in_the_middle(void **state)
{
	struct peer alice = join_as(ALICE), bob = join_as(BOB), other = join_as(BOB);

	(void)state;
	create_many(&bob);
	ask_for_view(&bob, 7);
	run_pass();
	unlink_many(&other, 0, 2);
	part(&other);
	EXPECT_SOON(view_came(&bob));
	assert_true(count(TRACKED_BUFFER) >= MANY / 2 && count(TRACKED_BUFFER) < MANY);
	unlink_many(&bob, 1, 2);
	part(&alice);
	part(&bob);
}

/* ---- one at a time, and to its end or not ---- */

static void test_a_second_view_beside_the_first_is_refused(void **state)
{
	struct wire_message packet[2];
	struct wire_message answers[PACKET / WIRE_SIZE];
	struct peer alice = join_as(ALICE);
	ssize_t length = -1;

	(void)state;
	wire_init(&packet[0], WIRE_SNAPSHOT, 7);
	wire_init(&packet[1], WIRE_SNAPSHOT, 8);
	memset(&image, 0, sizeof image);
	image.request = 7;
	assert_int_equal(send(alice.sock, packet, sizeof packet, 0), sizeof packet);
	EXPECT_SOON((length = recv(alice.sock, answers, sizeof answers, MSG_DONTWAIT)) > 0);
	assert_int_equal(answers[0].type, WIRE_REFUSED);
	assert_int_equal(answers[0].request, 8);
	assert_int_equal(answers[0].refused.error, -EBUSY);
	for (unsigned i = 1; i < length / WIRE_SIZE; i++)
		take(&answers[i]);
	EXPECT_SOON(view_came(&alice));
	expect_served(&alice);
	part(&alice);
}

static void test_the_answers_behind_it_wait(void **state)
{
	struct wire_message stat = named(WIRE_STAT, 9, "nowhere"), answer;
	struct peer bob = join_as(BOB);

	(void)state;
	create_many(&bob);
	ask_for_view(&bob, 7);
	say(bob.sock, &stat);
	while (!image.whole) {
		struct wire_message packet[PACKET / WIRE_SIZE];
		ssize_t length = recv(bob.sock, packet, sizeof packet, MSG_DONTWAIT);

		if (length <= 0)
			run_pass();
		for (unsigned i = 0; length > 0 && i < length / WIRE_SIZE; i++)
			take(&packet[i]);
	}
	answer = receive_message(bob.sock);
	assert_int_equal(answer.request, 9);
	unlink_many(&bob, 0, 1);
	part(&bob);
}

static void test_a_hang_up_or_death_in_the_middle_leaves_nothing(void **state)
{
	struct peer owner = join_as(BOB), bob = join_as(BOB), dying = join_as(BOB), cut = join_as(BOB);

	(void)state;
	create_many(&owner);
	ask_for_view(&bob, 7);
	run_pass();
	part(&bob);
	ask_for_view(&dying, 7);
	run_pass();
	hang_up_dying(&dying);
	ask_for_view(&cut, 7);
	run_pass();
	assert_non_null(session_of(&cut)->task);
	session_disconnect(session_of(&cut), "the test wants it");
	EXPECT_SOON(!session_of(&cut)->task);
	part(&cut);
	expect_served(&owner);
	unlink_many(&owner, 0, 1);
	part(&owner);
}

static void test_who_leaves_gets_no_view(void **state)
{
	struct wire_message packet[2], answers[PACKET / WIRE_SIZE];
	struct peer bob = join_as(BOB);

	(void)state;
	wire_init(&packet[0], WIRE_SNAPSHOT, 7);
	wire_init(&packet[1], WIRE_LEAVE, 8);
	assert_int_equal(send(bob.sock, packet, sizeof packet, 0), sizeof packet);
	EXPECT_SOON(recv(bob.sock, answers, sizeof answers, MSG_DONTWAIT) == WIRE_SIZE);
	assert_int_equal(answers[0].type, WIRE_LEFT);
	assert_null(session_of(&bob)->task);
	part(&bob);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		ON(test_a_user_is_shown_its_own_and_what_it_uses),
		ON(test_a_ticket_shows_no_name),
		ON(test_what_another_user_holds_comes_once),
		ON(test_counters_tell_of_others_and_are_left_out),
		ON(test_all_see_the_owner_of_the_memory),
		ON(test_a_change_of_the_owner_is_one_of_the_view),
		ON(test_timelines_are_shown_with_their_buffers),
		ON(test_waits_are_shown_to_who_waits_and_whose_buffer_it_is),
		ON(invariant_5_a_view_takes_its_share_of_a_pass),
		ON(invariant_5_who_does_not_read_its_view_is_charged_for_it),
		ON(invariant_5_a_view_over_the_quota_is_refused),
		ON(test_objects_may_go_in_the_middle),
		ON(test_a_second_view_beside_the_first_is_refused),
		ON(test_the_answers_behind_it_wait),
		ON(test_a_hang_up_or_death_in_the_middle_leaves_nothing),
		ON(test_who_leaves_gets_no_view),
	};

	harness_buffers = 2 * MANY;
	return cmocka_run_group_tests(tests, harness_group_setup, harness_group_teardown);
}
