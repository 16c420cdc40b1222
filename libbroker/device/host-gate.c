/* SPDX-License-Identifier: Apache-2.0 */
/*
 * host-gate.c - see host-gate.h
 *
 * Owns the gate's lock and the count of unfinished tasks of each device.
 */
#include "host-gate.h"

#include <pthread.h>

#include "common/handle.h"

/* The lock prefers writers. Otherwise host_gate_close() could wait for ever while other threads keep launching. */
static pthread_rwlock_t gate = PTHREAD_RWLOCK_WRITER_NONRECURSIVE_INITIALIZER_NP;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* protects `unfinished` */
static pthread_cond_t idle = PTHREAD_COND_INITIALIZER; /* broadcast when a device has no unfinished task any more */
static uint64_t unfinished[DEVICE_MAX]; /* number of queued and running tasks of each device */

void host_gate_pass(void)
{
	pthread_rwlock_rdlock(&gate);
}

void host_gate_leave(void)
{
	pthread_rwlock_unlock(&gate);
}

void host_gate_close(void)
{
	pthread_rwlock_wrlock(&gate);
}

void host_gate_open(void)
{
	pthread_rwlock_unlock(&gate);
}

void host_gate_drain(unsigned device)
{
	pthread_mutex_lock(&lock);
	while (unfinished[device])
		pthread_cond_wait(&idle, &lock);
	pthread_mutex_unlock(&lock);
}

void host_gate_add(unsigned device, uint64_t tasks)
{
	pthread_mutex_lock(&lock);
	unfinished[device] += tasks;
	pthread_mutex_unlock(&lock);
}

void host_gate_finish(unsigned device)
{
	pthread_mutex_lock(&lock);
	if (!--unfinished[device])
		pthread_cond_broadcast(&idle);
	pthread_mutex_unlock(&lock);
}
