/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cancel.c - an attack by threads that are cancelled in the middle of the library's waiting calls.
 *
 * Unlike the others it goes through the library, for what it would break there is the library's own state: a lock that
 * stays taken, or a waiter on a stack that is gone. Then the process hangs, and with it what it owes to the broker.
 */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#include "attacks.h"

#define ROUNDS  20
#define THREADS 8
#define LATE    "attacker/late"

static gpub_client *connection;
static gpub_lease leases[THREADS];
static int results[THREADS];
static _Atomic unsigned begun;

/* Cancelled before it waits: the call must end as if nobody had done that, and the thread behind it. */
static void *wait_cancelled(void *argument)
{
	int *result = argument;

	atomic_fetch_add(&begun, 1);
	pthread_cancel(pthread_self());
	*result = gpub_acquire(connection, LATE, GPUB_READ, -1, &leases[result - results]);
	pthread_testcancel();
	return argument;
}

static void one_round(void)
{
	gpub_spec spec = GPUB_SPEC_INIT;
	pthread_t thread[THREADS];

	atomic_store(&begun, 0);
	for (int i = 0; i < THREADS; i++)
		WANT(!pthread_create(&thread[i], NULL, wait_cancelled, &results[i]));
	while (atomic_load(&begun) < THREADS)
		sched_yield();
	spec.size = 4096;
	WANT(!gpub_create(connection, LATE, &spec)); /* by a thread that is not cancelled: it goes on */
	for (int i = 0; i < THREADS; i++) {
		void *ended;

		WANT(!pthread_join(thread[i], &ended) && ended == PTHREAD_CANCELED && !results[i]);
		WANT(!gpub_return(&leases[i]));
	}
	WANT(!gpub_unlink(connection, LATE));
}

static void cancel_waiting_threads(void)
{
	WANT(!gpub_connect(&connection, arena_broker.address));
	for (int i = 0; i < ROUNDS; i++)
		one_round();
	gpub_disconnect(connection);
}

const struct attack cancellation[] = {
	{ "cancels its threads in waiting calls",
	  "the library's other threads go on, and what the process held is given back", .run = cancel_waiting_threads },
	{ 0 },
};
