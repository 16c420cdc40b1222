/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test-manage-drain.c - draining and evicting: who may, and an answer when it is true and not before.
 *
 * session-harness.h is the world; its peers take other users' names.
 */
#include "session-harness.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "broker/registry/mappings.h"

#define OWNER 4001
#define HEIR  4002

/* ---- drain ---- */

static void say_drain(struct peer *peer, int timeout_ms)
{
	struct wire_message message = named(WIRE_DRAIN, 88, "a");

	message.drain.timeout_ms = timeout_ms;
	say(peer->sock, &message);
}

static void expect_silence(struct peer *peer)
{
	struct wire_message message;

	run_passes();
	assert_int_equal(received_already(peer->sock, &message), 0);
}

/* "a" is there, and held by another session of the same user. */
static struct wire_grant hold(struct peer *owner, struct peer *holder)
{
	create_with_mode(owner, "a", 0600);
	return acquire(holder, "a");
}

static void test_a_drain_is_answered_when_all_is_freed(void **state)
{
	struct peer owner = join(), holder = join();
	struct wire_grant grant = hold(&owner, &holder);
	struct wire_message message;

	(void)state;
	say_drain(&owner, -1);
	message = receive_message(holder.sock);
	assert_int_equal(message.type, WIRE_NOTICE);
	expect_silence(&owner);
	assert_int_equal(broker.waiting->count, 1);
	assert_int_equal(broker.counters.buffers_unlinked, 1);
	assert_int_equal(ask(&holder, WIRE_STAT, "a").refused.error, -ENOENT);
	/* the name may have a new buffer, whose end is none of the drain's */
	create_with_mode(&holder, "a", 0600);
	expect_done(&holder, WIRE_UNLINK, "a");
	EXPECT_SOON(broker.counters.allocations_freed == 1);
	expect_silence(&owner);
	send_closed(holder.sock, grant.mapping);
	message = receive_message(owner.sock);
	assert_int_equal(message.type, WIRE_DONE);
	assert_int_equal(message.request, 88);
	assert_int_equal(broker.counters.allocations_freed, 2);
	assert_int_equal(broker.waiting->count, 0);
	part(&owner);
	part(&holder);
}

static void test_a_drain_of_what_nobody_holds(void **state)
{
	struct peer owner = join();

	(void)state;
	expect_done(&owner, WIRE_CREATE, "a");
	say_drain(&owner, 0x7fffffff);
	assert_int_equal(receive_message(owner.sock).type, WIRE_DONE);
	assert_int_equal(broker.counters.allocations_freed, 1);
	assert_int_equal(broker.waiting->count, 0);
	say_drain(&owner, -1);
	assert_int_equal(receive_message(owner.sock).refused.error, -ENOENT);
	part(&owner);
}

/* Not waited for: the message says how to see who still holds what had the name. */
static void test_a_drain_of_a_name_that_is_gone_says_so(void **state)
{
	struct peer owner = join(), holder = join();
	struct wire_grant grant = hold(&owner, &holder);
	struct wire_message message;

	(void)state;
	expect_done(&owner, WIRE_UNLINK, "a");
	say_drain(&owner, -1);
	message = receive_message(owner.sock);
	assert_int_equal(message.refused.error, -ENOENT);
	assert_non_null(strstr(message.refused.text, "broker-ctl stat says who"));
	send_closed(holder.sock, grant.mapping);
	EXPECT_SOON(broker.counters.allocations_freed == 1);
	expect_silence(&owner);
	part(&owner);
	part(&holder);
}

