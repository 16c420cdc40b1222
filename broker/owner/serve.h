/* SPDX-License-Identifier: Apache-2.0 */
/*
 * serve.h - the owner's work: starts the devices, and carries out the broker's orders, one thread for each lane.
 *
 * A lane is a socket pair between broker and owner. Each device has one, whose thread alone touches the device's
 * memory; a last one is for the questions that concern all devices, such as whether the driver still lists a dead
 * process. Device calls take from microseconds to seconds: a device that hangs delays no other lane. Owns the threads
 * and, with them, the memory of the devices. Never decides anything, and needs no memory for an order.
 */
#ifndef GPUB_OWNER_SERVE_H
#define GPUB_OWNER_SERVE_H

#include <pthread.h>

#include "owner.h"
#include "start.h"

/* The thread of a lane. */
struct server {
	int          sock;  /* the owner's end of the lane */
	pthread_t    thread;
	struct owner owner; /* the memory of the device; used by the thread alone */
};

struct service {
	const struct device *device;                 /* the kind of device */
	unsigned             started;                /* number of servers whose thread runs */
	struct server        server[DEVICE_MAX + 1]; /* one for each device, then one for the questions */
};

/* The owner's answer to its setup, or to a lane. */
struct owner_answer {
	int                error; /* 0, or a negative errno with the error message in `text` */
	char               text[ERROR_TEXT_MAX];
	pid_t              pid;   /* the owner's */
	struct owner_facts facts; /* answers the setup */
};

/*
 * Serves the broker at the other end of the socket. Receives a struct owner_setup, starts the devices, and answers with
 * a struct owner_answer. Then receives the lanes: packets with a device's number, in order, and a descriptor; answers
 * each, and carries out the orders that come through it. Returns when the broker has ended its side of the socket and
 * of each lane, and all orders are carried out.
 */
void owner_serve(struct service *service, int sock);

/* Answers the setup with the error, whose message is the error message, instead of an owner that could not begin. */
void owner_refuse(int sock, int error);

/* Does the part up to the answer to the setup. Returns 0, or a negative errno if the devices have not started. */
int owner_serve_setup(struct service *service, int sock);

/* Does the part from the lanes on, with service->device started and all else zero. */
void owner_serve_lanes(struct service *service, int sock);

#endif
