/* SPDX-License-Identifier: Apache-2.0 */
/*
 * false-brokers.c - no broker, one that comes late or ends in its greeting, one that says what is wrong, one that
 * grants what is wrong, and a server of another user: each a negative errno and one error message.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>

#include "broker/owner/start.h"
#include "broker/registry/board-owner.h"
#include "common/now.h"
#include "common/sealed.h"
#include "common/socket.h"
#include "common/wire.h"
#include "device/select.h"
#include "refusals.h"

static struct puppet a;

/* ---- no broker, a false one ---- */

static int no_broker(const struct order *order)
{
	gpub_client *none = NULL;

	(void)order;
	unsetenv("GPUBROKER");
	setenv("XDG_RUNTIME_DIR", "/nowhere", 1);
	if (access("/run/gpubroker/socket", F_OK))
		REFUSE(gpub_connect(&none, NULL), -ENOENT);
	setenv("GPUBROKER", "no/address", 1);
	REFUSE(gpub_connect(&none, NULL), -EINVAL);
	setenv("GPUBROKER", "no-such-broker", 1);
	REFUSE(gpub_connect(&none, NULL), -ENOENT);
	ALSO(!none);
	REFUSE(gpub_stream_sync(NULL), -EINVAL);
	REFUSE(gpub_trim(none), -EINVAL);
	return verdict();
}

static int server_bind(const char *path)
{
	struct sockaddr_un sun = { .sun_family = AF_UNIX };
	int sock = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	strcpy(sun.sun_path, path);
	if (sock < 0 || bind(sock, (struct sockaddr *)&sun, sizeof sun))
		bail_out("no socket at %s", path);
	return sock;
}

static int server_listen(const char *path)
{
	int sock = server_bind(path);

	if (listen(sock, 8))
		bail_out("nobody listens at %s", path);
	return sock;
}

static void connect_to(const char *path)
{
	struct order order = { .run = do_connect };

	snprintf(order.name, sizeof order.name, "unix:%s", path);
	puppet_tell(&a, order);
}

static int connected(const char *path)
{
	connect_to(path);
	return receive(&a);
}

/* What a client's connect comes to when a server there says only this. */
static int served(int listener, const char *path, const void *bytes, size_t size)
{
	int sock;

	connect_to(path);
	sock = accept(listener, NULL, NULL);
	if (sock < 0 || (size && send(sock, bytes, size, MSG_NOSIGNAL) != (ssize_t)size))
		bail_out("nobody connects");
	close(sock);
	return receive(&a);
}

/* How far a greeting comes. */
enum greeting { GREETING_NONE, GREETING_CHALLENGED, GREETING_SAID_HELLO };

static void greet_until(int sock, enum greeting end)
{
	struct wire_message message;

	wire_init(&message, WIRE_CHALLENGE, 0);
	wire_hello_fill(&message.hello);
	if (end >= GREETING_CHALLENGED && send(sock, &message, sizeof message, MSG_NOSIGNAL) != sizeof message)
		bail_out("nobody is greeted");
	if (end >= GREETING_SAID_HELLO && recv(sock, &message, sizeof message, 0) != sizeof message)
		bail_out("nobody says hello");
}

/*
 * A server that hangs up on the first connection, at that point of the greeting, and refuses the second: the connect is
 * made again, by itself, and after the refusal not once more.
 */
static int served_again(int listener, const char *path, enum greeting end, const struct wire_message *refusal)
{
	struct pollfd p = { .fd = listener, .events = POLLIN };
	int sock, error;

	connect_to(path);
	sock = accept(listener, NULL, NULL);
	greet_until(sock, end);
	close(sock);
	sock = accept(listener, NULL, NULL);
	if (sock < 0 || send(sock, refusal, sizeof *refusal, MSG_NOSIGNAL) != sizeof *refusal)
		bail_out("nobody connects again");
	close(sock);
	error = receive(&a);
	return poll(&p, 1, 0) ? -EEXIST : error;
}

