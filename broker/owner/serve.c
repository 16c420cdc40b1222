/* SPDX-License-Identifier: Apache-2.0 */
/* serve.c - see serve.h */
#include "serve.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/crash-point.h"
#include "common/export.h"
#include "common/thread.h"
#include "device/select.h"
#include "packet.h"

/* ---- lanes ---- */

/* Sends an outcome, with its descriptor if clients map the memory by one. Returns whether the broker is still there. */
static bool answer_order(const struct server *server, const struct order *order, struct outcome *outcome)
{
	bool by_descriptor = order->kind == ORDER_ALLOCATE && export_of(order->exported)->by_descriptor;
	int error;

	outcome->number = order->number;
	if (!by_descriptor)
		outcome->descriptor = -1;
	error = packet_send(server->sock, outcome, sizeof *outcome, outcome->descriptor, 0);
	CRASH_POINT(order_answered);
	explicit_bzero(&outcome->handle, sizeof outcome->handle);
	return !error;
}

static void *server_main(void *argument)
{
	struct server *server = argument;
	struct outcome outcome;
	struct order order;
	int fd;

	do {
		if (packet_receive(server->sock, &order, sizeof order, &fd, 0))
			break;
		CRASH_POINT(order_received);
		owner_carry_out(&server->owner, &order, fd, &outcome);
		CRASH_POINT(order_done);
		if (fd >= 0)
			close(fd);
		explicit_bzero(&order.handle, sizeof order.handle);
	} while (answer_order(server, &order, &outcome));
	/* an order without an answer would be waited for: the broker takes this for the owner's end */
	shutdown(server->sock, SHUT_RDWR);
	return NULL;
}

static int server_start(struct service *service, int sock)
{
	struct server *server = &service->server[service->started];
	int error;

	*server = (struct server){ .sock = sock, .owner.device = service->device };
	error = thread_start(&server->thread, server_main, server);
	if (error) {
		close(sock);
		return error;
	}
	service->started++;
	CRASH_POINT(lane_started);
	return 0;
}

/* Waits until the broker has ended its side of each lane. */
static void servers_end(struct service *service)
{
	for (unsigned i = 0; i < service->started; i++) {
		pthread_join(service->server[i].thread, NULL);
		close(service->server[i].sock);
		owner_deinit(&service->server[i].owner);
	}
}

/* ---- the broker's socket ---- */

static void answer(int sock, struct owner_answer *begun, int error)
{
	begun->error = error;
	begun->pid = getpid();
	if (error)
		memcpy(begun->text, error_text(), sizeof begun->text);
	packet_send(sock, begun, sizeof *begun, -1, 0);
	CRASH_POINT(owner_answered);
}

/* Starts a thread for each lane that comes, until the broker ends its side. */
static void receive_lanes(struct service *service, int sock)
{
	struct owner_answer begun = { 0 };
	unsigned number;
	int lane, error;

	while (!packet_receive(sock, &number, sizeof number, &lane, 0)) {
		if (lane >= 0 && number == service->started && number <= DEVICE_MAX)
			error = server_start(service, lane);
		else
			error = error_set(-EPROTO, "the owner of the devices got no socket for a lane");
		answer(sock, &begun, error);
	}
}

void owner_refuse(int sock, int error)
{
	struct owner_answer refusal = { 0 };

	answer(sock, &refusal, error);
}

void owner_serve_lanes(struct service *service, int sock)
{
	receive_lanes(service, sock);
	servers_end(service);
}

int owner_serve_setup(struct service *service, int sock)
{
	struct owner_answer begun = { 0 };
	struct owner_setup setup;
	int fd, error;

	memset(service, 0, sizeof *service);
	CRASH_POINT(owner_begins);
	error = packet_receive(sock, &setup, sizeof setup, &fd, 0);
	if (error)
		return error;
	error = owner_start(&setup, &begun.facts);
	service->device = error ? NULL : device_find(begun.facts.kind);
	CRASH_POINT(devices_started);
	answer(sock, &begun, error);
	return error;
}

void owner_serve(struct service *service, int sock)
{
	if (!owner_serve_setup(service, sock))
		owner_serve_lanes(service, sock);
	owner_leave();
}
