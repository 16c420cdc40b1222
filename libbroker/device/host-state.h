/* SPDX-License-Identifier: Apache-2.0 */
/*
 * host-state.h - the state that the files of the host device share: settings, visible devices, one lock.
 *
 * Locks are taken in this order: the gate (host-gate.h), host_state.lock, a stream's lock, then one of the locks of the
 * gate's counts, of the connections, or of the objects' directory.
 */
#ifndef GPUB_HOST_STATE_H
#define GPUB_HOST_STATE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/handle.h"

#define HOST_GRANULE 4096u

/*
 * The host device in this process: settings, constant once `started` is set (but `owner`), and state that all its
 * threads share.
 */
struct host_state {
	_Atomic bool        started;
	bool                owner;               /* this process is the broker */
	unsigned            devices;             /* number of all host devices, visible or not */
	unsigned            visible_count;       /* number of devices that have an ordinal in this process */
	unsigned            visible[DEVICE_MAX]; /* indexed by ordinal in this process: the number of the host device */
	uint64_t            memory;              /* size of each host device's memory, in bytes */
	uint64_t            quarantine;          /* limit on the bytes that the quarantine keeps (host-quarantine.h) */
	bool                seeded;              /* streams are delayed at random, by `seed` */
	uint64_t            seed;
	/* violations that other processes can cause do not abort this process */
	bool                lenient;
	_Atomic uint64_t    resets[DEVICE_MAX];  /* how often each device was reset */
	_Atomic bool        in_use[DEVICE_MAX];  /* this process uses the device, so modules are loaded there */
	volatile const int *alive;               /* 1 in this process; 0 in a forked child (wiped.h) */
	pthread_mutex_t     lock;                /* protects the tables of regions, streams and modules */
};

extern struct host_state host_state;

extern _Thread_local int host_ordinal; /* ordinal of the calling thread's current device */

bool     host_forked(void);            /* whether this process was forked since start() */
int      host_device_of(int ordinal);  /* returns the number of the host device with this ordinal, or -ENODEV */
unsigned host_current_device(void);    /* returns the number of the calling thread's current device */

#endif
