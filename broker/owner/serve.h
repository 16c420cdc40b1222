/* SPDX-License-Identifier: Apache-2.0 */
/*
 * serve.h - the owner's work: starts the devices, and carries out the broker's orders, one thread for each lane.
 *
 * A lane is a socket pair between broker and owner. Each device has one, whose thread alone touches the device's
 * memory; a last one is for the questions that concern all devices, such as whether the driver still lists a dead
 * process. Device calls take from microseconds to seconds: a device that hangs delays no other lane.
 *
 * The owner ends with its socket. It outlives its broker if another process has a duplicate of the broker's end: then
 * the next broker says through the socket that it has come, and sends new lanes. Until then the threads whose lane has
 * ended wait.
 *
 * Owns the threads and, with them, the memory of the devices. Never decides anything, and needs no memory for an order.
 */
#ifndef GPUB_OWNER_SERVE_H
#define GPUB_OWNER_SERVE_H

#include <pthread.h>
#include <stdbool.h>

#include "owner.h"
#include "start.h"

struct service;

/* The thread of a lane. */
struct server {
	struct service *service;
	pthread_t       thread;
	struct owner    owner; /* the memory of the device; used by the thread alone */
	/* guarded by service->lock */
	int             sock;  /* the owner's end of the lane that the thread serves; -1: none */
	int             next;  /* the owner's end of the lane that is served next; -1: none has come */
	bool            lists; /* the broker of `next` is told first what this owner has and has done */
};

struct service {
	const struct device *device;                 /* the kind of device */
	struct owner_facts   facts;                  /* answer the setup */
	uint64_t             broker;                 /* owner_request.broker of the last one; 0: there was one broker */
	unsigned             lanes;                  /* number of lanes that the broker has sent */
	unsigned             started;                /* number of servers whose thread runs */
	struct server        server[DEVICE_MAX + 1]; /* one for each device, then one for the questions */
	pthread_mutex_t      lock;
	pthread_cond_t       changed;                /* a server has a next lane, or `ends` is set */
	bool                 ends;                   /* no lane comes any more; guarded by `lock` */
};

/* What the broker sends after the setup. */
struct owner_request {
	enum {
		REQUEST_BROKER, /* another broker has come, and those before it have ended */
		REQUEST_LANE    /* serve the socket that comes beside this */
	}        kind;
	uint64_t broker; /* BROKER: a number other than 0 that no broker of this owner had before */
	unsigned lane;   /* LANE: the device's number, or the number of devices; each broker's begin with 0, in order */
};

/* The owner's answer to its setup, or to a request. */
struct owner_answer {
	int                error;  /* 0, or a negative errno with the error message in `text` */
	char               text[ERROR_TEXT_MAX];
	pid_t              pid;    /* the owner's */
	uint64_t           broker; /* which broker is answered; 0: the first one */
	struct owner_facts facts;  /* answers the setup or a BROKER; facts.count is 0 in other answers */
};

/*
 * Serves the broker at the other end of the socket. Receives a struct owner_setup, starts the devices, and answers with
 * a struct owner_answer. Then answers each struct owner_request, and carries out the orders that come through the
 * lanes. Returns when the broker has ended its side of the socket and of each lane, and all orders are carried out.
 *
 * When another broker has come, the owner begins no order of the lanes of the one before. It finishes what it has
 * begun, and keeps the outcome (order.h). Through each lane of the new broker it then sends struct listed, LISTED_END
 * last.
 */
void owner_serve(struct service *service, int sock);

/* Answers the setup with the error, whose message is the error message, instead of an owner that could not begin. */
void owner_refuse(int sock, int error);

/* Does the part up to the answer to the setup. Returns 0, or a negative errno if the devices have not started. */
int owner_serve_setup(struct service *service, int sock);

/* Does the part after that, with service->device started, service->facts, and all else zero. */
void owner_serve_lanes(struct service *service, int sock);

#endif