/* How long a connect takes, in milliseconds, that nobody listens for. It must fail with -ECONNREFUSED. */
static uint64_t refused_after(const char *path)
{
	uint64_t began = now_ms(CLOCK_MONOTONIC);

	return connected(path) == -ECONNREFUSED ? now_ms(CLOCK_MONOTONIC) - began : 0;
}

/* A server at whose socket nobody listens at first, as at that of a broker whose successor is about to come. */
static int served_late(const char *path, const struct wire_message *refusal)
{
	int sock, listener = server_bind(path);
	struct pollfd p = { .fd = listener, .events = POLLIN };

	connect_to(path);
	usleep(20000); /* for an attempt that finds nobody */
	if (listen(listener, 8))
		bail_out("no server listens");
	if (!SOON(poll(&p, 1, 0) || puppet_answered(&a)))
		bail_out("no connection, and no answer of the client");
	sock = p.revents ? accept(listener, NULL, NULL) : -1;
	if (sock >= 0 && send(sock, refusal, sizeof *refusal, MSG_NOSIGNAL) != sizeof *refusal)
		bail_out("the refusal cannot be sent");
	close(sock);
	close(listener);
	unlink(path);
	return receive(&a);
}

/* The same, again if this test was stopped for so long that the client has ended its attempts. */
static int served_late_at_last(const char *path, const struct wire_message *refusal)
{
	int error = -ECONNREFUSED;

	for (int tries = 0; tries < 5 && error == -ECONNREFUSED; tries++)
		error = served_late(path, refusal);
	return error;
}

static void *hang_up(void *listener)
{
	int sock;

	while ((sock = accept(*(int *)listener, NULL, NULL)) >= 0)
		close(sock);
	return NULL;
}

/* A server that hangs up on every connection, until the client has ended its attempts. */
static int served_nothing(int listener, const char *path)
{
	pthread_t thread;
	int error;

	if (pthread_create(&thread, NULL, hang_up, &listener))
		bail_out("no thread");
	error = connected(path);
	shutdown(listener, SHUT_RDWR);
	pthread_join(thread, NULL);
	return error;
}

static void test_false_broker(void)
{
	static const char *const greetings[] = { "at once", "after its CHALLENGE", "after the HELLO" };
	char directory[] = "/tmp/gpubroker-bad-XXXXXX", path[40];
	struct wire_message message;
	int listener;

	puppet_start_unconnected(&a, NULL);
	POINT(!ask(&a, no_broker), "no broker is known, or none by that address");
	if (!mkdtemp(directory))
		bail_out("no directory");
	snprintf(path, sizeof path, "%s/socket", directory);
	listener = server_listen(path);
	wire_init(&message, WIRE_CHALLENGE, 0);
	message.version++;
	POINT(served(listener, path, &message, sizeof message) == -EPROTO && strstr(a.last.text, "version"),
	      "a server of another version: EPROTO, %s", a.last.text);
	wire_init(&message, WIRE_CHALLENGE, 0);
	POINT(served(listener, path, &message, sizeof message) == -EPROTO && strstr(a.last.text, "upgrade the broker"),
	      "a server of a revision that is too old: EPROTO, %s", a.last.text);
	message.hello.oldest = message.hello.newest = WIRE_REVISION + 1;
	POINT(served(listener, path, &message, sizeof message) == -EPROTO && strstr(a.last.text, "upgrade the library"),
	      "a server that is too new: EPROTO, %s", a.last.text);
	memset(&message, 0xee, sizeof message);
	POINT(served(listener, path, &message, sizeof message) == -EPROTO, "a server that talks nonsense: EPROTO");
	POINT(served(listener, path, "hello", 5) == -EPROTO, "a server that says too little: EPROTO");
	wire_init(&message, WIRE_GRANT, 0);
	POINT(served(listener, path, &message, sizeof message) == -EPROTO, "a message out of place: EPROTO");
	wire_refuse(&message, 0, -EPERM, "nobody is wanted here today");
	POINT(served(listener, path, &message, sizeof message) == -EPROTO && strstr(a.last.text, "wanted here"),
	      "a server that refuses: EPROTO and its own error message");
	wire_refuse(&message, 0, -EDQUOT, "enough of you");
	POINT(served(listener, path, &message, sizeof message) == -EDQUOT && strstr(a.last.text, "enough of you"),
	      "one that refuses because of a quota: EDQUOT");
	wire_refuse(&message, 0, -EAGAIN, "nobody is wanted here today");
	POINT(served(listener, path, &message, sizeof message) == -EPROTO, "whatever else it says: EPROTO");
	for (enum greeting end = GREETING_NONE; end <= GREETING_SAID_HELLO; end++)
		POINT(served_again(listener, path, end, &message) == -EPROTO && strstr(a.last.text, "wanted here"),
		      "a server that hangs up %s, as one that is replaced: the connect is made again, and refused once",
		      greetings[end]);
	chmod(directory, 0777);
	POINT(connected(path) == -EPERM, "a socket in a directory that others may write: EPERM");
	chmod(directory, 0770);
	POINT(connected(path) == -EPERM, "in one that a group may write: EPERM");
	chmod(directory, 0700);
	POINT(served_nothing(listener, path) == -ECONNRESET, "a server that hangs up: ECONNRESET");
	close(listener);
	POINT(refused_after(path) >= 1000 && strstr(a.last.text, "no broker answers"),
	      "a socket at which nobody listens: ECONNREFUSED, after a second");
	unlink(path);
	POINT(served_late_at_last(path, &message) == -EPROTO && strstr(a.last.text, "wanted here"),
	      "one at which a server listens in a moment: the connect is made again");
	unlink(path);
	rmdir(directory);
	puppet_kill(&a);
}

