/* SPDX-License-Identifier: Apache-2.0 */
/*
 * parent.h - the process that forks the owners, one after the other, and says when one has ended.
 *
 * The broker forks it once, before it has keys, clients or threads, so no owner has anything of them, whenever it is
 * forked. It has no descriptor but its end of a socket pair and standard error, blocks all signals, and ends with the
 * broker; its owner ends with it. Never opens a device, and never talks to anybody but the broker.
 */
#ifndef GPUB_OWNER_PARENT_H
#define GPUB_OWNER_PARENT_H

#include <sys/types.h>

/*
 * What the broker sends it. For each BEGIN it sends back, as an int, how the owner ended: its status of wait(2), or -1
 * if none could be forked, which the owner's socket has told, too.
 */
enum parent_order {
	PARENT_BEGIN, /* forks an owner, which serves the socket that comes beside this; the last one has ended */
	PARENT_KILL   /* ends the owner by SIGKILL, if one runs */
};

/* Runs in the forked process, which has its end of the socket pair in `sock`. `broker` is the pid of the broker. */
_Noreturn void parent_main(int sock, pid_t broker);

#endif
