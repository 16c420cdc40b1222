/* SPDX-License-Identifier: Apache-2.0 */
/*
 * service.h - the broker's process of brokerd: one broker from its start to its end.
 *
 * Has the owner start the device, reports readiness, runs the loop; reads the configuration again on SIGHUP; at the
 * stop unlinks the buffers, and waits until all memory is freed, at most drain_timeout. Never frees memory that a
 * process still maps: after drain_timeout the process ends, and the driver frees the memory later. Takes signals from
 * its keeper (brokerd.c) alone. Owns the broker; socket and notify are copies of the keeper's.
 */
#ifndef GPUB_BROKERD_SERVICE_H
#define GPUB_BROKERD_SERVICE_H

#include <signal.h>
#include <stdbool.h>

#include "broker/core/broker.h"
#include "broker/core/control.h"
#include "notify.h"
#include "options.h"
#include "reader.h"
#include "socket.h"

#define EXIT_BROKER 1 /* brokerd failed, or memory was still in use after drain_timeout or a second signal to stop */
#define EXIT_USAGE  2

struct keeper_end;

/* In memory that keeper and brokers share, so that a reload outlives the broker that was asked for it. */
struct reloads {
	_Atomic unsigned asked; /* number of SIGHUPs that the keeper has received */
	_Atomic unsigned begun; /* how many of them came before the last reading of the configuration has begun */
	_Atomic unsigned done;  /* how many of them came before the last reading of the configuration that has ended */
};

/* The members up to `reloads` are the keeper's; the others are zero. */
struct service {
	struct brokerd_options options;
	struct brokerd_config *config; /* the current configuration, which the member `broker` uses */
	struct brokerd_socket  socket;
	struct notify          notify;
	struct board_owner     board;  /* of board_reserve() */
	struct reloads        *reloads;
	struct broker          broker;
	struct core            core; /* the parts of the member `broker` */
	struct reader          reader;
	struct control         control;
	bool                   inherited;    /* the socket is that of the broker before, and kept for the next */
	bool                   stopping;     /* the keeper has asked for the end */
	bool                   left;         /* true: brokerd ends though memory is still in use */
	bool                   orphaned;     /* no other owner of the device memory starts, so brokerd ends */
	/* the socket was removed, and the last try to make it again failed */
	bool                   deaf;
	unsigned               reading; /* reloads->asked when the last reading began */
};

/*
 * Runs a broker that begins with what the keeper gives, on the signals that signals_used() sets, which are blocked.
 * Returns the exit status of the program. Does not return if a thread hangs that reads the configuration: ends the
 * process with that status.
 */
int service_run(struct service *service, struct keeper_end *from);

#endif
