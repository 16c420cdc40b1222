/* SPDX-License-Identifier: Apache-2.0 */
/*
 * serving.h - the broker's process of broker-run: one broker from its start to its end.
 *
 * Has the owner start the device, creates the declared buffers, tells broker-run's first process what the devices are,
 * runs the loop; at the stop unlinks the buffers, waits until all memory is freed, prints the account. Takes signals
 * from its keeper (broker-run.c) alone. Owns the broker. Knows no worker: the first process has those.
 */
#ifndef GPUB_RUN_SERVING_H
#define GPUB_RUN_SERVING_H

#include <signal.h>
#include <stdbool.h>

#include "broker/core/broker.h"
#include "broker/core/control.h"
#include "drain.h"
#include "options.h"
#include "private-socket.h"

#define EXIT_BROKER 125 /* exit status if broker-run itself fails, as of env(1) and timeout(1): workers rarely use it */

struct keeper_end;
struct kept;

/* The members up to `told` are broker-run's first process's; the others are zero. */
struct serving {
	const struct run_options *options;
	const sigset_t       *signals;  /* blocked; those that signals_used() sets, or fewer */
	struct private_socket socket;   /* the workers' socket as it is at the start of broker-run */
	struct board_owner    board;    /* of board_reserve() */
	/* socket to the first process: the broker sends the struct owner_facts when the workers may begin */
	int                   tell;
	bool                  told;     /* the first process has received that from a broker before this one */
	struct broker         broker;
	struct core           core;     /* the parts of the member `broker` */
	struct control        control;
	struct drain_report   drain;
	unsigned              awaited;  /* number of calls of on_declared() to come before the facts are sent */
	bool                  stopping; /* the first process has asked for the end, or the broker has failed */
	bool                  failed;   /* the first cause is logged */
	bool                  orphaned; /* no other owner of the device memory starts */
	bool                  deaf;     /* the socket was removed, and the last try to make it again failed */
};

/* Runs a broker that begins with what the keeper gives. Returns 0 or EXIT_BROKER; the cause is logged. */
int serving_run(struct serving *serving, struct keeper_end *from);

/*
 * Replaces *socket by the one that the last broker gave to the keeper. Does nothing if there is none. Returns 0, or a
 * negative errno with the error message set.
 */
int serving_take_socket(struct private_socket *socket, struct kept *kept);

#endif
