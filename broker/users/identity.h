/* SPDX-License-Identifier: Apache-2.0 */
/*
 * identity.h - the user, groups and process of a socket's peer, as the kernel reports them.
 *
 * SO_PEERCRED gives the process that called connect(2) and its user, SO_PEERGROUPS its groups. A pidfd then refers to
 * that process, so that no other process with a reused pid is taken for the peer. Owns the array of groups of an
 * identity.
 */
#ifndef GPUB_IDENTITY_H
#define GPUB_IDENTITY_H

#include <stdbool.h>
#include <sys/types.h>

/* A user and the user's groups. */
struct identity {
	uid_t    uid;
	gid_t    gid;
	gid_t   *groups; /* array of the supplementary groups; freed by identity_clear() */
	unsigned group_count;
};

/*
 * Sets *uid to the uid of the socket's peer, by one system call. Returns 0 or a negative errno with the error message
 * set.
 */
int identity_user(int sock, uid_t *uid);

/*
 * Gets the peer's pid, as seen in the broker's pid namespace, and the peer's identity, whose groups identity_clear()
 * frees. Returns 0 or a negative errno with the error message set, and then changes neither. -EPERM: the peer is in a
 * pid namespace that the broker cannot see, so the broker could not notice the peer's death. -ENOMEM.
 */
int identity_of_peer(int sock, pid_t *pid, struct identity *identity);

void identity_clear(struct identity *identity);

/* Returns true if the group is the primary group or a supplementary one. */
bool identity_in_group(const struct identity *identity, gid_t group);

/* Returns true for root and the broker's own user, who may change every buffer and end every session. */
bool identity_is_admin(const struct identity *identity);

/*
 * Returns a pidfd of the peer's process, or a negative errno with the error message set. If the socket has SO_PEERPIDFD
 * (Linux 6.5), the kernel gives the pidfd. Otherwise the pidfd is made from the pid, which may have been reused: the
 * caller has to check, when a message with that pid as its sender arrives, that the pidfd's process is alive. If so,
 * the pid was not reused.
 */
int identity_pidfd(int sock, pid_t pid);

/* Checks that this system has pidfds. Returns 0 or a negative errno with an error message that says what is needed. */
int identity_check_system(void);

/* Returns true if the pidfd's process has not ended. */
bool identity_alive(int pidfd);

/* Sets command to the name of the process's program, in printable ASCII; "?" if the name cannot be read. */
void identity_command(pid_t pid, char command[16]);

#endif
