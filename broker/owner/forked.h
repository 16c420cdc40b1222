/* SPDX-License-Identifier: Apache-2.0 */
/*
 * forked.h - the first steps of a process that is forked to be the owner of the devices, or the parent of owners.
 *
 * Both processes leave all of their parent's descriptors but one socket, and its signals, behind, and end with their
 * parent. Owns nothing. Never returns an error: a process that cannot take these steps ends with EXIT_FAILURE.
 */
#ifndef GPUB_OWNER_FORKED_H
#define GPUB_OWNER_FORKED_H

#include <sys/types.h>

#define FORKED_SOCK 3 /* the number of the socket afterwards, behind the standard streams */

/*
 * Renames the process, leaves it the socket, as FORKED_SOCK, and standard error, and blocks all signals. Standard input
 * and output become /dev/null. The process ends by SIGKILL when `parent` ends, also while a device call hangs.
 */
void forked_become(const char *name, int sock, pid_t parent);

/* Makes this process the owner: becomes it, serves the broker at the other end of the socket, and exits with 0. */
_Noreturn void forked_owner(int sock, pid_t parent);

#endif
