/* SPDX-License-Identifier: Apache-2.0 */
/*
 * clients.h - client processes of one run, and the buffers that they ask for.
 *
 * A process that connected must not fork clients, so the program itself does not connect where others are to be forked
 * later: clients_run() does what has to be done as a client, also where that is one. Owns no broker and no sample.
 */
#ifndef GPUB_BENCH_CLIENTS_H
#define GPUB_BENCH_CLIENTS_H

#ifdef __cplusplus
extern "C" {
#endif

#include "gpubroker.h"

/* Forks so many processes, runs work in each with its number from 0, kept on processor number, and waits for all. */
void clients_run(unsigned count, void (*work)(unsigned number, void *context), void *context);

/* Inside them: waits until all have come here. */
void clients_meet(void);

/* The name of buffer number i: as long, and as alike, as names are in practice. */
#define CLIENTS_NAME 40
void clients_name(char name[CLIENTS_NAME], unsigned i);

/* Creates buffers 0 to count - 1 of that size; says so and returns how many where the broker has no room for all. */
unsigned clients_create(gpub_client *client, unsigned count, uint64_t size);

/* The same in a process of its own. */
unsigned clients_create_apart(unsigned count, uint64_t size);

/* Acquires and returns each of count buffers, so that they are mapped. */
void clients_map(gpub_client *client, unsigned count);

/*
 * Samples of what one acquire by name and its return takes, in ns: each the mean of 200 of count mapped buffers, in an
 * order that a linear congruence gives, made before the clock starts. The first 100 warm up.
 */
struct bench;
void clients_sample_by_name(gpub_client *client, unsigned count, struct bench *bench, int samples);

/* One round of a buffer of that size, in us: its creation, and its first acquire. Returns what gpub_create() does. */
int clients_sample_size(gpub_client *client, uint64_t size, struct bench *create, struct bench *first);

/* How many buffers to ask for where wanted are: fewer from a broker whose tables cannot be made larger. */
unsigned clients_buffers(unsigned wanted);

/* Starts a broker with room for so many buffers. */
struct bench_broker;
void clients_broker_start(struct bench_broker *broker, unsigned buffers);

#ifdef __cplusplus
}
#endif
#endif
