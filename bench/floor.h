/* SPDX-License-Identifier: Apache-2.0 */
/*
 * floor.h - what a first acquire is compared with: the same messages and the same sealing, and nothing else.
 *
 * A server process of one thread waits in epoll_wait, receives requests of 256 bytes on SOCK_SEQPACKET sockets, seals
 * one handle for each (XChaCha20-Poly1305, 64 bytes under 80 of associated data, as a device handle is sealed) into
 * memory that it shares with that client, and answers with one message behind the last of a round. The client opens
 * each. It looks nothing up, counts nothing and hands out nothing. Owns that process and its memory; never touches the
 * product.
 */
#ifndef GPUB_BENCH_FLOOR_H
#define GPUB_BENCH_FLOOR_H

#include <sys/types.h>

#define FLOOR_CLIENTS 64
#define FLOOR_BATCH   1024 /* requests of a round, at most */

struct floor;

/* Forks the server, kept on that processor (bench_pin()), for so many clients. */
struct floor *floor_start(unsigned clients, int cpu);

/* One round of that client: so many requests out, one answer back, each sealed handle opened. One thread a client. */
void floor_round(struct floor *floor, unsigned client, unsigned requests);

void floor_stop(struct floor *floor);

/* Nanoseconds of opening, and not of closing, shared memory of that size as a host device's handle is opened. */
double floor_open_ns(size_t size);

/* Nanoseconds of making such memory, zeroed, under a random name, and not of removing it. */
double floor_make_ns(size_t size);

#endif
