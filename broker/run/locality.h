/* SPDX-License-Identifier: Apache-2.0 */
/*
 * locality.h - finds the processors near a device by hwloc, and binds processes to them.
 *
 * Owns hwloc's topology from locality_open() to locality_close(). Touches no device.
 */
#ifndef GPUB_RUN_LOCALITY_H
#define GPUB_RUN_LOCALITY_H

#include <sys/types.h>

#include "device/device.h"

struct locality;

/*
 * Loads hwloc's topology of this machine. Returns NULL with the error message if broker-run was built without hwloc, or
 * if hwloc or memory fails.
 */
struct locality *locality_open(void);
void locality_close(struct locality *locality);

#define LOCALITY_TEXT_MAX 160

/*
 * Binds the process pid, and its later children, to those processors near the device that broker-run itself may use.
 * Returns 0 if bound; 1, with the reason in why, if no processor is known to be near or none of these may be used; or
 * negative errno with the error message.
 */
int locality_bind(struct locality *locality, const struct device_info *info, pid_t pid, char why[LOCALITY_TEXT_MAX]);

#endif