/* The name is gone all the same, and the memory goes when it can; nobody is told twice. */
static void test_a_drain_may_come_too_late(void **state)
{
	struct peer owner = join(), holder = join();
	struct wire_grant grant = hold(&owner, &holder);
	struct wire_message message;

	(void)state;
	say_drain(&owner, 20);
	message = receive_message(owner.sock);
	assert_int_equal(message.type, WIRE_REFUSED);
	assert_int_equal(message.request, 88);
	assert_int_equal(message.refused.error, -ETIMEDOUT);
	assert_non_null(strstr(message.refused.text, "'a'"));
	assert_int_equal(broker.waiting->count, 0);
	assert_int_equal(broker.counters.refused_timeout, 1);
	assert_null(registry_find(broker.registry, "a"));
	assert_int_equal(broker.counters.allocations_freed, 0);
	send_closed(holder.sock, grant.mapping);
	EXPECT_SOON(broker.counters.allocations_freed == 1);
	expect_silence(&owner);
	part(&owner);
	part(&holder);
}

static void test_only_its_owner_or_root_drains(void **state)
{
	struct peer owner = join_as(OWNER), other = join_as(HEIR), root = join_as(0);

	(void)state;
	create_with_mode(&owner, "a", 0666);
	say_drain(&other, -1);
	assert_int_equal(receive_message(other.sock).refused.error, -EACCES);
	assert_non_null(registry_find(broker.registry, "a"));
	assert_int_equal(broker.waiting->count, 0);
	say_drain(&root, -1);
	assert_int_equal(receive_message(root.sock).type, WIRE_DONE);
	part(&owner);
	part(&other);
	part(&root);
}

/* The drain goes on without the session that asked for it, and leaves nothing behind. */
static void test_who_drains_may_be_gone_before_the_end(void **state)
{
	struct peer owner = join(), holder = join();
	struct wire_grant grant = hold(&owner, &holder);

	(void)state;
	say_drain(&owner, -1);
	EXPECT_SOON(broker.waiting->count == 1);
	part(&owner);
	EXPECT_SOON(broker.counters.sessions_left == 1);
	assert_null(registry_find(broker.registry, "a"));
	send_closed(holder.sock, grant.mapping);
	EXPECT_SOON(broker.counters.allocations_freed == 1);
	assert_int_equal(broker.waiting->count, 0);
	part(&holder);
}

static void test_who_drains_may_be_gone_before_its_time_is_over(void **state)
{
	struct peer owner = join(), holder = join();
	struct wire_grant grant = hold(&owner, &holder);

	(void)state;
	say_drain(&owner, 100);
	EXPECT_SOON(broker.waiting->count == 1);
	part(&owner);
	EXPECT_SOON(broker.counters.sessions_left == 1);
	EXPECT_SOON(broker.waiting->count == 0);
	assert_int_equal(broker.counters.allocations_freed, 0);
	assert_int_equal(broker.counters.refused_timeout, 0);
	send_closed(holder.sock, grant.mapping);
	part(&holder);
}

/* Its own mapping is one of those that it waits for; its death ends both. */
static void invariant_10_who_drains_what_it_holds_may_die(void **state)
{
	struct peer owner = join(), other = join();
	struct wire_grant grant = hold(&owner, &owner);

	(void)state;
	(void)grant;
	say_drain(&owner, -1);
	EXPECT_SOON(broker.waiting->count == 1);
	hang_up_dying(&owner);
	EXPECT_SOON(broker.counters.allocations_freed == 1);
	assert_int_equal(broker.counters.mappings_died, 1);
	assert_int_equal(broker.waiting->count, 0);
	expect_served(&other);
	part(&other);
}

static void test_a_stopping_broker_answers_drains(void **state)
{
	struct peer owner = join(), holder = join();
	struct wire_grant grant = hold(&owner, &holder);

	(void)state;
	say_drain(&owner, -1);
	EXPECT_SOON(broker.waiting->count == 1);
	broker_stop(&broker, NULL, NULL);
	expect_silence(&owner);
	send_closed(holder.sock, grant.mapping);
	assert_int_equal(receive_message(owner.sock).type, WIRE_DONE);
	part(&owner);
	part(&holder);
}

