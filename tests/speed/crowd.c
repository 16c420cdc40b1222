/* SPDX-License-Identifier: Apache-2.0 */
/* crowd.c - see crowd.h */
#include "crowd.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define SMALL     1500u /* buffers of each of the two that share allocations, one in four ephemeral */
#define REDEEMED  5500u /* grants of the crowded buffer, each in a mapping of its own */
#define HOLDERS   60u   /* the stranger's sessions that hold the crowded buffer */
#define SIBLINGS  60u   /* other sessions of the owner */
#define USERS     60u   /* other users */
#define TICKETS   4096u /* that are good once, of each of the two: the default quota */
#define WAITS     1000u /* of each of some of the sessions */
#define DRAINS    200u
#define TIMELINES 200u
#define QUIESCED  200u  /* allocations that are mapped and without buffers */
#define LARGE     (64u << 10)

static struct peer holders[HOLDERS], siblings[SIBLINGS], users[USERS];

/* ---- saying it ---- */

static int receive(const struct peer *peer, struct wire_message *message)
{
	struct socket_extra extra;
	int error = socket_receive(peer->sock, message, &extra, true, MSG_DONTWAIT);

	if (!error && extra.fd >= 0)
		close(extra.fd);
	return error;
}

struct wire_message answer_of(const struct peer *peer, const struct wire_message *message)
{
	struct wire_message answer = { 0 };
	int error;

	say(peer->sock, message);
	do {
		broker_pass(&broker, false);
		error = receive(peer, &answer);
	} while (error == -EAGAIN || (!error && answer.type == WIRE_NOTICE));
	assert_int_equal(error, 0);
	return answer;
}

struct wire_message want(const struct peer *peer, const struct wire_message *message)
{
	struct wire_message answer = answer_of(peer, message);

	if (answer.type == WIRE_REFUSED)
		print_error("%s is refused: %s\n", wire_row(message->type)->name, answer.refused.text);
	assert_int_not_equal(answer.type, WIRE_REFUSED);
	return answer;
}

void finish(void)
{
	do
		broker_pass(&broker, false);
	while (broker.jobs->pending);
	broker_pass(&broker, false);
}

/* What is not answered. */
static void tell_broker(const struct peer *peer, const struct wire_message *message)
{
	say(peer->sock, message);
	broker_pass(&broker, false);
}

struct wire_message create_of(const char *name, uint64_t size, unsigned mode, unsigned flags)
{
	struct wire_message message = named(WIRE_CREATE, 1, name);

	message.create.size = size;
	message.create.mode = mode;
	message.create.flags = flags;
	return message;
}

struct wire_message acquire_of(const char *name, int timeout_ms)
{
	struct wire_message message = named(WIRE_ACQUIRE, 1, name);

	message.acquire.rights = GPUB_READ | GPUB_WRITE;
	message.acquire.timeout_ms = timeout_ms;
	return message;
}

struct wire_message issue_of(const char *name, bool once, uint64_t lifetime_ms)
{
	struct wire_message message = named(WIRE_ISSUE, 1, name);

	message.issue.rights = GPUB_READ;
	message.issue.uid = TICKET_ANY_USER;
	message.issue.once = once;
	message.issue.lifetime_ms = lifetime_ms;
	return message;
}

struct wire_message redeem_of(const struct ticket *ticket)
{
	struct wire_message message;

	wire_init(&message, WIRE_REDEEM, 1);
	message.redeem.ticket = *ticket;
	return message;
}

struct wire_message grant_of(enum wire_type type, uint64_t mapping, uint64_t serial)
{
	struct wire_message message;

	wire_init(&message, type, 1);
	message.grant_id.mapping = mapping;
	message.grant_id.serial = serial;
	return message;
}

/* ---- filling ---- */

static const char *numbered(const char *prefix, unsigned number)
{
	static char name[NAME_SIZE];

	snprintf(name, sizeof name, "%s/%u", prefix, number);
	return name;
}

static void make(const struct peer *peer, const char *name, uint64_t size, unsigned flags)
{
	struct wire_message message = create_of(name, size, 0666, flags);

	want(peer, &message);
}

static struct wire_grant hold(const struct peer *peer, const char *name)
{
	struct wire_message message = acquire_of(name, 0);

	return want(peer, &message).grant;
}

static void take_away(const struct peer *peer, const char *name)
{
	struct wire_message message = named(WIRE_UNLINK, 1, name);

	want(peer, &message);
}

/* Names, grants, and ranges of shared allocations. */
static void small_buffers(const struct peer *maker, const char *prefix, const struct peer *other)
{
	for (unsigned i = 0; i < SMALL; i++) {
		make(maker, numbered(prefix, i), 1, i % 4 ? 0 : GPUB_EPHEMERAL);
		hold(maker, numbered(prefix, i));
		if (i < SMALL / 2)
			hold(other, numbered(prefix, i));
	}
}

