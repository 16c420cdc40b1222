/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fuzz-broker.c - what clients may do to a broker.
 *
 * Each input has a whole broker on the host device in this process, whose loop turns between the input's steps, and up
 * to four peers, which connect, greet, say anything, read or not, and go. Beside them an honest client holds a mapping
 * that nobody else may end, and must be served to the last (invariants 2, 3 and 5). After each input everybody is gone,
 * every name is taken away, and the accounts must be empty.
 *
 * What the kernel would say, that a process died or that ten seconds are over, is said by the input: the events are
 * the session's own. The device can be held up, and fail, so that jobs are under way when something happens.
 *
 * The owner of the memory can die (owner.h). Memory without descriptors ends with it, and the next owner begins, begins
 * late or fails. Each buffer is zeros at first, and then keeps what a client would have written into it (bytes.h).
 */
#include "bytes.h"
#include "owner.h"
#include "peers.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "broker/request/creation.h"
#include "broker/request/manage.h"
#include "common/error.h"
#include "device/host-quarantine.h"
#include "device/host-state.h"
#include "device/host.h"

#define PEERS     4
#define STEPS_MAX 100
#define TURNS_MAX 10000 /* until whatever must end has to have ended */
#define HONEST    4000  /* uid */

static char directory[40], socket_path[64];
static int listener;
static struct event_base *base;
static struct broker broker;
static struct core core;
static struct peer peers[PEERS], honest;
static struct wire_grant held; /* by the honest client */
static unsigned naps, floods;
static bool ruled; /* a peer was the honest client's user, or root, who may do what they like with it */

/* ---- the loop ---- */

static void run_pass(void)
{
	broker_pass(&broker, false);
	owner_follow();
}

/*
 * Until there is nothing more to do: waits for jobs and for an owner that starts, unless the device is held up or the
 * owner has died.
 */
static void finish(void)
{
	for (int i = 0; i < 4; i++)
		run_pass();
	while (owner_works() && (broker.jobs->pending || broker.devices->begun)) {
		broker_pass(&broker, true);
		owner_follow();
	}
	run_pass();
}

/* ---- the honest client ---- */

/* Somebody who may do so evicted the honest client, or does just now. */
static bool honest_was_evicted(void)
{
	struct session *session = session_find(&broker, honest.welcomed.session);

	return ruled && (!session || session->state != SESSION_OPEN);
}

static void honest_ask(const struct wire_message *message, struct wire_message *answer)
{
	struct socket_extra extra;
	int error = -EAGAIN;

	FUZZ_HOLDS(!socket_send(honest.sock, message, -1, MSG_DONTWAIT), "the honest client cannot send");
	for (int i = 0; i < TURNS_MAX && error == -EAGAIN; i++) {
		finish();
		error = socket_receive(honest.sock, answer, &extra, true, MSG_DONTWAIT);
		if (!error && extra.fd >= 0)
			close(extra.fd);
		if (!error && (answer->type == WIRE_NOTICE || answer->type == WIRE_MEMORY))
			error = -EAGAIN;
	}
	if (honest_was_evicted())
		return;
	FUZZ_HOLDS(!error && answer->request == message->request, "the honest client is not answered: %s",
		   error_text());
}

static void honest_join(void)
{
	struct wire_message message, answer;

	peer_dial(&honest, socket_path);
	finish();
	peer_read(&honest, &broker, 1);
	wire_init(&message, WIRE_HELLO, 0);
	message.hello = honest.challenge;
	peer_say(&honest, &message, WIRE_SIZE);
	finish();
	peer_read(&honest, &broker, 1);
	FUZZ_HOLDS(honest.welcome, "the honest client is not welcomed");
	peer_become(&honest, &broker, HONEST);
	wire_init(&message, WIRE_CREATE, 1);
	strcpy(message.create.name, "honest");
	message.create.size = 4096;
	message.create.mode = 0600;
	honest_ask(&message, &answer);
	FUZZ_HOLDS(answer.type == WIRE_DONE, "the honest client cannot create: %s", answer.refused.text);
	wire_init(&message, WIRE_ACQUIRE, 2);
	strcpy(message.acquire.name, "honest");
	message.acquire.rights = GPUB_READ;
	honest_ask(&message, &answer);
	FUZZ_HOLDS(answer.type == WIRE_GRANT, "the honest client cannot acquire: %s", answer.refused.text);
	held = answer.grant;
}

