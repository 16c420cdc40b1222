/* SPDX-License-Identifier: Apache-2.0 */
/*
 * host-state.h - what the files of the host device share: settings, visible devices, one lock.
 *
 * Locks, in the order in which they may be taken: the gate (host-gate.h), host_state.lock, a stream's own lock; last the
 * lock of the gate's counts, of the connections or of the objects' directory.
 */
#ifndef GPUB_HOST_STATE_H
#define GPUB_HOST_STATE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/handle.h"

#define HOST_GRANULE 4096u

/* Settings are constant once started is set. */
struct host_state {
	_Atomic bool        started;
	bool                owner;
	unsigned            devices;             /* all of them */
	unsigned            visible_count;       /* those with an ordinal in this process */
	unsigned            visible[DEVICE_MAX]; /* ordinal -> device */
	uint64_t            memory;              /* bytes of each device */
	uint64_t            quarantine;          /* bytes of freed memory that are kept */
	bool                seeded;
	uint64_t            seed;
	bool                lenient;             /* violations that others can bring about do not abort */
	_Atomic uint64_t    resets[DEVICE_MAX];  /* how often each device was reset */
	_Atomic bool        in_use[DEVICE_MAX];  /* stands for a context there: modules are loaded there when they are opened */
	volatile const int *alive;               /* 1; wiped by a fork */
	pthread_mutex_t     lock;                /* regions, streams, modules */
};

extern struct host_state host_state;

extern _Thread_local int host_ordinal; /* of the thread's current device */

bool     host_forked(void);            /* since start() */
int      host_device_of(int ordinal);  /* the device's number, or -ENODEV */
unsigned host_current_device(void);    /* the one whose default stream NULL means */

#endif
