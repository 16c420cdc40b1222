/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test-delegation.c - tickets at the broker: who may issue which, what each is refused for and as what it
 * counts, and that one which is good once is spent by what it bought and by nothing else.
 *
 * session-harness.h is the world; its peers take other users' names. The text form is test-ticket.c's.
 */
#include "session-harness.h"

#include <errno.h>
#include <poll.h>
#include <sodium.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "common/error.h"

#define OWNER 4001
#define GUEST 4002
#define ONCE  1

static struct wire_message order(const char *name, unsigned rights, unsigned once)
{
	struct wire_message message = named(WIRE_ISSUE, 66, name);

	message.issue.rights = rights;
	message.issue.uid = TICKET_ANY_USER;
	message.issue.once = once;
	return message;
}

static struct ticket issue_as(struct peer *peer, const struct wire_message *message)
{
	struct wire_message answer = answer_to(peer, message);

	assert_int_equal(answer.type, WIRE_TICKET);
	return answer.ticket;
}

static struct ticket issue(struct peer *peer, const char *name, unsigned once)
{
	struct wire_message message = order(name, GPUB_READ, once);

	return issue_as(peer, &message);
}

static struct wire_message redeeming(const struct ticket *ticket)
{
	struct wire_message message;

	wire_init(&message, WIRE_REDEEM, 55);
	message.redeem.ticket = *ticket;
	return message;
}

static struct wire_grant redeem(struct peer *peer, const struct ticket *ticket)
{
	struct wire_message message = redeeming(ticket);

	message = answer_to(peer, &message);
	assert_int_equal(message.type, WIRE_GRANT);
	return message.grant;
}

/* Refused for that reason, counted once under it, and under the one head that tickets have. */
static void expect_no_good(struct peer *peer, const struct ticket *ticket, int error, const uint64_t *counter)
{
	struct wire_message message = redeeming(ticket);
	uint64_t before = *counter, all = broker.counters.refused_ticket, redeemed = broker.counters.tickets_redeemed;

	expect_refused(peer, &message, error);
	assert_int_equal(*counter, before + 1);
	assert_int_equal(broker.counters.refused_ticket, all + 1);
	assert_int_equal(broker.counters.tickets_redeemed, redeemed);
}

#define NO_GOOD(peer, ticket, error, reason) expect_no_good(peer, ticket, error, &broker.counters.tickets_##reason)

