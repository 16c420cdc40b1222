/* SPDX-License-Identifier: Apache-2.0 */
/*
 * connect.c - gpub_connect and gpub_disconnect: the beginning and the end of a connection.
 *
 * A connect finds the broker, checks that it may be trusted (trust.h), greets it, and sets up the client. A
 * disconnect closes what can be closed, sends LEAVE, and waits for both threads. Owns the order of these steps, and
 * undoes the steps of a failed connect in reverse. Never leaves a thread, a descriptor or a key behind.
 */
#include "connect.h"

#include <errno.h>
#include <poll.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "address.h"
#include "cache.h"
#include "call.h"
#include "client.h"
#include "clock.h"
#include "close.h"
#include "common/crash-point.h"
#include "common/environment.h"
#include "common/error.h"
#include "common/mps.h"
#include "common/socket.h"
#include "common/tables.h"
#include "common/thread.h"
#include "devices.h"
#include "fork.h"
#include "hold.h"
#include "interrupt.h"
#include "receiver.h"
#include "service.h"
#include "timeline-end.h"
#include "trace.h"
#include "trust.h"

#define GREETING_SECONDS 30
#define AGAIN_MS         1000 /* how long a connect tries again (may_come()) */
#define AGAIN_PAUSE_MS   10

/* How gpub_connect() and the functions of connect.h connect. */
struct manner {
	bool     with_device; /* start the kind of device that the broker serves */
	/* limit on the accept, and on each message of the greeting; 0: GREETING_SECONDS for each message */
	unsigned seconds;
};

/*
 * Connects to the broker at place->address. If the address is from a status file, checks it before the connect, and
 * limits the time of the connect, because any user may have written the file and named a socket whose server does not
 * answer.
 */
static int place_connect(const struct broker_place *place, struct sockaddr_un *sun, unsigned seconds)
{
	int error = socket_address(place->address, sun);

	if (!error && place->is_claimed)
		error = trust_check_place(sun->sun_path);
	if (error)
		return error;
	return socket_connect_within(sun, place->is_claimed && !seconds ? GREETING_SECONDS : seconds);
}

static int socket_open(struct gpub_client *client, const char *given, struct broker_place *place, unsigned seconds)
{
	struct sockaddr_un sun;
	int sock = broker_place_find(given, place);

	if (!sock)
		sock = place_connect(place, &sun, seconds);
	if (sock < 0)
		return given ? sock : environment_note(sock, "GPUBROKER");
	owned_fd_take(&client->link.sock, sock);
	CRASH_POINT(connected);
	return trust_check(sock, sun.sun_path);
}

/* ---- greeting ---- */

/*
 * Receives a message, and calls this thread's interrupt function every INTERRUPT_MS meanwhile. -EAGAIN: no message came
 * within `seconds`. -EINTR: the function interrupted. Or another error of socket_receive().
 */
static int receive_within(int sock, struct wire_message *message, struct socket_extra *extra, bool want_fd,
			  unsigned seconds)
{
	struct timespec last = client_deadline(seconds * 1000ll);
	int error;

	for (;;) {
		error = socket_receive(sock, message, extra, want_fd, 0);
		if (error != -EAGAIN || !interrupt_is_set() || client_past(&last))
			return error;
		error = interrupt_ask();
		if (error)
			return error;
	}
}

/*
 * Receives one message of the greeting. *fd: the descriptor that came with it (fd may be NULL). -ETIMEDOUT: no message
 * came within `seconds`. -EDQUOT: the message is a REFUSED because of a quota. -EPROTO: it is another REFUSED, or
 * not of the type `type`.
 */
static int expect(int sock, enum wire_type type, struct wire_message *message, int *fd, unsigned seconds)
{
	struct socket_extra extra;
	int error = receive_within(sock, message, &extra, fd != NULL, seconds);

	if (error == -EAGAIN)
		return error_set(-ETIMEDOUT, "the broker does not answer in time: it is busy, or hangs");
	if (error)
		return error;
	if (fd)
		*fd = extra.fd;
	if (message->type == WIRE_REFUSED)
		return error_set(message->refused.error == -EDQUOT ? -EDQUOT : -EPROTO,
				 "the broker refuses this process: %s", message->refused.text);
	if (message->type != type)
		return error_set(-EPROTO, "the broker answered with %s", wire_row(message->type)->name);
	return 0;
}

/*
 * Finds this process's rank in its job, which is only shown to people. The program that started the job has set one of
 * these environment variables. False: no variable has a rank.
 */
