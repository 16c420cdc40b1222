/* SPDX-License-Identifier: Apache-2.0 */
/*
 * locality.h - which processors are near a device, by hwloc; and processes bound to them.
 *
 * Owns the topology, from locality_open() to locality_close(). Touches no device.
 */
#ifndef GPUB_RUN_LOCALITY_H
#define GPUB_RUN_LOCALITY_H

#include <sys/types.h>

#include "device/device.h"

struct locality;

/* NULL with the error message: -ENOTSUP built without hwloc, or hwloc fails. */
struct locality *locality_open(void);
void locality_close(struct locality *locality);

#define LOCALITY_TEXT_MAX 160

/*
 * Binds a process and its later children to the processors near the device that this process may use. Returns 0; 1 with why:
 * there are none, or it is not known which are near; or negative errno with the error message.
 */
int locality_bind(struct locality *locality, const struct device_info *info, pid_t pid, char why[LOCALITY_TEXT_MAX]);

#endif