static void wait_past(uint64_t boottime_ms)
{
	struct timespec now;

	do {
		poll(NULL, 0, 1);
		clock_gettime(CLOCK_BOOTTIME, &now);
	} while ((uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000 < boottime_ms);
}

/* Another user's: what it had mapped is waited for until it died. */
static void guest_leaves(struct peer *guest)
{
	hang_up_dying(guest);
	EXPECT_SOON(!session_find(&broker, guest->session));
}

/* ---- what they are for ---- */

static void test_a_ticket_opens_what_the_mode_does_not(void **state)
{
	struct peer owner = join_as(OWNER), guest = join_as(GUEST);
	struct wire_message acquiring = named(WIRE_ACQUIRE, 1, "a"), writing = order("a", GPUB_WRITE, 0);
	struct ticket ticket;
	struct wire_grant grant;

	(void)state;
	create_with_mode(&owner, "a", 0600);
	expect_refused(&guest, &acquiring, -EACCES);
	ticket = issue(&owner, "a", 0);
	grant = redeem(&guest, &ticket);
	assert_int_equal(grant.rights, GPUB_READ);
	assert_int_equal(grant.serial, ticket.serial);
	ticket = issue_as(&owner, &writing);
	assert_int_equal(redeem(&guest, &ticket).rights, GPUB_WRITE);
	/* as often as one likes, and still not by name */
	assert_int_equal(redeem(&guest, &ticket).rights, GPUB_WRITE);
	expect_refused(&guest, &acquiring, -EACCES);
	assert_int_equal(broker.counters.tickets_issued, 2);
	assert_int_equal(broker.counters.tickets_redeemed, 3);
	assert_int_equal(used(GUEST, RESOURCE_GRANTS), 3);
	part(&owner);
	guest_leaves(&guest);
}

static void invariant_2_a_redeemers_closed_is_another_users(void **state)
{
	struct peer owner = join_as(OWNER), guest = join_as(GUEST);
	struct ticket ticket;
	struct wire_grant grant;

	(void)state;
	create_with_mode(&owner, "a", 0600);
	ticket = issue(&owner, "a", ONCE);
	grant = redeem(&guest, &ticket);
	send_closed(guest.sock, grant.mapping);
	EXPECT_SOON(broker.counters.mappings_held == 1);
	expect_done(&owner, WIRE_UNLINK, "a");
	run_passes();
	assert_int_equal(broker.counters.allocations_freed, 0);
	guest_leaves(&guest);
	EXPECT_SOON(broker.counters.allocations_freed == 1);
	part(&owner);
}

/* ---- issuing ---- */

static void test_only_its_owner_or_root_issues(void **state)
{
	struct peer owner = join_as(OWNER), other = join_as(GUEST), root = join_as(0);
	struct wire_message message = order("a", GPUB_READ, 0);

	(void)state;
	create_with_mode(&owner, "a", 0666);
	expect_refused(&other, &message, -EACCES);
	assert_int_equal(broker.counters.tickets_issued, 0);
	issue(&owner, "a", 0);
	issue(&root, "a", ONCE);
	/* it is the owner who pays for it */
	assert_int_equal(used(OWNER, RESOURCE_TICKETS), 1);
	assert_int_equal(used(0, RESOURCE_TICKETS), 0);
	part(&owner);
	part(&other);
	part(&root);
}

static void test_an_order_makes_sense_or_is_refused(void **state)
{
	struct peer owner = join_as(OWNER);
	struct wire_message message = order("a", 0, 0);

	(void)state;
	expect_done(&owner, WIRE_CREATE, "a");
	expect_refused(&owner, &message, -EINVAL);
	message = order("a", 4, 0);
	expect_refused(&owner, &message, -EINVAL);
	message = order("a", GPUB_READ | 1u << 31, 0);
	expect_refused(&owner, &message, -EINVAL);
	message = order("a", GPUB_READ | 0x100, 0);
	expect_refused(&owner, &message, -EINVAL);
	message = order("a", GPUB_READ, 2);
	expect_refused(&owner, &message, -EINVAL);
	message = order("a", GPUB_READ, 0x100);
	expect_refused(&owner, &message, -EINVAL);
	message = order("a", GPUB_READ, 0);
	message.issue.lifetime_ms = UINT64_MAX;
	expect_refused(&owner, &message, -EINVAL);
	message = order("b", GPUB_READ, 0);
	expect_refused(&owner, &message, -ENOENT);
	message = order("/no name", GPUB_READ, 0);
	expect_refused(&owner, &message, -EINVAL);
	assert_int_equal(broker.counters.tickets_issued, 0);
	assert_int_equal(used(OWNER, RESOURCE_TICKETS), 0);
	part(&owner);
}

/* Of a name that is being made, or was taken away, none. */
static void test_none_for_what_is_not_live(void **state)
{
	struct peer owner = join();
	struct wire_message create = named(WIRE_CREATE, 1, "a"), message = order("a", GPUB_READ, 0);
	struct wire_issue wanted = message.issue;
	struct session *session = session_of(&owner);
	struct ticket ticket, before;

	(void)state;
	say(owner.sock, &create);
	while (!registry_find(broker.registry, "a"))
		broker_pass(&broker, false);
	if (registry_find(broker.registry, "a")->state == BUFFER_CREATING) {
		memset(&ticket, 0x5a, sizeof ticket);
		before = ticket;
		assert_int_equal(delegation_issue(session, &wanted, &ticket), -ENOENT);
		assert_memory_equal(&ticket, &before, sizeof ticket);
	}
	assert_int_equal(receive_message(owner.sock).type, WIRE_DONE);
	acquire(&owner, "a");
	expect_done(&owner, WIRE_UNLINK, "a");
	expect_refused(&owner, &message, -ENOENT);
	hang_up_dying(&owner);
}

static void test_one_time_tickets_have_a_quota(void **state)
{
	struct peer owner = join_as(OWNER), guest = join_as(GUEST);
	struct wire_message message = order("a", GPUB_READ, ONCE);
	struct ticket ticket;

	(void)state;
	broker.accounting->quotas.fallback.limit[RESOURCE_TICKETS] = 2;
	expect_done(&owner, WIRE_CREATE, "a");
	ticket = issue(&owner, "a", ONCE);
	issue(&owner, "a", ONCE);
	expect_refused(&owner, &message, -EDQUOT);
	assert_int_equal(broker.counters.tickets_issued, 2);
	/* others cost nothing, for they are kept nowhere */
	issue(&owner, "a", 0);
	redeem(&guest, &ticket);
	assert_int_equal(used(OWNER, RESOURCE_TICKETS), 1);
	issue(&owner, "a", ONCE);
	expect_refused(&owner, &message, -EDQUOT);
	/* all go with their buffer */
	guest_leaves(&guest);
	expect_done(&owner, WIRE_UNLINK, "a");
	EXPECT_SOON(broker.counters.allocations_freed == 1);
	assert_int_equal(used(OWNER, RESOURCE_TICKETS), 0);
	part(&owner);
}

static struct ticket issue_for(struct peer *peer, const char *name, uint64_t lifetime_ms)
{
	struct wire_message message = order(name, GPUB_READ, ONCE);

	message.issue.lifetime_ms = lifetime_ms;
	return issue_as(peer, &message);
}

static void test_expired_one_time_tickets_make_room(void **state)
{
	struct peer owner = join_as(OWNER);
	struct ticket ticket;

	(void)state;
	expect_done(&owner, WIRE_CREATE, "a");
	ticket = issue_for(&owner, "a", 1);
	wait_past(ticket.expires_ms);
	/* they go with the next, so that nothing piles up where there is no quota */
	ticket = issue_for(&owner, "a", 1);
	assert_int_equal(used(OWNER, RESOURCE_TICKETS), 1);
	wait_past(ticket.expires_ms);
	broker.accounting->quotas.fallback.limit[RESOURCE_TICKETS] = 2;
	issue_for(&owner, "a", 1);
	ticket = issue_for(&owner, "a", 1);
	wait_past(ticket.expires_ms);
	issue_for(&owner, "a", 60000);
	issue_for(&owner, "a", 60000);
	assert_int_equal(used(OWNER, RESOURCE_TICKETS), 2);
	expect_done(&owner, WIRE_UNLINK, "a");
	EXPECT_SOON(used(OWNER, RESOURCE_TICKETS) == 0);
	part(&owner);
}

static void test_expired_one_time_tickets_make_room_for_other_buffers(void **state)
{
	struct peer owner = join_as(OWNER);
	struct ticket ticket;

	(void)state;
	broker.accounting->quotas.fallback.limit[RESOURCE_TICKETS] = 1;
	expect_done(&owner, WIRE_CREATE, "a");
	expect_done(&owner, WIRE_CREATE, "b");
	ticket = issue_for(&owner, "a", 1);
	wait_past(ticket.expires_ms);
	issue_for(&owner, "b", 60000);
	part(&owner);
}

/*
 * However many are past, and in whatever order they were issued: each issue drops two at most, and none that is not
 * past.
 */
static void invariant_5_an_issue_drops_two_expired_ones(void **state)
{
	struct peer owner = join_as(OWNER);
	struct ticket ticket;

	(void)state;
	expect_done(&owner, WIRE_CREATE, "a");
	expect_done(&owner, WIRE_CREATE, "b");
	for (unsigned i = 0; i < 8; i++)
		ticket = issue_for(&owner, i % 2 ? "a" : "b", i == 2 ? 60000 : i == 4 ? 0 : 100);
	wait_past(ticket.expires_ms);
	for (unsigned i = 0; i < 4; i++) {
		uint64_t before = used(OWNER, RESOURCE_TICKETS);

		issue_for(&owner, "a", 60000 - i);
		assert_in_range(used(OWNER, RESOURCE_TICKETS), before + 1 - 2, before + 1);
	}
	assert_int_equal(used(OWNER, RESOURCE_TICKETS), 2 + 4);
	part(&owner);
}

/* ---- refusals, each with its reason ---- */

static void test_forged(void **state)
{
	struct peer owner = join_as(OWNER);
	struct ticket ticket, forged;

	(void)state;
	expect_done(&owner, WIRE_CREATE, "a");
	ticket = forged = issue(&owner, "a", 0);
	forged.rights |= GPUB_WRITE;
	NO_GOOD(&owner, &forged, -EKEYREJECTED, forged);
	forged = ticket;
	forged.serial++;
	NO_GOOD(&owner, &forged, -EKEYREJECTED, forged);
	forged = ticket;
	forged.reserved[1] = 1;
	NO_GOOD(&owner, &forged, -EKEYREJECTED, forged);
	memset(&forged.stamp, 0, sizeof forged.stamp);
	NO_GOOD(&owner, &forged, -EKEYREJECTED, forged);
	redeem(&owner, &ticket);
	hang_up_dying(&owner);
}

static uint64_t rejected(void)
{
	return broker.counters.tickets_forged + broker.counters.tickets_foreign;
}

static void invariant_5_bits_flipped_at_random_are_all_refused(void **state)
{
	struct peer owner = join_as(OWNER);
	struct ticket ticket, forged;
	struct wire_message message;

	(void)state;
	expect_done(&owner, WIRE_CREATE, "a");
	ticket = issue(&owner, "a", 0);
	for (int i = 0; i < 100; i++) {
		uint32_t bit = randombytes_uniform(sizeof ticket * 8);

		forged = ticket;
		((uint8_t *)&forged)[bit / 8] ^= (uint8_t)(1u << bit % 8);
		message = redeeming(&forged);
		expect_refused(&owner, &message, -EKEYREJECTED);
	}
	assert_int_equal(rejected(), 100);
	assert_int_equal(broker.counters.refused_ticket, 100);
	assert_int_equal(broker.counters.mappings_opened, 0);
	part(&owner);
}

static void invariant_8_each_bit_of_a_ticket_counts(void **state)
{
	struct peer owner = join_as(OWNER);
	struct buffer *buffer = NULL;
	struct ticket ticket;

	(void)state;
	expect_done(&owner, WIRE_CREATE, "a");
	ticket = issue(&owner, "a", 0);
	for (size_t bit = 0; bit < sizeof ticket * 8; bit++) {
		((uint8_t *)&ticket)[bit / 8] ^= (uint8_t)(1u << bit % 8);
		assert_int_equal(delegation_check(session_of(&owner), &ticket, &buffer), -EKEYREJECTED);
		assert_null(buffer);
		((uint8_t *)&ticket)[bit / 8] ^= (uint8_t)(1u << bit % 8);
	}
	assert_int_equal(rejected(), sizeof ticket * 8);
	assert_int_equal(delegation_check(session_of(&owner), &ticket, &buffer), 0);
	assert_ptr_equal(buffer, registry_find(broker.registry, "a"));
	part(&owner);
}

/* Genuine there: with that broker's key, and its name in it. */
static void invariant_8_another_brokers_ticket_is_refused(void **state)
{
	struct peer owner = join_as(OWNER);
	struct ticket ticket;
	uint8_t key[TICKET_KEY_SIZE] = { 1 };

	(void)state;
	expect_done(&owner, WIRE_CREATE, "a");
	ticket = issue(&owner, "a", 0);
	ticket.instance[0]++;
	ticket_stamp(&ticket, key);
	NO_GOOD(&owner, &ticket, -EKEYREJECTED, foreign);
	/* one that claims to be from here is a forgery */
	ticket.instance[0]--;
	ticket_stamp(&ticket, key);
	NO_GOOD(&owner, &ticket, -EKEYREJECTED, forged);
	part(&owner);
}

static void test_another_users(void **state)
{
	struct peer owner = join_as(OWNER), guest = join_as(GUEST), root = join_as(0);
	struct wire_message message = order("a", GPUB_READ, ONCE);
	struct ticket ticket;

	(void)state;
	expect_done(&owner, WIRE_CREATE, "a");
	message.issue.uid = GUEST;
	ticket = issue_as(&owner, &message);
	NO_GOOD(&owner, &ticket, -EKEYREJECTED, foreign);
	NO_GOOD(&root, &ticket, -EKEYREJECTED, foreign);
	/* a user that it is not for did not spend it */
	redeem(&guest, &ticket);
	part(&owner);
	part(&root);
	guest_leaves(&guest);
}

static void test_expired(void **state)
{
	struct peer owner = join_as(OWNER);
	struct ticket ticket, lasting;

	(void)state;
	expect_done(&owner, WIRE_CREATE, "a");
	lasting = issue_for(&owner, "a", UINT64_MAX / 2);
	assert_true(lasting.expires_ms > UINT64_MAX / 2);
	ticket = issue_for(&owner, "a", 1);
	assert_true(ticket.expires_ms > 0);
	wait_past(ticket.expires_ms);
	NO_GOOD(&owner, &ticket, -EKEYEXPIRED, expired);
	redeem(&owner, &lasting);
	/* it is refused as expired, not as used, whatever became of its note */
	issue(&owner, "a", ONCE);
	NO_GOOD(&owner, &ticket, -EKEYEXPIRED, expired);
	hang_up_dying(&owner);
}

static void invariant_8_a_ticket_ends_with_its_buffers_name(void **state)
{
	struct peer owner = join_as(OWNER);
	struct ticket ticket, once;

	(void)state;
	expect_done(&owner, WIRE_CREATE, "a");
	ticket = issue(&owner, "a", 0);
	once = issue(&owner, "a", ONCE);
	redeem(&owner, &ticket);
	expect_done(&owner, WIRE_UNLINK, "a");
	/* while it drains, and when the name has a new one */
	NO_GOOD(&owner, &ticket, -ESTALE, stale);
	NO_GOOD(&owner, &once, -ESTALE, stale);
	expect_done(&owner, WIRE_CREATE, "a");
	NO_GOOD(&owner, &ticket, -ESTALE, stale);
	NO_GOOD(&owner, &once, -ESTALE, stale);
	hang_up_dying(&owner);
}

/* A previous owner's tickets end with its ownership. */
static void test_with_another_owner_it_is_good_no_more(void **state)
{
	struct peer owner = join_as(OWNER), heir = join_as(GUEST), root = join_as(0);
	struct wire_message giving = named(WIRE_CHANGE, 1, "a");
	struct ticket ticket, once, token_of_old;

	(void)state;
	create_with_mode(&owner, "a", 0600);
	ticket = token_of_old = issue(&owner, "a", 0);
	once = issue(&owner, "a", ONCE);
	assert_int_equal(used(OWNER, RESOURCE_TICKETS), 1);
	giving.change.what = WIRE_CHANGE_OWNER;
	giving.change.owner = GUEST;
	assert_int_equal(answer_to(&root, &giving).type, WIRE_DONE);
	assert_int_equal(used(OWNER, RESOURCE_TICKETS), 0);
	NO_GOOD(&owner, &ticket, -ESTALE, stale);
	NO_GOOD(&heir, &once, -ESTALE, stale);
	/* what is changed beside the owner changes nothing of it */
	ticket = issue(&heir, "a", 0);
	once = issue(&heir, "a", ONCE);
	giving.change.what = WIRE_CHANGE_OWNER | WIRE_CHANGE_MODE;
	giving.change.mode = 0640;
	assert_int_equal(answer_to(&root, &giving).type, WIRE_DONE);
	redeem(&heir, &ticket);
	redeem(&heir, &once);
	/* nor when the buffer comes back to that owner */
	giving.change.what = WIRE_CHANGE_OWNER;
	giving.change.owner = OWNER;
	assert_int_equal(answer_to(&root, &giving).type, WIRE_DONE);
	NO_GOOD(&owner, &token_of_old, -ESTALE, stale);
	part(&owner);
	part(&root);
	hang_up_dying(&heir);
}

static void test_used(void **state)
{
	struct peer owner = join_as(OWNER), guest = join_as(GUEST);
	struct ticket first, second;

	(void)state;
	create_with_mode(&owner, "a", 0600);
	first = issue(&owner, "a", ONCE);
	second = issue(&owner, "a", ONCE);
	assert_memory_not_equal(first.id, second.id, sizeof first.id);
	redeem(&guest, &first);
	NO_GOOD(&guest, &first, -EKEYREJECTED, used);
	NO_GOOD(&owner, &first, -EKEYREJECTED, used);
	redeem(&owner, &second);
	NO_GOOD(&guest, &second, -EKEYREJECTED, used);
	assert_int_equal(used(OWNER, RESOURCE_TICKETS), 0);
	hang_up_dying(&owner);
	guest_leaves(&guest);
}

/* ---- what does not spend it ---- */

static void test_a_refused_grant_does_not_spend_it(void **state)
{
	struct peer owner = join_as(OWNER), guest = join_as(GUEST);
	struct ticket ticket;
	struct wire_message message;

	(void)state;
	create_with_mode(&owner, "a", 0600);
	ticket = issue(&owner, "a", ONCE);
	message = redeeming(&ticket);
	broker.accounting->quotas.fallback.limit[RESOURCE_GRANTS] = 0;
	expect_refused(&guest, &message, -EDQUOT);
	expect_refused(&guest, &message, -EDQUOT);
	message.redeem.device = UINT32_MAX;
	expect_refused(&guest, &message, -ENODEV);
	assert_int_equal(broker.counters.tickets_redeemed, 0);
	assert_int_equal(broker.counters.refused_ticket, 0);
	assert_int_equal(used(OWNER, RESOURCE_TICKETS), 1);
	broker.accounting->quotas.fallback.limit[RESOURCE_GRANTS] = 1;
	redeem(&guest, &ticket);
	assert_int_equal(broker.counters.tickets_redeemed, 1);
	part(&owner);
	guest_leaves(&guest);
}

/* All of the board's tickets are in use: the other kind. */
static void test_a_full_board_does_not_spend_it(void **state)
{
	struct peer owner = join_as(OWNER);
	struct ticket ticket, often;
	struct wire_message message;
	struct wire_grant grant = { 0 };

	(void)state;
	expect_done(&owner, WIRE_CREATE, "a");
	ticket = issue(&owner, "a", ONCE);
	often = issue(&owner, "a", 0);
	message = redeeming(&ticket);
	while (broker.registry->handles.free)
		grant = redeem(&owner, &often);
	expect_refused(&owner, &message, -ENOSPC);
	send_closed(owner.sock, grant.mapping);
	redeem(&owner, &ticket);
	hang_up_dying(&owner);
}

static struct allocation *small_of(struct peer *peer, const char *name)
{
	struct wire_message create = named(WIRE_CREATE, 1, name);

	create.create.size = 100;
	assert_int_equal(answer_to(peer, &create).type, WIRE_DONE);
	return registry_find(broker.registry, name)->allocation;
}

static void unlink_clean(struct peer *peer, const char *name)
{
	uint64_t cleaned = broker.counters.ranges_cleaned;

	expect_done(peer, WIRE_UNLINK, name);
	EXPECT_SOON(broker.counters.ranges_cleaned == cleaned + 1);
}

/* Nobody else gets it: the owner's next small buffer still goes beside it. Where somebody does, it goes elsewhere. */
static void test_a_refused_order_leaves_the_buffer_where_others_are(void **state)
{
	struct peer owner = join_as(OWNER);
	struct wire_message anybodys = order("a", GPUB_READ, ONCE), guests = anybodys;
	const struct allocation *allocation = small_of(&owner, "a");

	(void)state;
	guests.issue.uid = GUEST;
	broker.accounting->quotas.fallback.limit[RESOURCE_TICKETS] = 0;
	expect_refused(&owner, &anybodys, -EDQUOT);
	expect_refused(&owner, &guests, -EDQUOT);
	assert_ptr_equal(small_of(&owner, "b"), allocation);
	unlink_clean(&owner, "b");
	broker.accounting->quotas.fallback.limit[RESOURCE_TICKETS] = 1;
	issue_as(&owner, &guests);
	assert_ptr_not_equal(small_of(&owner, "c"), allocation);
	part(&owner);
}

/* The ticket is from when it was not alone. */
static void invariant_6_redeemed_memory_gets_no_neighbours(void **state)
{
	struct peer owner = join_as(OWNER), guest = join_as(GUEST);
	uint64_t *limit = &broker.accounting->quotas.fallback.limit[RESOURCE_GRANTS], before = *limit;
	const struct allocation *allocation = small_of(&owner, "a");
	struct wire_message message;
	struct ticket ticket;

	(void)state;
	small_of(&owner, "b");
	ticket = issue(&owner, "a", 0);
	message = redeeming(&ticket);
	expect_refused(&guest, &message, -EBUSY);
	unlink_clean(&owner, "b");
	*limit = 0;
	expect_refused(&guest, &message, -EDQUOT);
	/* nobody has it yet */
	assert_ptr_equal(small_of(&owner, "c"), allocation);
	unlink_clean(&owner, "c");
	*limit = before;
	redeem(&guest, &ticket);
	assert_ptr_not_equal(small_of(&owner, "d"), allocation);
	part(&owner);
	guest_leaves(&guest);
}

/* The session that redeemed it is about to die, and the ticket is used all the same. */
static void test_a_redeemer_that_dies_has_spent_it(void **state)
{
	struct peer owner = join_as(OWNER), guest = join_as(GUEST);
	struct ticket ticket;

	(void)state;
	create_with_mode(&owner, "a", 0600);
	ticket = issue(&owner, "a", ONCE);
	redeem(&guest, &ticket);
	guest_leaves(&guest);
	NO_GOOD(&owner, &ticket, -EKEYREJECTED, used);
	part(&owner);
}

static void test_the_broker_ends_with_tickets_out(void **state)
{
	struct peer owner = join_as(OWNER);

	(void)state;
	expect_done(&owner, WIRE_CREATE, "a");
	issue(&owner, "a", ONCE);
	issue(&owner, "a", ONCE);
	broker_end_now();
	assert_null(broker.accounting->accounts);
	part(&owner);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		ON(test_a_ticket_opens_what_the_mode_does_not),
		ON(invariant_2_a_redeemers_closed_is_another_users),
		ON(test_only_its_owner_or_root_issues),
		ON(test_an_order_makes_sense_or_is_refused),
		ON(test_none_for_what_is_not_live),
		ON(test_one_time_tickets_have_a_quota),
		ON(test_expired_one_time_tickets_make_room),
		ON(test_expired_one_time_tickets_make_room_for_other_buffers),
		ON(invariant_5_an_issue_drops_two_expired_ones),
		ON(test_forged),
		ON(invariant_5_bits_flipped_at_random_are_all_refused),
		ON(invariant_8_each_bit_of_a_ticket_counts),
		ON(invariant_8_another_brokers_ticket_is_refused),
		ON(test_another_users),
		ON(test_expired),
		ON(invariant_8_a_ticket_ends_with_its_buffers_name),
		ON(test_with_another_owner_it_is_good_no_more),
		ON(test_used),
		ON(test_a_refused_grant_does_not_spend_it),
		ON(test_a_full_board_does_not_spend_it),
		ON(test_a_refused_order_leaves_the_buffer_where_others_are),
		ON(invariant_6_redeemed_memory_gets_no_neighbours),
		ON(test_a_redeemer_that_dies_has_spent_it),
		ON(test_the_broker_ends_with_tickets_out),
	};

	return cmocka_run_group_tests_name("delegation", tests, harness_group_setup, harness_group_teardown);
}
