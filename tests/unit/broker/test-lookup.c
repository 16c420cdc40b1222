/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test-lookup.c - LIST: which buffers a user is shown, by which names, and that a long list takes many passes.
 *
 * session-harness.h makes the broker and its clients.
 */
#include "session-harness.h"

#include <string.h>
#include <sys/socket.h>

#include "broker/registry/registry.h"
#include "broker/session/session.h"

#define OWNER    3001u
#define STRANGER 3002u
#define MANY     200u

static struct wire_listed listed[256];
static unsigned listed_count;

static void take_part(const struct wire_part *part)
{
	assert_true(part->offset + part->length <= sizeof listed);
	memcpy((char *)listed + part->offset, part->bytes, part->length);
}

/* Reads the answer; returns in how many passes it came. */
static unsigned read_list(const struct peer *peer)
{
	static struct socket_packet packet;
	unsigned passes = 0;
	bool done = false;

	memset(listed, 0, sizeof listed);
	for (; !done && passes < PATIENCE_MS; passes++) {
		run_pass();
		while (!socket_receive_packet(peer->sock, &packet, true, MSG_DONTWAIT))
			for (unsigned i = 0; i < packet.count; i++) {
				const struct wire_message *message = &packet.message[i];

				if (message->type == WIRE_PART)
					take_part(&message->part);
				else
					assert_int_equal(message->type, WIRE_VIEW);
				if (message->type == WIRE_VIEW)
					listed_count = (unsigned)(message->view.size / sizeof *listed);
				done = message->type == WIRE_VIEW;
			}
	}
	assert_true(done);
	return passes;
}

static unsigned list(const struct peer *peer, const char *prefix)
{
	struct wire_message message = named(WIRE_LIST, 1, prefix);

	say(peer->sock, &message);
	return read_list(peer);
}

static bool has(const char *name)
{
	for (unsigned i = 0; i < listed_count; i++)
		if (!strcmp(listed[i].name, name))
			return true;
	return false;
}

static void test_a_user_sees_what_it_owns_or_may_acquire(void **state)
{
	struct peer owner = join_as(OWNER), stranger = join_as(STRANGER), admin = join();

	(void)state;
	create_with_mode(&owner, "own", 0);
	create_with_mode(&owner, "readable", 0604);
	create_with_mode(&owner, "writable", 0602);
	create_with_mode(&owner, "private", 0660);
	list(&owner, "");
	assert_int_equal(listed_count, 4);
	list(&stranger, "");
	assert_int_equal(listed_count, 2);
	assert_true(has("readable") && has("writable"));
	list(&admin, "");
	assert_int_equal(listed_count, 4);
	part(&owner);
	part(&stranger);
	part(&admin);
}

static void test_names_begin_with_the_prefix(void **state)
{
	struct peer peer = join();

	(void)state;
	create_with_mode(&peer, "model/a", 0600);
	create_with_mode(&peer, "model/b", 0600);
	create_with_mode(&peer, "models", 0600);
	list(&peer, "model/");
	assert_int_equal(listed_count, 2);
	assert_true(has("model/a") && has("model/b"));
	list(&peer, "model/a");
	assert_int_equal(listed_count, 1);
	assert_int_equal(listed[0].info.size, SIZE);
	assert_int_equal(listed[0].info.mode, 0600);
	assert_int_equal(listed[0].info.generation, registry_find(broker.registry, "model/a")->serial);
	list(&peer, "nothing");
	assert_int_equal(listed_count, 0);
	part(&peer);
}

static void test_what_is_unlinked_is_not_listed(void **state)
{
	struct peer peer = join();
	struct wire_grant grant;

	(void)state;
	create_with_mode(&peer, "held", 0600);
	grant = acquire(&peer, "held");
	expect_done(&peer, WIRE_UNLINK, "held");
	list(&peer, "");
	assert_int_equal(listed_count, 0);
	send_closed(peer.sock, grant.mapping);
	run_passes();
	part(&peer);
}

/* Others are served between the steps of a long list. */
static void invariant_5_a_long_list_takes_several_passes(void **state)
{
	struct peer peer = join_as(OWNER);
	char name[NAME_SIZE];

	(void)state;
	for (unsigned i = 0; i < MANY; i++) {
		snprintf(name, sizeof name, "many/%u", i);
		create_with_mode(&peer, name, 0600);
	}
	assert_true(list(&peer, "many/") > 1);
	assert_int_equal(listed_count, MANY);
	list(&peer, "many/1");
	assert_int_equal(listed_count, 1 + 10 + 100);
	part(&peer);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		ON(test_a_user_sees_what_it_owns_or_may_acquire),
		ON(test_names_begin_with_the_prefix),
		ON(test_what_is_unlinked_is_not_listed),
		ON(invariant_5_a_long_list_takes_several_passes),
	};

	harness_buffers = 256;
	return cmocka_run_group_tests_name("lookup", tests, harness_group_setup, harness_group_teardown);
}
