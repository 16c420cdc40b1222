/* SPDX-License-Identifier: Apache-2.0 */
/*
 * host-state.c - the settings and the visible devices of the host device in this process.
 *
 * Owns host_state, which start() fills (host-device.c) and which lives until the process ends. What a fork copied is dead in
 * the child.
 */
#include "host-state.h"

#include <errno.h>

#include "common/error.h"

struct host_state host_state = { .lock = PTHREAD_MUTEX_INITIALIZER };

_Thread_local int host_ordinal;

/* Does not compare getpid(): pids are used again, and a child of a child could have the parent's. */
bool host_forked(void)
{
	return atomic_load(&host_state.started) && *host_state.alive != 1;
}

int host_device_of(int ordinal)
{
	if (ordinal < 0 || ordinal >= (int)host_state.visible_count)
		return error_set(-ENODEV, "there is no host device %d here: this process sees %u, numbered from 0",
				 ordinal, host_state.visible_count);
	return (int)host_state.visible[ordinal];
}

unsigned host_current_device(void)
{
	return host_state.visible[host_ordinal];
}
