/* SPDX-License-Identifier: Apache-2.0 */
/*
 * leftovers.h - shared-memory objects of brokers that died without cleaning up.
 *
 * A broker holds a lock on its status file for its whole life; the kernel drops it with the process. So an
 * unlocked "/gpubroker.<instance>" is a dead broker's, and with it "/gpubroker.<instance>.*", the host
 * device's memory, and the private socket of a broker-run. Owns nothing; removes only what it locked itself.
 */
#ifndef GPUB_LEFTOVERS_H
#define GPUB_LEFTOVERS_H

#include <stdbool.h>

#define SHM_DIR "/dev/shm" /* where Linux keeps POSIX shared memory: shm_overview(7) */

/* Takes the lock that says "alive". -EAGAIN: somebody holds it. */
int leftovers_lock(int fd);

/* Does a living broker hold that lock? Works on a descriptor opened for reading. */
bool leftovers_locked(int fd);

/* Does the shared-memory name still lead to this very file? */
bool leftovers_still_named(int fd, const char *shm_name);

/*
 * Removes what dead brokers left, as far as this user may. For a program's start, before it makes anything
 * of its own that bears its instance's name.
 */
void leftovers_remove(void);

/*
 * Where private sockets are: $XDG_RUNTIME_DIR where that can be used, else /tmp. Their directories there are
 * called "gpubroker-<instance>.XXXXXX".
 */
const char *leftovers_socket_parent(void);

/* Removes the objects that belong to an instance, but for its status file. */
void leftovers_remove_instance(const char *instance);

#endif
