/* SPDX-License-Identifier: Apache-2.0 */
/*
 * placement.h - assigns a device to each of broker-run's workers, and binds workers to the processors near it.
 *
 * The device is only a number in the worker's environment: a worker may use other devices. Binds no process but those
 * that the caller names. Host memory is not bound because Linux takes it from the node on which a process runs. Owns
 * nothing but the topology (locality.h) of a struct placement.
 */
#ifndef GPUB_RUN_PLACEMENT_H
#define GPUB_RUN_PLACEMENT_H

#include <stdint.h>
#include <sys/types.h>

#include "children.h"
#include "broker/owner/start.h"

enum map_mode { MAP_ROUND, MAP_BLOCK };
enum bind_mode { BIND_NONE, BIND_DEVICE };

extern const char *const map_modes[], *const bind_modes[]; /* names of map_mode and bind_mode, for WORD() */

/*
 * Returns the index of the device of the worker with the rank. 6 workers on 3 devices: MAP_ROUND 0 1 2 0 1 2; MAP_BLOCK
 * 0 0 1 1 2 2.
 */
unsigned placement_device(enum map_mode map, unsigned rank, unsigned workers, unsigned devices);

/* Sets the device of every worker in its environment. Called before the workers are released. */
void placement_tell(struct children *children, enum map_mode map, unsigned devices);

struct locality;

/*
 * What is needed to bind workers. The caller sets map, workers, hint and context, and hinted to 0; placement_open()
 * sets the other members.
 */
struct placement {
	enum map_mode        map;
	unsigned             workers;  /* number of all workers */
	/* called by placement_bind() with the reason why a worker is not bound */
	void               (*hint)(void *context, const char *text);
	void                *context;  /* first argument of hint() */
	const struct owner_facts *facts; /* what is known of the devices */
	struct locality     *locality; /* hwloc's topology; NULL: not loaded */
	uint64_t             hinted;   /* bit N is set: hint() was called for device N */
};

/*
 * Loads hwloc's topology. Returns 0 or negative errno with the error message; the caller calls placement_close() in
 * either case.
 */
int placement_open(struct placement *placement, const struct owner_facts *facts);
void placement_close(struct placement *placement);

/*
 * Binds a worker that is not released yet to those processors near its device that this process may use. If no near
 * processor is known (often so in a virtual machine) or none may be used, does not bind the worker, and calls hint()
 * with the reason, once for each device. Returns 0 in both cases, or negative errno with the error message.
 */
int placement_bind(struct placement *placement, unsigned rank, pid_t pid);

#endif