/* It is served, its session is as it was, and what it holds has been freed by nobody. */
static void honest_check(void)
{
	struct session *session = session_find(&broker, honest.welcomed.session);
	struct wire_message message, answer;
	struct mapping *mapping;
	uint64_t word;

	if (honest_was_evicted())
		return;
	FUZZ_HOLDS(session && session->state == SESSION_OPEN, "the honest client's session is gone");
	wire_init(&message, WIRE_STAT, 77);
	strcpy(message.name.name, "no-such-buffer");
	honest_ask(&message, &answer);
	if (honest_was_evicted())
		return;
	mapping = mappings_find(&session->mappings, held.mapping);
	FUZZ_HOLDS(mapping && mapping->allocation->state != ALLOCATION_FREEING,
		   "the honest client's mapping was ended by another");
	word = atomic_load(&honest.board.words[held.buffer]);
	/* a rename or a resize begins another generation, and only who rules the buffer may do either */
	FUZZ_HOLDS(ruled ? word >> 2 >= held.serial : word >> 2 == held.serial,
		   "the honest client's buffer has the word %llx", (unsigned long long)word);
	FUZZ_HOLDS((word & 3) == BOARD_LIVE || (word & 3) == BOARD_DRAINING,
		   "the honest client's buffer has the word %llx", (unsigned long long)word);
}

static void honest_close(void)
{
	struct session *session = session_find(&broker, honest.welcomed.session);
	struct wire_message message;

	if (ruled)
		return;
	wire_init(&message, WIRE_CLOSED, 0);
	message.grant_id.mapping = held.mapping;
	peer_say(&honest, &message, WIRE_SIZE);
	finish();
	FUZZ_HOLDS(!session->mappings.by_id, "the honest client's own CLOSED does not end its mapping");
}

/* ---- steps ---- */

static void join(struct peer *peer, uint8_t who)
{
	static const uid_t users[] = { 5000, 5001, HONEST, 0 };
	struct wire_message hello;

	peer_hang_up(peer);
	peer_dial(peer, socket_path);
	finish();
	peer_read(peer, &broker, 1);
	wire_init(&hello, WIRE_HELLO, 0);
	hello.hello = peer->challenge;
	peer_say(peer, &hello, WIRE_SIZE);
	finish();
	peer_read(peer, &broker, 1);
	peer_become(peer, &broker, users[who % 4]);
	ruled |= who % 4 >= 2;
}

/* Who greets on its own is nobody special either: in truth it is this process's user, who rules the broker. */
static void join_on_its_own(struct peer *peer)
{
	finish();
	peer_read(peer, &broker, 2);
	peer_become(peer, &broker, 5000);
}

static void step_join(struct peer *peer, struct input *input)
{
	join(peer, input_byte(input));
}

static void step_dial(struct peer *peer, struct input *input)
{
	peer_hang_up(peer);
	peer_dial(peer, socket_path);
	finish();
	peer_read(peer, &broker, input_byte(input) & 1);
}

static void step_request(struct peer *peer, struct input *input)
{
	struct wire_message message;

	if (peer->sock < 0)
		join(peer, 0);
	peer_compose(peer, input, &message);
	peer_say(peer, &message, WIRE_SIZE);
}