static void test_a_broker_may_end_while_one_drains(void **state)
{
	struct peer owner = join(), holder = join();

	(void)state;
	hold(&owner, &holder);
	say_drain(&owner, 60000);
	EXPECT_SOON(broker.waiting->count == 1);
	broker_end_now();
	assert_int_equal(broker.waiting->count, 0);
	part(&owner);
	part(&holder);
}

/* ---- evict ---- */

static struct wire_message evict(uint64_t session)
{
	struct wire_message message;

	wire_init(&message, WIRE_EVICT, 77);
	message.evict.session = session;
	return message;
}

/* The pid of the process that a descriptor stands for. */
static int pid_of(int pidfd)
{
	char path[40], line[128];
	FILE *info;
	int pid = 0;

	snprintf(path, sizeof path, "/proc/self/fdinfo/%d", pidfd);
	info = fopen(path, "r");
	assert_non_null(info);
	while (fgets(line, sizeof line, info) && sscanf(line, "Pid: %d", &pid) != 1)
		;
	fclose(info);
	return pid;
}

/* It is done, and the answer has a pidfd of the process. */
static void expect_evicted(struct peer *peer, uint64_t session, pid_t pid)
{
	struct wire_message message = evict(session);
	struct socket_extra extra;

	say(peer->sock, &message);
	assert_int_equal(receive_with(peer->sock, &message, &extra), 0);
	assert_int_equal(message.type, WIRE_DONE);
	assert_int_equal(message.request, 77);
	assert_true(extra.fd >= 0);
	assert_int_equal(pid_of(extra.fd), pid);
	close(extra.fd);
}

static void acquire_and_live(int sock)
{
	struct peer peer = join();

	(void)sock;
	acquire(&peer, "a");
	tell();
	linger();
}

static uint64_t session_of_pid(pid_t pid)
{
	const struct session *session;

	for (session = broker.sessions->by_id; session; session = session->hh.next)
		if (session->pid == pid)
			return session->id;
	return 0;
}

static void invariant_9_what_an_evicted_session_maps_is_kept_until_it_died(void **state)
{
	struct peer owner = join();
	struct child child;
	uint64_t victim;

	(void)state;
	expect_done(&owner, WIRE_CREATE, "a");
	child = child_start(acquire_and_live, -1);
	EXPECT_SOON(told(&child));
	victim = session_of_pid(child.pid);
	expect_done(&owner, WIRE_UNLINK, "a");
	expect_evicted(&owner, victim, child.pid);
	assert_int_equal(broker.counters.sessions_cut, 1);
	/* already cut: it can still be had in hand, and nothing is counted twice */
	expect_evicted(&owner, victim, child.pid);
	run_passes();
	expect_evicted(&owner, victim, child.pid);
	assert_int_equal(broker.counters.sessions_cut, 1);
	assert_int_equal(broker.counters.allocations_freed, 0);
	child_kill(&child);
	child_forget(&child);
	EXPECT_SOON(broker.counters.allocations_freed == 1);
	assert_int_equal(broker.counters.mappings_died, 1);
	part(&owner);
}

static void test_an_evicted_session_receives_and_waits_no_more(void **state)
{
	struct peer peer = join(), victim = join();
	struct wire_message waiting = named(WIRE_ACQUIRE, 1, "later");

	(void)state;
	waiting.acquire.timeout_ms = -1;
	say(victim.sock, &waiting);
	EXPECT_SOON(broker.waiting->count == 1);
	expect_evicted(&peer, victim.session, getpid());
	expect_end(victim.sock);
	EXPECT_SOON(broker.waiting->count == 0);
	expect_served(&peer);
	part(&victim);
	EXPECT_SOON(!session_find(&broker, victim.session));
	part(&peer);
}

