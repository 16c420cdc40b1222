/* SPDX-License-Identifier: Apache-2.0 */
/*
 * activation.h - takes over a listening socket that the service manager made and passed on in LISTEN_FDS, as
 * sd_listen_fds(3) describes, without libsystemd. Owns nothing; the socket's file is the service manager's.
 */
#ifndef GPUB_ACTIVATION_H
#define GPUB_ACTIVATION_H

/* The name of the listening socket in a unit file (FileDescriptorName=). Needed if several sockets are passed. */
#define ACTIVATION_NAME "gpubroker.socket"

/*
 * Returns the descriptor of the listening socket, close-on-exec and with SO_PASSCRED set. -ENOENT: no socket was passed
 * to this process; -EINVAL with the error message: what was passed is no socket for a broker. Closes the other sockets,
 * and removes the variables LISTEN_* from the environment.
 */
int activation_take(void);

#endif
