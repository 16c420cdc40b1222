/* SPDX-License-Identifier: Apache-2.0 */
/* handle.h - the handle of an allocation, and how many devices a broker may have. Owns nothing. */
#ifndef GPUB_HANDLE_H
#define GPUB_HANDLE_H

#include <stdint.h>

#define DEVICE_MAX         64 /* number of devices of one broker at most */
#define DEVICE_HANDLE_SIZE 64 /* bytes: CUDA_IPC_HANDLE_SIZE. The host device's handles have this size, too */

/* The handle by which another process opens an allocation. A secret: a handle is sent only sealed (sealed.h). */
struct device_handle {
	uint8_t bytes[DEVICE_HANDLE_SIZE];
};

#endif
