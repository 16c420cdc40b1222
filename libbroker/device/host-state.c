/* SPDX-License-Identifier: Apache-2.0 */
/*
 * host-state.c - the settings and the visible devices of the host device in this process.
 *
 * Owns host_state, which start() fills (host-device.c), and which lives until the process ends. In a forked child the
 * copy of host_state is not used: host_forked() is true there.
 */
#include "host-state.h"

#include <errno.h>

#include "common/error.h"

struct host_state host_state = { .lock = PTHREAD_MUTEX_INITIALIZER };

_Thread_local int host_ordinal;

/* Does not compare the pid, because pids are reused: a child's child could have the pid of the first process. */
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