static void step_odd_request(struct peer *peer, struct input *input)
{
	struct wire_message message;
	uint8_t how;

	peer_compose(peer, input, &message);
	how = input_byte(input);
	if (how < 0x40)
		peer_say_descriptors(peer, &message, how);
	else if (how < 0x50)
		peer_say_as_another(peer, &message);
	else if (how < 0xe0)
		peer_say(peer, &message, (size_t)how + input_byte(input));
	else
		peer_say_packet(peer, &message, input_byte(input));
}

static void step_raw(struct peer *peer, struct input *input)
{
	struct wire_message message;

	input_take(input, &message, sizeof message);
	peer_say(peer, &message, WIRE_SIZE);
}

static void step_again(struct peer *peer, struct input *input)
{
	unsigned times = input_byte(input);

	times = times > 0xf0 ? 100 * (times & 0xf) : times & 0xf;
	for (unsigned i = 0; i < times; i++) {
		peer_say(peer, &peer->last, WIRE_SIZE);
		if (i % 64 == 63)
			run_pass();
	}
}

static void step_read(struct peer *peer, struct input *input)
{
	peer_read(peer, &broker, input_byte(input));
}

static void step_hang_up(struct peer *peer, struct input *input)
{
	static const int how[] = { SHUT_RD, SHUT_WR, SHUT_RDWR };
	unsigned which = input_below(input, 8);

	if (which >= 3)
		peer_hang_up(peer);
	else if (peer->sock >= 0)
		shutdown(peer->sock, how[which]);
}

static void die(struct session *session)
{
	if (session->death && !session->place.dead)
		event_active(session->death, EV_READ, 0);
}

/* The pidfd becomes readable; the socket hangs up then, before, later, or stays with a forked child. */
static void step_die(struct peer *peer, struct input *input)
{
	struct session *session = peer_session(peer, &broker);

	if (session)
		die(session);
	if (input_byte(input) & 1)
		peer_hang_up(peer);
}

/* Ten seconds are over for all that have not greeted. */
static void step_late(struct peer *peer, struct input *input)
{
	struct session *session, *next;

	(void)peer;
	(void)input;
	HASH_ITER(hh, broker.sessions->by_id, session, next)
		if (session->state == SESSION_GREETING)
			event_active(session->reading, EV_TIMEOUT, 0);
}

/* So that what the broker sends soon has no room. */
static void step_small_queue(struct peer *peer, struct input *input)
{
	struct session *session = peer_session(peer, &broker);
	int size = 1;

	(void)input;
	if (session && session->fd >= 0)
		setsockopt(session->fd, SOL_SOCKET, SO_SNDBUF, &size, sizeof size);
}

static void step_hold_device(struct peer *peer, struct input *input)
{
	(void)peer;
	owner_hold_device(input_byte(input) & 1);
}

/* The owner dies. What it was doing is lost or lands late; its end is seen at once or later. */
static void step_owner_dies(struct peer *peer, struct input *input)
{
	uint8_t how = input_byte(input);

	(void)peer;
	owner_fail_next((enum owner_fate)(how >> 2 & 3), how >> 4);
	if (owner_dies(how & 1) && how & 2)
		owner_is_gone();
}

/* What an owner that died waits for: its end, the start of the next one. */
static void step_owner_goes_on(struct peer *peer, struct input *input)
{
	(void)peer;
	switch (input_below(input, 4)) {
	case 0:
		owner_is_gone();
		break;
	case 1:
		owner_pause_over();
		break;
	default:
		gate_start_set(input_byte(input) & 1);
	}
}

static void step_fail_device(struct peer *peer, struct input *input)
{
	static const enum host_call calls[] = { HOST_ALLOCATE, HOST_ZERO, HOST_EXPORT, HOST_ADOPT };

	(void)peer;
	host_fail_next(calls[input_below(input, 4)], 1, input_byte(input) & 1 ? ENOMEM : EIO);
}

/* How memory is exported that is made from now on. */
static void step_export(struct peer *peer, struct input *input)
{
	(void)peer;
	broker.memory->exported = input_byte(input) & 1 ? EXPORT_VMM : EXPORT_IPC;
}