static void redeemed(const struct peer *issuer, const char *name, const struct peer *peer)
{
	struct wire_message message = issue_of(name, false, 0);

	message = want(issuer, &message);
	message = redeem_of(&message.ticket);
	for (unsigned i = 0; i < REDEEMED; i++)
		want(peer, &message);
}

/* Orphaned mappings: closed by a session that does not own the memory. */
static void held(const char *name)
{
	for (unsigned i = 0; i < HOLDERS; i++) {
		struct wire_message message;

		holders[i] = join_as(STRANGER);
		message = grant_of(WIRE_CLOSED, hold(&holders[i], name).mapping, 0);
		tell_broker(&holders[i], &message);
	}
}

static void tickets(const struct peer *peer, const char *name)
{
	for (unsigned i = 0; i < TICKETS - 1; i++) {
		struct wire_message message = issue_of(name, true, i % 2 ? 3600000 + i * 7919 % TICKETS : 0);

		want(peer, &message);
	}
}

/* Half of them for one name. */
static void waits(const struct peer *peer, const char *prefix)
{
	for (unsigned i = 0; i < WAITS; i++) {
		struct wire_message message = acquire_of(numbered(prefix, i < WAITS / 2 ? i : 0), -1);

		tell_broker(peer, &message);
	}
}

static void drains(const struct peer *maker, const char *prefix, const struct peer *other)
{
	for (unsigned i = 0; i < DRAINS; i++) {
		struct wire_message message = named(WIRE_DRAIN, 1, numbered(prefix, i));

		make(maker, numbered(prefix, i), 1, 0);
		hold(other, numbered(prefix, i));
		message.drain.timeout_ms = -1;
		tell_broker(maker, &message);
	}
}

static void timelines(const struct peer *maker, const char *prefix, const struct peer *writer)
{
	for (unsigned i = 0; i < TIMELINES; i++) {
		struct wire_message message;
		struct wire_grant grant;

		make(maker, numbered(prefix, i), 1, GPUB_TIMELINE | GPUB_EPHEMERAL);
		grant = hold(writer, numbered(prefix, i));
		message = grant_of(WIRE_WRITER, grant.mapping, grant.serial);
		want(writer, &message);
	}
}

/* All together: the next create of the kind would take the idle one. */
static void idle(const struct peer *peer, const char *prefix)
{
	struct wire_grant grants[QUIESCED];

	for (unsigned i = 0; i < QUIESCED; i++) {
		make(peer, numbered(prefix, i), LARGE, 0);
		grants[i] = hold(peer, numbered(prefix, i));
	}
	for (unsigned i = 0; i < QUIESCED; i++) {
		struct wire_message message = grant_of(WIRE_QUIESCED, grants[i].mapping, grants[i].serial);

		take_away(peer, numbered(prefix, i));
		tell_broker(peer, &message);
	}
}

static void empty_socket(const struct peer *peer)
{
	struct wire_message message;

	while (!receive(peer, &message))
		;
}

/* The measurements are worth nothing where a table is not what it seems. */
static void expect_full(void)
{
	for (uid_t uid = OWNER; uid <= STRANGER; uid++) {
		assert_in_range(used(uid, RESOURCE_GRANTS), 8000, 8400); /* orphaned ones too */
		assert_int_equal(used(uid, RESOURCE_TICKETS), TICKETS - 1);
		assert_int_equal(used(uid, RESOURCE_WAITS), 5 * WAITS);
		assert_in_range(used(uid, RESOURCE_BUFFERS), SMALL + DRAINS + TIMELINES, 2048);
	}
	assert_int_equal(broker.memory->usages.bytes[0][SPARE_IDLE], 2 * QUIESCED * LARGE);
	assert_in_range(broker.registry->mapping_count, 2 * REDEEMED, 4 * REDEEMED);
}

void crowd_gather(const struct peer *owner, const struct peer *stranger, const char *crowded)
{
	for (unsigned i = 0; i < USERS; i++)
		users[i] = join_as(2000 + i);
	for (unsigned i = 0; i < SIBLINGS; i++)
		siblings[i] = join_as(OWNER);
	held(crowded);
	small_buffers(owner, "small", stranger);
	small_buffers(stranger, "their-small", owner);
	redeemed(owner, crowded, owner);
	redeemed(owner, crowded, stranger);
	tickets(owner, crowded);
	tickets(stranger, "their-small/0");
	idle(owner, "idle");
	idle(stranger, "their-idle");
	drains(owner, "drain", stranger);
	drains(stranger, "their-drain", owner);
	timelines(owner, "timeline", stranger);
	timelines(stranger, "their-timeline", owner);
	waits(owner, "wait");
	waits(stranger, "their-wait");
	for (unsigned i = 0; i < 4; i++) {
		waits(&siblings[i], "wait");
		waits(&holders[i], "their-wait");
	}
	finish();
	empty_socket(owner);
	empty_socket(stranger);
	expect_full();
}
