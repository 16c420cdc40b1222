/* SPDX-License-Identifier: Apache-2.0 */
/* session-harness.c - see session-harness.h */
#include "session-harness.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "broker/base/events.h"
#include "broker/registry/mappings.h"
#include "broker/status/status.h"
#include "owner-thread.h"

#define GIVEN_SOCK 3

struct broker broker;
struct core core;
bool is_child;
uint32_t harness_buffers = 64, harness_handles = 512;
unsigned harness_exported = EXPORT_IPC;
const struct session_hooks *hooks_usual;
const char *harness_device = "host:1";
static bool is_running;
static struct event_base *base;
static int listener, descriptors_before, freed;
static char directory[] = "/tmp/gpub-unit.XXXXXX", socket_path[64];

/* ---- the broker ---- */

int harness_group_setup(void **state)
{
	(void)state;
	if (!mkdtemp(directory))
		return -1;
	event_enable_debug_mode(); /* an event used wrongly ends the test */
	snprintf(socket_path, sizeof socket_path, "%s/socket", directory);
	setenv("GPUB_HOST_MEMORY", "256M", 1);
	/* disconnections and refusals are logged, between the lines of the report */
	return freopen("/dev/null", "w", stderr) ? 0 : -1;
}

int harness_group_teardown(void **state)
{
	(void)state;
	return rmdir(directory);
}

int descriptors(void)
{
	DIR *fds = opendir("/proc/self/fd");
	int count = 0;

	while (readdir(fds))
		count++;
	closedir(fds);
	return count;
}

uint64_t used(uid_t uid, enum resource resource)
{
	return accounting_used(broker.accounting, uid, resource);
}

uint64_t greeting(void)
{
	return used(geteuid(), RESOURCE_GREETINGS);
}

/* ---- events ---- */

static struct event_seen {
	unsigned            count;
	struct broker_event last;
	char                name[NAME_SIZE], text[EVENT_TEXT_MAX];
} seen[EVENT_KINDS];

static void see(struct broker *of, const struct broker_event *event)
{
	struct event_seen *kind = &seen[event->kind];

	kind->count++;
	kind->last = *event;
	snprintf(kind->name, sizeof kind->name, "%s", event->name ? event->name : "");
	snprintf(kind->text, sizeof kind->text, "%s", event->text ? event->text : "");
	kind->last.name = event->name ? kind->name : NULL;
	kind->last.text = event->text ? kind->text : NULL;
	kind->last.actor.command = kind->last.other.command = NULL;
	status_record(of, event);
}

unsigned events_of(enum event_kind kind)
{
	return seen[kind].count;
}

const struct broker_event *event_last(enum event_kind kind)
{
	assert_true(seen[kind].count);
	return &seen[kind].last;
}

int harness_setup(void **state)
{
	struct broker_config config;

	(void)state;
	broker_config_init(&config);
	strcpy(config.device, harness_device);
	config.owner = &owner_thread;
	config.buffers = harness_buffers;
	config.handles = harness_handles;
	config.exported = harness_exported;
	descriptors_before = descriptors();
	snprintf(config.instance, sizeof config.instance, "unit%d", (int)getpid());
	base = event_base_new();
	listener = socket_listen(socket_path, 0600);
	memset(seen, 0, sizeof seen);
	is_running = base && listener >= 0 && !broker_init(&broker, &core, &config, base, listener);
	if (!is_running)
		return -1;
	broker.events->record = see;
	hooks_usual = broker.sessions->hooks;
	return 0;
}

void use_device(const struct device *device)
{
	owner_thread_use(device);
}

void *address_of(const struct allocation *allocation)
{
	return owner_address(&owner_thread_service.server[0].owner, allocation->memory);
}

unsigned hook_none(struct session *session)
{
	(void)session;
	return 0;
}

void run_pass(void)
{
	if (!is_child)
		broker_pass(&broker, false);
	poll(NULL, 0, 1);
}

void run_passes(void)
{
	for (int i = 0; i < 20; i++)
		run_pass();
}

void broker_end_now(void)
{
	is_running = false;
	freed = (int)broker.counters.allocations_made;
	broker_deinit(&broker);
	event_base_free(base);
	close(listener);
	unlink(socket_path);
}

static void idle(void *context)
{
	*(bool *)context = true;
}

static bool broker_drains(void)
{
	bool is_idle = false;

	for (int tries = 0; tries < PATIENCE_MS && broker.sessions->by_id; tries++)
		run_pass();
	if (broker.sessions->by_id)
		return false; /* a test that failed left its peers */
	broker_stop(&broker, idle, &is_idle);
	/* descriptors that a thread has closed stay charged until the loop has read its report */
	for (int tries = 0; tries < PATIENCE_MS && (!is_idle || broker.discard->pending); tries++)
		run_pass();
	return is_idle && !broker.sessions->by_id && !greeting() && !broker.waiting->count &&
	       broker_balanced(&broker) && !broker.accounting->accounts && !broker.registry->mapping_count &&
	       fair_queue_is_empty(broker.queue) && !broker.queue->waiting.users;
}