static void created(void *context, int error, const char *text)
{
	(void)context;
	FUZZ_HOLDS(!error || (text && *text), "a create fails without an error message");
}

static void step_own_create(struct peer *peer, struct input *input)
{
	(void)peer;
	broker_create(&broker, input_byte(input) & 1 ? "a" : "b", &(struct amount){ .size = 4096 },
		      input_below(input, 4), 0666, created, NULL);
}

static void idle(void *context)
{
	*(bool *)context = true;
}

static bool is_idle;

static void step_stop(struct peer *peer, struct input *input)
{
	(void)peer;
	if (input_byte(input) == 0x5a)
		broker_stop(&broker, idle, &is_idle);
}

/* Timeouts of a millisecond are over then. */
static void step_nap(struct peer *peer, struct input *input)
{
	(void)peer;
	(void)input;
	if (naps++ < 2)
		usleep(1500);
}

/* Connections that never greet, up to what the broker bears and beyond. */
static void step_flood(struct peer *peer, struct input *input)
{
	struct peer crowd[32];
	unsigned count = input_byte(input) % 32;

	(void)peer;
	if (floods++)
		return;
	for (unsigned i = 0; i < count; i++)
		peer_dial(&crowd[i], socket_path);
	finish();
	while (count)
		peer_hang_up(&crowd[--count]);
}

static void (*const steps[])(struct peer *peer, struct input *input) = {
	step_request,   step_request,     step_request,     step_request,     step_request, step_request,
	step_request,   step_request,     step_join,        step_dial,        step_raw,     step_odd_request,
	step_again,     step_read,        step_hang_up,     step_die,         step_late,    step_small_queue,
	step_hold_device, step_fail_device, step_own_create, step_stop,       step_nap,     step_flood,
	step_export,     step_owner_dies,  step_owner_goes_on,
};

#define STEPS (sizeof steps / sizeof *steps)

/* A byte says which peer, how the loop turns behind it, and in the next one what is done. */
static void steps_take(struct input *input)
{
	for (int i = 0; i < STEPS_MAX && input->left; i++) {
		uint8_t byte = input_byte(input);

		struct peer *peer = &peers[byte % PEERS];

		steps[input_below(input, STEPS)](peer, input);
		if (peer->sock >= 0 && !peer->welcome)
			join_on_its_own(peer);
		if (byte & 0x80)
			continue; /* the broker finds it together with what follows */
		if (byte & 0x40)
			run_pass();
		else
			finish();
		bytes_check(&broker, false);
	}
}

/* ---- one input ---- */

static void begin(void)
{
	struct broker_config config;

	broker_config_init(&config);
	strcpy(config.device, "host:2");
	config.owner = owner_install(&broker);
	config.buffers = 8;
	config.handles = 12;
	config.several_users = true;
	config.quotas.fallback.limit[RESOURCE_BUFFERS] = 6;
	config.quotas.fallback.limit[RESOURCE_GRANTS] = 9;
	config.quotas.fallback.limit[RESOURCE_TICKETS] = 3;
	snprintf(config.instance, sizeof config.instance, "fuzz%d", (int)getpid());
	base = event_base_new();
	broker = (struct broker){ 0 };
	bytes_forget();
	if (!base || broker_init(&broker, &core, &config, base, listener))
		fuzz_fail("the broker does not start: %s", error_text());
	for (int i = 0; i < PEERS; i++)
		peers[i] = (struct peer){ .sock = -1 };
	naps = floods = 0;
	ruled = false;
	is_idle = false;
	honest_join();
}

static void all_hang_up(void)
{
	for (int i = 0; i < PEERS; i++)
		peer_hang_up(&peers[i]);
	peer_hang_up(&honest);
}

