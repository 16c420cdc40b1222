/* SPDX-License-Identifier: Apache-2.0 */
/* handle.h - how an allocation is exported, its handle, and the number of devices that a broker can have. Owns nothing. */
#ifndef GPUB_HANDLE_H
#define GPUB_HANDLE_H

#include <stdint.h>

#define DEVICE_MAX         64 /* devices of one broker */
#define DEVICE_HANDLE_SIZE 64 /* CUDA_IPC_HANDLE_SIZE; the host device keeps to it */

#define EXPORT_CHUNKS_MAX 32 /* of one allocation: its first, and those that it grew by */

enum export_kind {
	EXPORT_IPC, /* CUDA IPC: the handle opens the memory */
	EXPORT_VMM, /* CUDA's virtual memory management: a descriptor opens it, and the handle says which descriptor is meant */
	EXPORT_KINDS
};

/* With it another process can open an allocation. A secret: it is sent only sealed (sealed.h). */
struct device_handle {
	uint8_t bytes[DEVICE_HANDLE_SIZE];
};

#endif
