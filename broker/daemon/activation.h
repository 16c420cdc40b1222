/* SPDX-License-Identifier: Apache-2.0 */
/*
 * activation.h - a listening socket that the service manager made and passed on: LISTEN_FDS, as sd_listen_fds(3) has
 * it, without its library. Owns nothing once it has returned; the socket's file is the service manager's.
 */
#ifndef GPUB_ACTIVATION_H
#define GPUB_ACTIVATION_H

/* The name that a unit file gives the socket, where several are passed: FileDescriptorName=. */
#define ACTIVATION_NAME "gpubroker.socket"

/*
 * The descriptor, close-on-exec and set up as socket_listen() does it. -ENOENT: none was passed to this process.
 * -EINVAL, with the sentence: it is none that a broker can listen at. The environment's variables are taken away.
 */
int activation_take(void);

#endif