static void all_die(void)
{
	struct session *session;

	for (int i = 0; i < TURNS_MAX && broker.sessions->by_id; i++) {
		for (session = broker.sessions->by_id; session; session = session->hh.next)
			die(session);
		finish();
	}
	session = broker.sessions->by_id;
	FUZZ_HOLDS(!session, "session %llu outlives its client: state %d, dead %d, hung up %d",
		   (unsigned long long)session->id, session->state, session->place.dead, session->hung_up);
}

static void accounting_check(void)
{
	FUZZ_HOLDS(is_idle, "a broker that stops does not come to rest");
	FUZZ_HOLDS(broker_balanced(&broker), "the accounting is not balanced");
	FUZZ_HOLDS(!broker.waiting->count && !broker.registry->mapping_count && !broker.registry->buffer_count &&
			   !broker.memory->bytes,
		   "the registry is not empty: %u wait, %u mappings, %u buffers", broker.waiting->count,
		   broker.registry->mapping_count, broker.registry->buffer_count);
	FUZZ_HOLDS(!broker.accounting->accounts, "somebody is still charged for something");
	for (uint32_t i = 0; i < broker.config->buffers; i++)
		FUZZ_HOLDS((atomic_load(&broker.board->board.words[i]) & 3) == BOARD_FREE,
			   "the board still shows a buffer");
}

/* Lets an owner begin, unless too many have failed. */
static void owner_recover(void)
{
	owner_fail_next(OWNER_BEGINS, 0);
	gate_start_set(false);
	owner_is_gone();
	gate_set(false);
	finish();
	for (int i = 0; i < TURNS_MAX && broker.jobs->lost && !broker.devices->failed; i++) {
		owner_is_gone();
		owner_pause_over();
		finish();
	}
	FUZZ_HOLDS(!broker.jobs->lost || broker.devices->failed, "no other owner begins");
}

static void come_to_rest(void)
{
	all_die();
	broker_stop(&broker, idle, &is_idle);
	for (int i = 0; i < TURNS_MAX && !is_idle; i++)
		finish();
	accounting_check();
}

static void end(void)
{
	finish();
	honest_check(); /* also while the device is held up, or there is no owner */
	owner_recover();
	owner_check();
	bytes_check(&broker, true);
	honest_close();
	all_hang_up();
	/* a broker that gets no other owner ends with what was not released, and with deaths that nobody can prove */
	if (!broker.devices->failed)
		come_to_rest();
	broker_deinit(&broker);
	event_base_free(base);
	FUZZ_HOLDS(!owner_memories(), "the device has memory that the broker did not release");
	for (int call = 0; call < HOST_CALLS; call++)
		host_fail_next((enum host_call)call, 0, 0);
	pthread_mutex_lock(&host_state.lock);
	host_quarantine_flush();
	pthread_mutex_unlock(&host_state.lock);
}

static void clean_up(void)
{
	unlink(socket_path);
	rmdir(directory);
}

static void set_up(void)
{
	event_enable_debug_mode(); /* an event used wrongly is a find */
	snprintf(directory, sizeof directory, "/tmp/gpub-fuzz.%d", (int)getpid());
	if (mkdir(directory, 0700))
		fuzz_fail("no directory %s", directory);
	snprintf(socket_path, sizeof socket_path, "%s/socket", directory);
	setenv("GPUB_HOST_MEMORY", "256K", 1);
	setenv("GPUB_HOST_STRICT", "1", 1);
	listener = socket_listen(socket_path, 0600);
	if (listener < 0 || atexit(clean_up))
		fuzz_fail("%s", error_text());
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input input = { data, size };
	static bool ready;
	unsigned before;

	if (!ready)
		set_up();
	ready = true;
	before = fuzz_descriptors();
	begin();
	steps_take(&input);
	end();
	FUZZ_HOLDS(fuzz_descriptors() == before, "%u descriptors were open before this input, and %u are now", before,
		   fuzz_descriptors());
	return 0;
}
