/* SPDX-License-Identifier: Apache-2.0 */
/*
 * identity.h - who a peer is, as the kernel reports it.
 *
 * SO_PEERCRED names the process that called connect(2), SO_PEERGROUPS its groups; a pidfd then pins that process, so that
 * no process with a reused pid passes for it. Owns the list of groups of an identity.
 */
#ifndef GPUB_IDENTITY_H
#define GPUB_IDENTITY_H

#include <stdbool.h>
#include <sys/types.h>

/* A user with the groups it acts in. */
struct identity {
	uid_t    uid;
	gid_t    gid;
	gid_t   *groups; /* the supplementary ones */
	unsigned group_count;
};

/* Only the peer's user, by one cheap system call. Negative errno. */
int identity_user(int sock, uid_t *uid);

/*
 * The peer's pid, as the broker's pid namespace has it, and its identity, whose groups identity_clear() frees; untouched on
 * failure. -EPERM with the reason: the peer is in no pid namespace that the broker sees, so its death could not be noticed
 * (facts.md: silent fallbacks of other systems). -ENOMEM.
 */
int identity_of_peer(int sock, pid_t *pid, struct identity *identity);

void identity_clear(struct identity *identity);

bool identity_in_group(const struct identity *identity, gid_t group);

/* Root and the broker's own user may change every buffer and end every session. */
bool identity_is_admin(const struct identity *identity);

/*
 * A pidfd for the peer: from the kernel where it has SO_PEERPIDFD (Linux 6.5), else one for the pid, which the greeting must
 * prove: if the process of the pidfd is still alive when a message with that pid arrives, the pid was not reused in between.
 * Negative errno.
 */
int identity_pidfd(int sock, pid_t pid);

/*
 * 0 if this system gives pidfds at all; else a negative errno with an error message that says what is needed. For a
 * broker's start.
 */
int identity_check_system(void);

bool identity_alive(int pidfd);

/* The process's name for people; "?" when it cannot be read. */
void identity_command(pid_t pid, char command[16]);

#endif
