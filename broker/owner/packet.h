/* SPDX-License-Identifier: Apache-2.0 */
/*
 * packet.h - plain data, whole, over a socket pair between broker, owner and keeper.
 *
 * All of them are one program, so a packet is a struct as it lies in memory. Owns nothing. Thread-safe.
 */
#ifndef GPUB_OWNER_PACKET_H
#define GPUB_OWNER_PACKET_H

#include <stddef.h>

/*
 * Sends `size` bytes, with a copy of the descriptor unless fd is -1. -EAGAIN: flags has MSG_DONTWAIT, and the socket is
 * full, or the kernel lacks memory or already carries too many descriptors. Without MSG_DONTWAIT it waits for either.
 * -ECONNRESET: the other side has ended.
 */
int packet_send(int sock, const void *bytes, size_t size, int fd, int flags);

/*
 * Receives a packet of `size` bytes. Stores the descriptor that came with it, close-on-exec and now the caller's; -1:
 * none came; -EMFILE: one came, but this process has no descriptor left. -EAGAIN: flags has MSG_DONTWAIT, and there is
 * no packet, or the kernel lacks memory. -ECONNRESET: the other side has ended. -EPROTO: a packet had another size; it
 * has been dropped.
 */
int packet_receive(int sock, void *bytes, size_t size, int *fd, int flags);

#endif
