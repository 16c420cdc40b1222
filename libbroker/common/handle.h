/* SPDX-License-Identifier: Apache-2.0 */
/*
 * handle.h - what board and tickets say of devices: how many a broker has at most, and the handle of an allocation.
 *
 * Owns nothing. What a device can do is device/device.h's.
 */
#ifndef GPUB_HANDLE_H
#define GPUB_HANDLE_H

#include <stdint.h>

#define DEVICE_MAX         64 /* devices of one broker */
#define DEVICE_HANDLE_SIZE 64 /* CUDA_IPC_HANDLE_SIZE; the host device keeps to it */

/* What lets another process open an allocation. A secret: it travels only inside a sealed ticket. */
struct device_handle {
	uint8_t bytes[DEVICE_HANDLE_SIZE];
};

#endif