static void test_a_session_that_drains_is_evicted(void **state)
{
	struct peer peer = join(), victim = join(), holder = join();
	struct wire_grant grant = hold(&victim, &holder);

	(void)state;
	say_drain(&victim, -1);
	EXPECT_SOON(broker.waiting->count == 1);
	expect_evicted(&peer, victim.session, getpid());
	send_closed(holder.sock, grant.mapping);
	EXPECT_SOON(broker.counters.allocations_freed == 1);
	assert_int_equal(broker.waiting->count, 0);
	expect_end(victim.sock);
	part(&peer);
	part(&victim);
	part(&holder);
}

static void hang_up_and_live(int sock)
{
	struct peer peer = join();

	(void)sock;
	acquire(&peer, "a");
	close(peer.sock);
	tell();
	linger();
}

/* Its socket is gone, so there is nothing to cut; its process is what its user wants to get at. */
static void test_a_lost_session_is_evicted(void **state)
{
	struct peer owner = join();
	struct child child;
	uint64_t victim;

	(void)state;
	expect_done(&owner, WIRE_CREATE, "a");
	child = child_start(hang_up_and_live, -1);
	EXPECT_SOON(told(&child));
	victim = session_of_pid(child.pid);
	EXPECT_SOON(session_find(&broker, victim)->hung_up);
	expect_evicted(&owner, victim, child.pid);
	assert_int_equal(broker.counters.sessions_cut, 0);
	child_kill(&child);
	child_forget(&child);
	EXPECT_SOON(!session_find(&broker, victim));
	part(&owner);
}

static void test_who_is_not_there_is_not_evicted(void **state)
{
	struct peer peer = join();
	struct wire_message message = evict(UINT64_MAX);
	int stranger = dial();

	(void)state;
	expect_refused(&peer, &message, -ENOENT);
	message = evict(peer.session);
	expect_refused(&peer, &message, -EINVAL);
	/* it has not greeted: it is not a session yet */
	EXPECT_SOON(greeting() == 1);
	message = evict(broker.sessions->next_id);
	assert_non_null(session_find(&broker, broker.sessions->next_id));
	expect_refused(&peer, &message, -ENOENT);
	assert_int_equal(broker.counters.sessions_cut, 0);
	close(stranger);
	part(&peer);
}

static void test_only_its_user_or_root_evicts(void **state)
{
	struct peer victim = join_as(OWNER), other = join_as(HEIR), same = join_as(OWNER), root = join_as(0);
	struct wire_message message = evict(victim.session);

	(void)state;
	expect_refused(&other, &message, -EACCES);
	assert_int_equal(session_of(&victim)->state, SESSION_OPEN);
	expect_served(&victim);
	expect_evicted(&same, victim.session, getpid());
	expect_evicted(&root, other.session, getpid());
	assert_int_equal(broker.counters.sessions_cut, 2);
	part(&victim);
	part(&other);
	part(&same);
	part(&root);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		ON(test_a_drain_is_answered_when_all_is_freed),
		ON(test_a_drain_of_what_nobody_holds),
		ON(test_a_drain_of_a_name_that_is_gone_says_so),
		ON(test_a_drain_may_come_too_late),
		ON(test_only_its_owner_or_root_drains),
		ON(test_who_drains_may_be_gone_before_the_end),
		ON(test_who_drains_may_be_gone_before_its_time_is_over),
		ON(invariant_10_who_drains_what_it_holds_may_die),
		ON(test_a_stopping_broker_answers_drains),
		ON(test_a_broker_may_end_while_one_drains),
		ON(invariant_9_what_an_evicted_session_maps_is_kept_until_it_died),
		ON(test_an_evicted_session_receives_and_waits_no_more),
		ON(test_a_session_that_drains_is_evicted),
		ON(test_a_lost_session_is_evicted),
		ON(test_who_is_not_there_is_not_evicted),
		ON(test_only_its_user_or_root_evicts),
	};

	return cmocka_run_group_tests_name("drains and evictions", tests, harness_group_setup, harness_group_teardown);
}
