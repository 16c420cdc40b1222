/* SPDX-License-Identifier: Apache-2.0 */
/* waiting-harness.c - see waiting-harness.h */
#include "waiting-harness.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include <sodium.h>

#include "broker/registry/mappings.h"
#include "broker/request/drains.h"
#include "broker/request/ending.h"
#include "broker/request/name-waits.h"
#include "broker/session/session-end.h"
#include "common/socket.h"

static int fake_count(void)
{
	return 1;
}

static int fake_info(int ordinal, struct device_info *info)
{
	(void)ordinal;
	*info = (struct device_info){ .memory = 1u << 30, .granule = 2u << 20 };
	return 0;
}

static const struct device fake = { .kind = DEVICE_HOST, .name = "fake", .count = fake_count, .info = fake_info };
struct broker broker;
static struct core parts;
struct session sessions[3];
static int peers[3];

static void session_make(unsigned i)
{
	int pair[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
	sessions[i] = (struct session){ .broker = &broker,
					.id = i + 1,
					.state = SESSION_OPEN,
					.fd = pair[0],
					.outbox.sock = pair[0],
					.outbox.owner.outboxes = &parts.sessions.outboxes,
					.pidfd = -1,
					.who.uid = getuid(),
					.who.gid = getgid(),
					.key = sodium_malloc(WIRE_KEY_SIZE) };
	assert_non_null(sessions[i].key);
	assert_int_equal(fair_join(broker.queue, &sessions[i].place, getuid()), 0);
	HASH_ADD(hh, broker.sessions->by_id, id, sizeof sessions[i].id, &sessions[i]);
	peers[i] = pair[1];
}

static void ignore_notice(void *context, struct mapping *mapping, uint64_t serial)
{
	(void)context, (void)mapping, (void)serial;
}

static bool clean_none(void *context, struct allocation *allocation, uint32_t range, uint64_t serial)
{
	(void)context, (void)allocation, (void)range, (void)serial;
	return false;
}

bool answers_drains;

static void release(void *context, struct allocation *allocation)
{
	struct buffer *buffers = registry_released(broker.registry, allocation);
	uint64_t serial;

	(void)context;
	allocation_free(NULL, allocation);
	while ((serial = registry_forget(broker.registry, &buffers)))
		if (answers_drains)
			drain_ended(&broker, serial);
}

int setup(void **state)
{
	static const struct session_hooks session_hooks = { .expire = ending_expire };
	static const struct registry_hooks hooks = { ignore_notice, NULL };
	const struct memory_orders orders = { clean_none, release, &broker };
	struct owner_facts facts;

	(void)state;
	if (sodium_init() < 0)
		return -1;
	answers_drains = false;
	memset(&parts, 0, sizeof parts);
	broker_join(&broker, &parts);
	parts.sessions.hooks = &session_hooks;
	if (outboxes_init(&parts.sessions.outboxes))
		return -1;
	broker.base = event_base_new();
	accounting_init(broker.accounting);
	if (fair_queue_init(broker.queue, broker.base, broker.accounting))
		return -1;
	memory_init(broker.memory, broker.accounting, &orders);
	if (owner_facts_of(&fake, &facts) || board_create(broker.board, "test", &facts, 8, 8) ||
	    registry_init(broker.registry, broker.memory, broker.board->board.words, 8, 8, &hooks, &broker))
		return -1;
	for (unsigned i = 0; i < 3; i++)
		session_make(i);
	return 0;
}

static void session_unmake(unsigned i)
{
	outbox_close(&sessions[i].outbox);
	HASH_DEL(broker.sessions->by_id, &sessions[i]);
	fair_leave(&sessions[i].place);
	mappings_free(broker.registry, &sessions[i].mappings);
	sodium_free(sessions[i].key);
	close(sessions[i].fd);
	close(peers[i]);
}

int teardown(void **state)
{
	unsigned left = broker.waiting->count;

	(void)state;
	for (unsigned i = 0; i < 3; i++)
		session_unmake(i);
	outboxes_deinit(&parts.sessions.outboxes);
	fair_queue_deinit(broker.queue);
	registry_deinit(broker.registry);
	memory_deinit(broker.memory);
	board_destroy(broker.board);
	accounting_deinit(broker.accounting);
	tracking_deinit(broker.tracking);
	event_base_free(broker.base);
	return left != 0;
}

/* ---- shorthands ---- */

void loop_for(int ms)
{
	struct timeval end = { .tv_usec = ms * 1000 };

	event_base_loopexit(broker.base, &end);
	event_base_dispatch(broker.base);
	fair_pass_begin(broker.queue);
	for (unsigned i = 0; i < 3; i++)
		session_do_due(&sessions[i]);
}

void forget(unsigned i)
{
	while (waiting_forget(&broker, sessions[i].id))
		;
}

void wait_for_name(unsigned i, uint64_t request, const char *name, int timeout_ms)
{
	struct wire_acquire acquire = { .rights = GPUB_READ, .timeout_ms = timeout_ms };

	strcpy(acquire.name, name);
	assert_int_equal(name_wait_acquire(&broker, sessions[i].id, request, &acquire), 0);
}

struct buffer *make_live(const char *name)
{
	struct buffer_spec spec = { .name = name, .size = 1, .span = 2u << 20, .owner = getuid(), .mode = 0600 };
	struct buffer *buffer;

	assert_int_equal(registry_reserve(broker.registry, &spec, &buffer), 0);
	registry_live(broker.registry, buffer);
	return buffer;
}

/* The next answer to that session: its type and, for a refusal, errno. 0: none came. */
unsigned answer(unsigned i, struct wire_message *message)
{
	struct socket_extra extra;
	int error;

	sessions_send(&broker);
	error = socket_receive(peers[i], message, &extra, false, MSG_DONTWAIT);

	assert_true(!error || error == -EAGAIN);
	return error ? 0 : message->type;
}

struct wire_message expect_answer(unsigned i, enum wire_type type, uint64_t request)
{
	struct wire_message message = { 0 };

	assert_int_equal(answer(i, &message), type);
	assert_int_equal(message.request, request);
	return message;
}

void expect_silence(unsigned i)
{
	assert_int_equal(answer(i, &(struct wire_message){ 0 }), 0);
}
