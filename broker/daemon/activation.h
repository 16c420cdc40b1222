/* SPDX-License-Identifier: Apache-2.0 */
/*
 * activation.h - takes a listening socket that the service manager made and passed on: LISTEN_FDS, as sd_listen_fds(3)
 * describes it, without its library. Owns nothing; the socket's file is the service manager's.
 */
#ifndef GPUB_ACTIVATION_H
#define GPUB_ACTIVATION_H

/* The socket's name in a unit file (FileDescriptorName=), needed where several are passed. */
#define ACTIVATION_NAME "gpubroker.socket"

/*
 * The descriptor, close-on-exec and set up as socket_listen() does it. -ENOENT: none was passed to this process.
 * -EINVAL with the error message: a broker cannot listen at it. Removes the variables from the environment.
 */
int activation_take(void);

#endif
