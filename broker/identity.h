/* SPDX-License-Identifier: Apache-2.0 */
/*
 * identity.h - who a peer is, by the kernel's word only.
 *
 * SO_PEERCRED names the process that called connect(2); a pidfd then pins that process, so that a reused
 * pid cannot be taken for it. Owns nothing.
 */
#ifndef GPUB_IDENTITY_H
#define GPUB_IDENTITY_H

#include <stdbool.h>
#include <sys/types.h>

/*
 * -EPERM with the reason: the peer lives in another pid namespace, where CUDA IPC fails and its death could
 * not be seen (facts.md: silent fallbacks of other systems).
 */
int identity_of_peer(int sock, pid_t *pid, uid_t *uid, gid_t *gid);

/*
 * A pidfd for the peer: the kernel's own where it has SO_PEERPIDFD (Linux 6.5), else one for the pid, which
 * the greeting must prove: if the pidfd still says "alive" when a message with that pid arrives, no reuse
 * can have come between. Negative errno.
 */
int identity_pidfd(int sock, pid_t pid);

bool identity_alive(int pidfd);

/* The process's name for people; "?" when it cannot be read. */
void identity_command(pid_t pid, char command[16]);

#endif