int harness_teardown(void **state)
{
	bool balanced = true;

	(void)state;
	if (is_running) {
		broker.sessions->hooks = hooks_usual;
		balanced = broker_drains();
		broker_end_now();
	}
	/* the host device keeps freed memory for a while, to look for late writes into it */
	return balanced && descriptors() <= descriptors_before + freed ? 0 : -1;
}

/* ---- clients in this process ---- */

int dial(void)
{
	struct sockaddr_un sun = { .sun_family = AF_UNIX };
	int sock;

	strcpy(sun.sun_path, socket_path);
	sock = socket_connect(&sun);
	assert_true(sock >= 0);
	return sock;
}

int receive_with(int sock, struct wire_message *message, struct socket_extra *extra)
{
	int error = -EAGAIN;

	for (int tries = 0; tries < PATIENCE_MS && error == -EAGAIN; tries++) {
		run_pass();
		error = socket_receive(sock, message, extra, true, MSG_DONTWAIT);
	}
	return error;
}

struct wire_message receive_message(int sock)
{
	struct wire_message message = { 0 };
	struct socket_extra extra;

	assert_int_equal(receive_with(sock, &message, &extra), 0);
	if (extra.fd >= 0)
		close(extra.fd);
	return message;
}

unsigned received_already(int sock, struct wire_message *message)
{
	struct socket_extra extra;
	int error;

	sessions_send(&broker);
	error = socket_receive(sock, message, &extra, true, MSG_DONTWAIT);
	assert_true(!error || error == -EAGAIN);
	if (extra.fd >= 0)
		close(extra.fd);
	return error ? 0 : message->type;
}

void expect_end(int sock)
{
	struct wire_message message;
	struct socket_extra extra;

	assert_int_equal(receive_with(sock, &message, &extra), -ECONNRESET);
}

void say(int sock, const struct wire_message *message)
{
	assert_int_equal(socket_send(sock, message, -1, 0), 0);
}

struct wire_message hello_to(const struct wire_message *challenge)
{
	struct wire_message hello;

	assert_int_equal(challenge->type, WIRE_CHALLENGE);
	wire_init(&hello, WIRE_HELLO, 0);
	hello.hello = challenge->hello;
	return hello;
}

struct peer join(void)
{
	struct peer peer = { .sock = dial() };
	struct wire_message message = receive_message(peer.sock);
	struct socket_extra extra;

	message = hello_to(&message);
	say(peer.sock, &message);
	assert_int_equal(receive_with(peer.sock, &message, &extra), 0);
	assert_int_equal(message.type, WIRE_WELCOME);
	assert_int_equal(board_map(&peer.board, extra.fd), 0);
	close(extra.fd);
	peer.welcome = message.welcome;
	peer.session = message.welcome.session;
	return peer;
}

struct session *session_of(const struct peer *peer)
{
	struct session *session = session_find(&broker, peer->session);

	assert_non_null(session);
	return session;
}

void change_user(const struct peer *peer, uid_t uid)
{
	struct session *session = session_of(peer);

	fair_leave(&session->place);
	identity_clear(&session->who);
	session->who.uid = session->outbox.owner.uid = uid;
	session->who.gid = (gid_t)uid;
	assert_int_equal(fair_join(broker.queue, &session->place, session->who.uid), 0);
}

struct peer join_as(uid_t uid)
{
	struct peer peer = join();

	change_user(&peer, uid);
	return peer;
}

void part(struct peer *peer)
{
	board_unmap(&peer->board);
	close(peer->sock);
}

void hang_up_dying(struct peer *peer)
{
	session_of(peer)->place.dead = true;
	part(peer);
}

/* ---- what clients send ---- */

struct wire_message named(enum wire_type type, uint64_t request, const char *name)
{
	struct wire_message message;

	wire_init(&message, type, request);
	strcpy(message.name.name, name);
	if (type == WIRE_ACQUIRE)
		message.acquire.rights = GPUB_READ;
	if (type == WIRE_CREATE) {
		message.create.size = SIZE;
		message.create.mode = 0600;
	}
	return message;
}

struct wire_message answer_to(struct peer *peer, const struct wire_message *message)
{
	struct wire_message answer;

	say(peer->sock, message);
	do
		answer = receive_message(peer->sock);
	while (answer.type == WIRE_NOTICE);
	assert_int_equal(answer.request, message->request);
	return answer;
}

struct wire_message ask(struct peer *peer, enum wire_type type, const char *name)
{
	struct wire_message message = named(type, 77, name);

	return answer_to(peer, &message);
}

void expect_done(struct peer *peer, enum wire_type type, const char *name)
{
	assert_int_equal(ask(peer, type, name).type, WIRE_DONE);
}

void expect_refused_saying(struct peer *peer, const struct wire_message *message, int error, const char *text)
{
	struct wire_message answer = answer_to(peer, message);

	assert_int_equal(answer.type, WIRE_REFUSED);
	assert_int_equal(answer.refused.error, error);
	if (!strstr(answer.refused.text, text))
		fail_msg("'%s' is said, and not '%s'", answer.refused.text, text);
}