static bool rank_find(uint32_t *rank)
{
	static const char *const variables[] = { "GPUBROKER_RANK", "OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK",
						 "SLURM_PROCID" };

	for (size_t i = 0; i < sizeof variables / sizeof *variables; i++) {
		const char *text = environment_get(variables[i]);
		size_t digits = text ? strspn(text, "0123456789") : 0;

		if (digits && digits <= 9 && !text[digits]) {
			*rank = (uint32_t)strtoul(text, NULL, 10);
			return true;
		}
	}
	return false;
}

static int greet(struct gpub_client *client, unsigned seconds)
{
	struct timeval patience = { .tv_sec = (time_t)seconds };
	struct wire_message message, hello;
	int sock = client->link.sock.fd, board = -1, error, revision;

	if (interrupt_is_set())
		patience = (struct timeval){ .tv_usec = INTERRUPT_MS * 1000 };
	setsockopt(sock, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
	error = expect(sock, WIRE_CHALLENGE, &message, NULL, seconds);
	if (error)
		return error;
	CRASH_POINT(challenged);
	revision = wire_agree(&message.hello, "broker", "library");
	if (revision < 0)
		return revision;
	client->revision = (unsigned)revision;
	wire_init(&hello, WIRE_HELLO, 0);
	memcpy(hello.hello.nonce, message.hello.nonce, sizeof hello.hello.nonce);
	wire_hello_fill(&hello.hello);
	/* the broker uses WIRE_HELLO_MPS only if the driver does not list MPS clients */
	hello.hello.flags = WIRE_HELLO_WAITS | (mps_is_here(NULL) ? WIRE_HELLO_MPS : 0) |
			    (rank_find(&hello.hello.rank) ? WIRE_HELLO_RANK : 0);
	hello.hello.pid = (uint32_t)getpid();
	error = socket_send(sock, &hello, -1, 0);
	if (error)
		error_set(error, "the broker went away before it was greeted: connect anew");
	CRASH_POINT(hello_sent);
	if (!error)
		error = expect(sock, WIRE_WELCOME, &message, &board, seconds);
	if (!error) {
		CRASH_POINT(welcomed);
		client->session = message.welcome.session;
		client->connected = ticks_moment();
		client->user = message.welcome.user;
		client->broker = message.welcome.broker;
		memcpy(client->key, message.welcome.key, WIRE_KEY_SIZE);
		error = board >= 0 ? board_map(&client->board, board) :
				     error_set(-EMFILE, "no descriptor is left in this process for the board");
		CRASH_POINT(board_mapped);
	}
	sodium_memzero(&message, sizeof message);
	if (board >= 0)
		close(board);
	return error ? error : receiver_init(client);
}

/* ---- connecting ---- */

/*
 * Whether a connect that ended with this error may succeed soon, because a broker ended and its successor is about to
 * listen at the same socket: the connection broke in its greeting, or the socket's file exists and nobody listens.
 */
static bool may_come(const struct broker_place *place, int error)
{
	return error == -ECONNRESET || (error == -ECONNREFUSED && *place->address);
}

/*
 * Connects and greets, again and again while may_come(), until AGAIN_MS after the first attempt began. A broker's
 * refusal, and any other error, ends the attempts. place->address is empty if no broker was found. -ECONNRESET: a
 * connection broke in its greeting, and no later one was greeted.
 */
static int meet(struct gpub_client *client, const char *address, struct broker_place *place, unsigned seconds)
{
	struct timespec last = client_deadline(AGAIN_MS);
	bool broke = false;
	int error;

	for (;;) {
		*place = (struct broker_place){ .address = "" };
		error = socket_open(client, address, place, seconds);
		if (!error)
			error = greet(client, seconds ? seconds : GREETING_SECONDS);
		broke |= error == -ECONNRESET;
		if (!may_come(place, error) || client_past(&last))
			break;
		error = interrupt_ask();
		if (error)
			return error;
		owned_fd_close(&client->link.sock);
		poll(NULL, 0, AGAIN_PAUSE_MS);
	}
	return broke && (error == -ECONNREFUSED || error == -ENOENT) ? link_lost_error(&client->link) : error;
}

/*
 * Checks that the broker has the instance name that the program gave, because another broker may listen at the address.
 * -ENOENT, error message set: it has another name.
 */
static int instance_expect(const struct gpub_client *client, const struct broker_place *place)
{
	const char *instance = client->board.header->instance;

	if (!*place->instance || !strcmp(instance, place->instance))
		return 0;
	return error_set(-ENOENT, "no broker is named '%s' here that this user can find: the one at %s is '%s'",
			 place->instance, place->address, instance);
}

static int client_begin(struct gpub_client *client, const char *address, const struct manner *manner)
{
	struct broker_place place;
	int error;

	fork_guard(client);
	CRASH_POINT(connect_begin);
	error = meet(client, address, &place, manner->seconds);
	if (!error)
		error = instance_expect(client, &place);
	if (!error)
		error = manner->with_device ? devices_begin(client) : devices_none(client);
	if (error)
		goto unguard;
	CRASH_POINT(device_started);
	atomic_store(&client->guard->state, CLIENT_OPEN);
	error = service_start(client);
	if (error)
		goto end;
	CRASH_POINT(service_started);
	if (manner->with_device)
		devices_use(client->device);
	return 0;
end:
	atomic_store(&client->guard->state, CLIENT_ENDED);
unguard:
	board_unmap(&client->board);
	fork_unguard(client);
	return error;
}

static int client_connect(struct gpub_client **result, const char *address, struct manner manner)
{
	struct gpub_client *client;
	int error;
	HOLD_CANCELLATION();

	trace_start();
	TRACE("connect");
	if (sodium_init() < 0)
		return error_set(-ENOSYS, "libsodium does not start: no source of random numbers");
	tables_init();
	client = client_alloc();
	if (!client)
		return error_set(-ENOMEM, "out of memory for a client");
	error = client_begin(client, address, &manner);
	if (error) {
		sodium_free(client->key);
		client->key = NULL;
		client_recycle(client);
		return error;
	}
	*result = client;
	return 0;
}

int gpub_connect(gpub_client **result, const char *address)
{
	if (!result)
		return error_set(-EINVAL, "there is no place for the client: pass the address of a pointer");
	return client_connect(result, address, (struct manner){ .with_device = true });
}

int client_connect_bare(struct gpub_client **result, const char *address)
{
	return client_connect(result, address, (struct manner){ .with_device = false });
}

int client_connect_within(struct gpub_client **result, const char *address, unsigned seconds)
{
	return client_connect(result, address, (struct manner){ .seconds = seconds });
}

/* ---- disconnecting ---- */

static void drop_all_holds(struct gpub_client *client)
{
	struct record *record;

	pthread_mutex_lock(&client->lock);
	client->leaving = true;
	for (record = client->records.all; record; record = record->next)
		record_drop_holds(record);
	pthread_cond_broadcast(&client->changed);
	pthread_mutex_unlock(&client->lock);
}

/*
 * Whether the client belongs to the parent of this process, a forked child, which can use nothing of the client and
 * must close nothing of it.
 */
static bool client_inherited(const struct gpub_client *client)
{
	return atomic_load(&client->guard->state) == CLIENT_FORKED;
}

static int say_leave(struct gpub_client *client)
{
	struct wire_message request, reply;

	wire_init(&request, WIRE_LEAVE, 0);
	return call_broker(client, &request, &reply, NULL, NULL);
}

/*
 * Sends LEAVE, which tells the broker that all device work of this process is done, also its signals. If a signal has
 * not landed, shuts the connection down without LEAVE, as if the process had died, so that processes that read its
 * timelines learn that its work is not complete. False: LEAVE was not sent or not answered.
 */
static bool leave(struct gpub_client *client)
{
	int error = timelines_land(client);

	CRASH_POINT(signals_landed);
	if (!error && atomic_load(&client->guard->state) == CLIENT_OPEN && !say_leave(client))
		return true;
	link_shutdown(&client->link, SHUT_RDWR);
	return false;
}

void gpub_disconnect(gpub_client *client)
{
	HOLD_CANCELLATION();
	HOLD_INTERRUPT();
	bool told;

	if (!client || client_inherited(client) || atomic_load(&client->guard->state) == CLIENT_ENDED)
		return;
	TRACE("disconnect");
	CRASH_POINT(disconnect_begin);
	drop_all_holds(client);
	CRASH_POINT(holds_dropped);
	cache_stop(client);
	CRASH_POINT(closer_stopped);
	cache_close_all(client);
	CRASH_POINT(leave_begin);
	told = leave(client);
	pthread_join(client->service, NULL);
	if (!told)
		timelines_end_now(client);
	CRASH_POINT(left);
	atomic_store(&client->guard->state, CLIENT_ENDED);
	fork_unguard(client);
	CRASH_POINT(socket_closed);
	sodium_free(client->key);
	client->key = NULL;
	client_forget_all(client);
	board_unmap(&client->board);
	client_recycle(client);
	CRASH_POINT(disconnected);
}

/* ---- the error message ---- */

const char *gpub_strerror_last(void)
{
	return error_text();
}
