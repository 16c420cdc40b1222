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

/* ---- the thread of a lane ---- */

/* The descriptor that goes beside an outcome: of new memory that clients map by one; -1: none. */
static int descriptor_of(enum order_kind kind, unsigned exported, const struct outcome *outcome)
{
	return kind == ORDER_ALLOCATE && export_of(exported)->by_descriptor ? outcome->descriptor : -1;
}

/* Returns whether the broker is still there. If not, a kept outcome is listed to the next one. */
static bool answer_order(const struct server *server, const struct order *order, struct outcome *outcome)
{
	int error;

	outcome->descriptor = descriptor_of(order->kind, order->exported, outcome);
	error = packet_send(server->sock, outcome, sizeof *outcome, outcome->descriptor, 0);
	CRASH_POINT(order_answered);
	explicit_bzero(&outcome->handle, sizeof outcome->handle);
	return !error;
}

static bool send_listed(void *context, struct listed *listed)
{
	const struct server *server = context;

	listed->outcome.descriptor = descriptor_of(listed->order, listed->exported, &listed->outcome);
	return !packet_send(server->sock, listed, sizeof *listed, listed->outcome.descriptor, 0);
}

/*
 * Carries out an order and answers it. Returns whether the lane goes on. Closes the descriptor before the answer,
 * because the close of a RELEASE's may be the one that frees the memory.
 */
static bool serve_order(struct server *server, const struct order *order, int descriptor)
{
	struct outcome outcome;

	owner_carry_out(&server->owner, order, descriptor, &outcome);
	CRASH_POINT(order_done);
	if (descriptor >= 0)
		close(descriptor);
	return answer_order(server, order, &outcome);
}

/* Carries out orders until the lane has ended. */
static void serve_orders(struct server *server)
{
	struct order order;
	bool goes_on;
	int descriptor;

	do {
		if (packet_receive(server->sock, &order, sizeof order, &descriptor, 0))
			return;
		CRASH_POINT(order_received);
		goes_on = serve_order(server, &order, descriptor);
		explicit_bzero(&order.handle, sizeof order.handle);
	} while (goes_on);
}

/*
 * Closes the lane, with all orders in it that are not begun: an order without an answer would be waited for, and the
 * broker takes this for the owner's end.
 */
static void lane_end(struct server *server)
{
	int sock;

	pthread_mutex_lock(&server->service->lock);
	sock = server->sock;
	server->sock = -1;
	pthread_mutex_unlock(&server->service->lock);
	close(sock); /* may free memory whose last descriptor came beside an ADOPT */
}

/* Waits for a lane to serve, and stores whether it begins with a list. Returns false if none comes any more. */
static bool lane_begin(struct server *server, bool *lists)
{
	struct service *service = server->service;

	pthread_mutex_lock(&service->lock);
	while (server->next < 0 && !service->ends)
		pthread_cond_wait(&service->changed, &service->lock);
	server->sock = server->next;
	server->next = -1;
	*lists = server->lists;
	pthread_mutex_unlock(&service->lock);
	return server->sock >= 0;
}

static void *server_main(void *argument)
{
	struct server *server = argument;
	bool lists;

	while (lane_begin(server, &lists)) {
		if (lists)
			owner_list(&server->owner, send_listed, server);
		serve_orders(server);
		lane_end(server);
	}
	return NULL;
}

static int server_start(struct service *service, int sock)
{
	struct server *server = &service->server[service->started];
	int error;

	*server = (struct server){ .service = service,
				   .sock = -1,
				   .next = sock,
				   .lists = service->broker,
				   .owner.device = service->device };
	error = thread_start(&server->thread, server_main, server);
	if (error) {
		close(sock);
		return error;
	}
	service->started++;
	CRASH_POINT(lane_started);
	return 0;
}

/* Gives the thread, which has a lane of an earlier broker or none, the lane of another broker. */
static void server_goes_on(struct server *server, int sock)
{
	pthread_mutex_lock(&server->service->lock);
	server->next = sock;
	server->lists = true;
	pthread_cond_broadcast(&server->service->changed);
	pthread_mutex_unlock(&server->service->lock);
}

/*
 * Has the thread leave the lane of an earlier broker, which may not have closed its end yet: after the order that the
 * thread has begun, which it cannot answer, or at once if it waits in a call for the lane.
 */
static void server_replace(struct server *server)
{
	pthread_mutex_lock(&server->service->lock);
	if (server->sock >= 0)
		shutdown(server->sock, SHUT_RDWR);
	if (server->next >= 0)
		close(server->next);
	server->next = -1;
	pthread_mutex_unlock(&server->service->lock);
}

/* Waits until the broker has ended its side of each lane. */
static void servers_end(struct service *service)
{
	pthread_mutex_lock(&service->lock);
	service->ends = true;
	pthread_cond_broadcast(&service->changed);
	pthread_mutex_unlock(&service->lock);
	for (unsigned i = 0; i < service->started; i++) {
		pthread_join(service->server[i].thread, NULL);
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

static void broker_comes(struct service *service, uint64_t broker)
{
	service->broker = broker;
	service->lanes = 0;
	for (unsigned i = 0; i < service->started; i++)
		server_replace(&service->server[i]);
}

static int lane_comes(struct service *service, unsigned number, int sock)
{
	int error = 0;

	if (sock < 0 || number != service->lanes || number > DEVICE_MAX) {
		if (sock >= 0)
			close(sock);
		return error_set(-EPROTO, "the owner of the devices got no socket for a lane");
	}
	if (number < service->started)
		server_goes_on(&service->server[number], sock);
	else
		error = server_start(service, sock);
	service->lanes += !error;
	return error;
}

/* Answers requests until the last process that has the broker's end of the socket has closed it. */
static void serve_requests(struct service *service, int sock)
{
	struct owner_request request;
	struct owner_answer begun;
	int lane, error;

	while (!packet_receive(sock, &request, sizeof request, &lane, 0)) {
		begun = (struct owner_answer){ 0 };
		error = 0;
		if (request.kind == REQUEST_BROKER) {
			broker_comes(service, request.broker);
			begun.facts = service->facts;
		} else {
			error = lane_comes(service, request.lane, lane);
		}
		begun.broker = service->broker;
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
	pthread_mutex_init(&service->lock, NULL);
	pthread_cond_init(&service->changed, NULL);
	serve_requests(service, sock);
	servers_end(service);
	pthread_cond_destroy(&service->changed);
	pthread_mutex_destroy(&service->lock);
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
	error = owner_start(&setup, &service->facts);
	service->device = error ? NULL : device_find(service->facts.kind);
	CRASH_POINT(devices_started);
	begun.facts = service->facts;
	answer(sock, &begun, error);
	return error;
}

void owner_serve(struct service *service, int sock)
{
	if (!owner_serve_setup(service, sock))
		owner_serve_lanes(service, sock);
	owner_leave();
}
