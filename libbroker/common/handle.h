/* SPDX-License-Identifier: Apache-2.0 */
/* handle.h - the handle of an allocation, and the number of devices that a broker can have. Owns nothing. */
#ifndef GPUB_HANDLE_H
#define GPUB_HANDLE_H

#include <stdint.h>

#define DEVICE_MAX         64 /* devices of one broker */
#define DEVICE_HANDLE_SIZE 64 /* CUDA_IPC_HANDLE_SIZE; the host device keeps to it */

/* With it another process can open an allocation. A secret: it is sent only sealed (sealed.h). */
struct device_handle {
	uint8_t bytes[DEVICE_HANDLE_SIZE];
};

#endif