/* ---- one that grants what is wrong ---- */

#define PLACES  4 /* of buffers, and of handles, in its board */
#define SESSION 7

static struct board_owner board;
static const uint8_t key[WIRE_KEY_SIZE] = { 'k', 'e', 'y' };
static int sock; /* its end of the connection */

static void say(const struct wire_message *message, int fd)
{
	if (socket_send(sock, message, fd, 0))
		bail_out("the client has hung up");
}

/* The next message of the client, which must be of that type. */
static struct wire_message received(enum wire_type type)
{
	struct wire_message message;
	struct socket_extra extra;

	if (socket_receive(sock, &message, &extra, false, 0))
		bail_out("the client has hung up");
	if (message.type != type)
		bail_out("the client says %s, not %s", wire_row(message.type)->name, wire_row(type)->name);
	return message;
}

static int welcomed(int listener, const char *path)
{
	struct wire_message message;

	connect_to(path);
	sock = accept(listener, NULL, NULL);
	wire_init(&message, WIRE_CHALLENGE, 0);
	wire_hello_fill(&message.hello);
	say(&message, -1);
	received(WIRE_HELLO);
	wire_init(&message, WIRE_WELCOME, 0);
	message.welcome.session = SESSION;
	memcpy(message.welcome.key, key, sizeof key);
	say(&message, board.fd);
	return receive(&a);
}

/* Answers the next acquire with memory that does not exist any more, whose handle alone would open it. */
static void grant(uint64_t mapping, uint32_t buffer)
{
	static const struct device_handle ended = { "/gpubroker.ended.mem" };
	struct wire_message message;
	struct seal_terms terms;

	wire_init(&message, WIRE_GRANT, received(WIRE_ACQUIRE).request);
	message.grant = (struct wire_grant){ .mapping = mapping,
					     .serial = 5,
					     .size = 4096,
					     .span = 4096,
					     .reserve = 4096,
					     .buffer = buffer,
					     .rights = GPUB_READ | GPUB_WRITE,
					     .exported = EXPORT_IPC };
	terms = board_grant_terms(board.header, SESSION, &message.grant);
	handle_seal(&board.board.handles[0], &terms, &ended, key);
	say(&message, -1);
}

static void is_now(enum board_state state)
{
	atomic_store(&board.board.words[1], BOARD_WORD(5, state));
}

