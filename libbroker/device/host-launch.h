/* SPDX-License-Identifier: Apache-2.0 */
/* host-launch.h - launches of host kernels. See module_launch() in device.h. */
#ifndef GPUB_HOST_LAUNCH_H
#define GPUB_HOST_LAUNCH_H

#include "gpubroker.h"

int host_module_launch(void *kernel, const gpub_launch_config *config, void **args);

#endif