void expect_refused(struct peer *peer, const struct wire_message *message, int error)
{
	expect_refused_saying(peer, message, error, "");
}

struct wire_grant acquire(struct peer *peer, const char *name)
{
	struct wire_message message = ask(peer, WIRE_ACQUIRE, name);

	assert_int_equal(message.type, WIRE_GRANT);
	return message.grant;
}

void create_with_mode(struct peer *peer, const char *name, unsigned mode)
{
	struct wire_message create = named(WIRE_CREATE, 77, name);

	create.create.mode = mode;
	assert_int_equal(answer_to(peer, &create).type, WIRE_DONE);
}

void send_closed(int sock, uint64_t mapping)
{
	struct wire_message message;

	wire_init(&message, WIRE_CLOSED, 0);
	message.grant_id.mapping = mapping;
	say(sock, &message);
}

void expect_served(struct peer *peer)
{
	assert_int_equal(ask(peer, WIRE_STAT, "no-such-buffer").type, WIRE_REFUSED);
}

/* ---- clients that are disconnected ---- */

void expect_turned_away(int sock)
{
	struct wire_message message = receive_message(sock);

	assert_int_equal(message.type, WIRE_REFUSED);
	assert_int_equal(message.refused.error, -EPROTO);
	expect_end(sock);
	assert_null(broker.sessions->by_id);
	assert_int_equal(greeting(), 0);
	assert_int_equal(broker.counters.sessions_opened, 0);
	assert_int_equal(broker.counters.sessions_left, 0);
	close(sock);
}

void expect_bytes_disconnect(const void *bytes, size_t length)
{
	struct wire_message message = named(WIRE_CREATE, 3, "ignored");
	struct peer peer = join(), other;
	uint64_t before = broker.counters.sessions_cut;

	assert_int_equal(send(peer.sock, bytes, length, 0), length);
	expect_end(peer.sock);
	assert_int_equal(broker.counters.sessions_cut, before + 1);
	socket_send(peer.sock, &message, -1, MSG_DONTWAIT);
	other = join();
	expect_served(&other);
	assert_null(registry_find(broker.registry, "ignored"));
	part(&other);
	part(&peer);
	EXPECT_SOON(!broker.sessions->by_id);
}

void fill_queue(const struct peer *peer, unsigned count)
{
	const struct session *session = session_of(peer);
	struct wire_message message = named(WIRE_STAT, 1, "no-such");

	while (session->outbox.count < count) {
		unsigned missing = session->outbox.count ? count - session->outbox.count : 1;

		for (unsigned i = 0; i < missing && i < 16; i++)
			say(peer->sock, &message);
		run_pass();
	}
	assert_int_equal(session->outbox.count, count);
	assert_int_equal(session->state, SESSION_OPEN);
}

void bury(struct peer *peer)
{
	struct session *session = session_of(peer);

	while (session->mappings.by_id) {
		broker.counters.mappings_died++;
		mapping_end(broker.registry, session->mappings.by_id);
	}
	part(peer);
}

/* ---- clients in processes of their own ---- */

/* It keeps two pipes, and the socket that it is given: copies of others' sockets would hide their hang-ups. */
_Noreturn static void child_run(child_main *run, int in, int out, int sock)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	alarm(30);
	dup2(in, STDIN_FILENO);
	dup2(out, STDOUT_FILENO);
	if (sock >= 0)
		dup2(sock, GIVEN_SOCK);
	close_range(sock >= 0 ? GIVEN_SOCK + 1 : GIVEN_SOCK, ~0u, 0);
	is_child = true;
	run(GIVEN_SOCK);
	_exit(0);
}

struct child child_start(child_main *run, int sock)
{
	struct child child;
	int to[2], from[2];

	assert_int_equal(pipe2(to, O_CLOEXEC), 0);
	assert_int_equal(pipe2(from, O_CLOEXEC), 0);
	fflush(NULL);
	child.pid = fork();
	assert_true(child.pid >= 0);
	if (!child.pid)
		child_run(run, to[0], from[1], sock);
	close(to[0]);
	close(from[1]);
	child.in = from[0];
	child.out = to[1];
	return child;
}

void tell(void)
{
	if (write(STDOUT_FILENO, "!", 1) != 1)
		_exit(1);
}

void linger(void)
{
	char byte;

	while (read(STDIN_FILENO, &byte, 1) > 0)
		;
}

bool told(const struct child *child)
{
	struct pollfd p = { .fd = child->in, .events = POLLIN };
	char byte = 0;

	return poll(&p, 1, 0) == 1 && read(child->in, &byte, 1) == 1 && byte == '!';
}

void child_kill(const struct child *child)
{
	kill(child->pid, SIGKILL);
	assert_int_equal(waitpid(child->pid, NULL, 0), child->pid);
}

void child_forget(const struct child *child)
{
	close(child->in);
	close(child->out);
}