static void acquire_soon(void)
{
	puppet_tell(&a, (struct order){ .run = do_acquire, .name = "x" });
}

static bool says_closed(uint64_t mapping)
{
	return received(WIRE_CLOSED).grant_id.mapping == mapping;
}

static void test_false_grants(void)
{
	char directory[] = "/tmp/gpubroker-bad-XXXXXX", path[40];
	const struct device *device;
	struct owner_facts facts;
	struct wire_message refused;
	int listener;

	puppet_start_unconnected(&a, NULL);
	if (device_select("host", false, &device) || owner_facts_of(device, &facts) ||
	    board_create(&board, "false", &facts, PLACES, PLACES) || !mkdtemp(directory))
		bail_out("no board or no directory");
	snprintf(path, sizeof path, "%s/socket", directory);
	listener = server_listen(path);
	POINT(!welcomed(listener, path), "a server that grants what is wrong: its greeting is as it should be");
	acquire_soon();
	grant(1, UINT32_MAX / 16);
	POINT(says_closed(1) && receive(&a) == -EPROTO && strstr(a.last.text, "invalid grant"),
	      "memory that cannot be opened, of a buffer that is not in the board: EPROTO, and no word of it is read");
	is_now(BOARD_LIVE);
	acquire_soon();
	grant(2, 1);
	POINT(says_closed(2) && receive(&a) == -ENODEV, "of a buffer that has its name: the error of the open");
	is_now(BOARD_DRAINING);
	acquire_soon();
	grant(3, 1);
	POINT(says_closed(3), "of one that lost its name: memory that ended with its owner");
	wire_refuse(&refused, received(WIRE_ACQUIRE).request, -ENOENT, "there is no such buffer here");
	say(&refused, -1);
	POINT(receive(&a) == -ENOENT, "and the acquire asks again");
	puppet_kill(&a);
	close(sock);
	close(listener);
	board_destroy(&board);
	unlink(path);
	rmdir(directory);
}

/* ---- a server of another user ---- */

#define NOBODY 65534

/* A server of that user, which only listens; what it listens at is said through the pipe. */
static _Noreturn void serve_as(uid_t uid, int report)
{
	char directory[] = "/tmp/gpubroker-bad-XXXXXX", path[40] = "";

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (setuid(uid) || !mkdtemp(directory))
		_exit(1);
	prctl(PR_SET_PDEATHSIG, SIGKILL); /* a change of the user takes it away */
	snprintf(path, sizeof path, "%s/socket", directory);
	server_listen(path);
	if (write(report, path, sizeof path) != sizeof path)
		_exit(1);
	for (;;)
		pause();
}

static void test_other_users_server(void)
{
	char path[40] = "", *slash;
	int report[2], listener;
	pid_t server;

	if (geteuid()) {
		POINT(true, "a server of another user # SKIP needs root to start one");
		return;
	}
	if (pipe(report))
		bail_out("no pipe");
	server = fork();
	if (!server)
		serve_as(NOBODY, report[1]);
	close(report[1]);
	if (read(report[0], path, sizeof path) != sizeof path)
		bail_out("no server of another user");
	close(report[0]);
	puppet_start_unconnected(&a, NULL);
	POINT(connected(path) == -EPERM && strstr(a.last.text, "65534"), "a server of another user: EPERM, %s",
	      a.last.text);
	kill(server, SIGKILL);
	waitpid(server, NULL, 0);
	unlink(path);
	/* one of this user, in a directory that another could put one in */
	listener = server_listen(path);
	POINT(connected(path) == -EPERM && strstr(a.last.text, "directory"),
	      "a socket in another user's directory: EPERM, %s", a.last.text);
	close(listener);
	unlink(path);
	slash = strrchr(path, '/');
	*slash = 0;
	rmdir(path);
	puppet_kill(&a);
}

int main(void)
{
	harness_begin("false-brokers", 60);
	test_false_broker();
	test_false_grants();
	test_other_users_server();
	return harness_end();
}
