/* SPDX-License-Identifier: Apache-2.0 */
/*
 * forked.h - the first steps of a process that is forked to be the owner of the devices.
 *
 * It leaves all of its parent's descriptors but one socket, and its signals, behind, and ends with its parent. Owns
 * nothing. Never returns an error: a process that cannot take these steps ends with EXIT_FAILURE.
 */
#ifndef GPUB_OWNER_FORKED_H
#define GPUB_OWNER_FORKED_H

#include <sys/types.h>

/*
 * Makes this process the owner: renames it, leaves it the socket and standard error, and blocks all signals; then
 * serves the broker at the other end of the socket, and exits with 0. Standard input and output become /dev/null. The
 * process ends by SIGKILL when `parent` ends, also while a device call hangs.
 */
_Noreturn void forked_owner(int sock, pid_t parent);

#endif
