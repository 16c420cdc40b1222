/* SPDX-License-Identifier: Apache-2.0 */
/*
 * placement.h - which device each of broker-run's workers is to use, and on which processors it runs.
 *
 * The device is a number in the worker's environment: a worker may use others. Owns nothing; binds only processes that it is
 * given. Memory needs no rule of its own: Linux takes it from the node on which the process runs.
 */
#ifndef GPUB_RUN_PLACEMENT_H
#define GPUB_RUN_PLACEMENT_H

#include <stdint.h>
#include <sys/types.h>

#include "children.h"
#include "device/device.h"

enum map_mode { MAP_ROUND, MAP_BLOCK };
enum bind_mode { BIND_NONE, BIND_DEVICE };

extern const char *const map_modes[], *const bind_modes[]; /* for WORD() */

/* The device of that worker: round: 0 1 2 0 1 2; block: 0 0 1 1 2 2, as even as can be. */
unsigned placement_device(enum map_mode map, unsigned rank, unsigned workers, unsigned devices);

/* Tells every worker its device. Before they are released. */
void placement_tell(struct children *children, enum map_mode map, unsigned devices);

struct locality;

/* The caller sets the first three. */
struct placement {
	enum map_mode        map;
	unsigned             workers;
	void               (*hint)(void *context, const char *text);
	void                *context;
	const struct device *device;
	unsigned             devices;
	struct locality     *locality;
	uint64_t             hinted; /* bits, by device */
};

/* Returns 0 or negative errno with the error message; placement_close() follows in either case. */
int placement_open(struct placement *placement, const struct device *device, unsigned devices);
void placement_close(struct placement *placement);

/*
 * Binds a worker that has not begun to the processors near its device, as far as this process may use them. Where it is not known which
 * are near (in a virtual machine, often), or none of them may be used, it is not bound, and hint() is called once for the device, with
 * the reason. Returns 0 or negative errno with the error message.
 */
int placement_bind(struct placement *placement, unsigned rank, pid_t pid);

#endif
