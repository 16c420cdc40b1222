/* SPDX-License-Identifier: Apache-2.0 */
/* host-memory.h - the owner's half of the host device: allocations. The functions are described in device.h. */
#ifndef GPUB_HOST_MEMORY_H
#define GPUB_HOST_MEMORY_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/export.h"
#include "common/handle.h"
#include "device.h"

int host_allocate(int ordinal, uint64_t size, unsigned exported, void **ptr);
int host_adopt(int ordinal, const struct device_memory *memory, void **ptr);
int host_room(int ordinal, uint64_t *bytes);
int host_zero(int ordinal, void *ptr, uint64_t size);
int host_export(int ordinal, void *ptr, struct device_handle *handle, int *descriptor);
int host_release(int ordinal, void *ptr);
int host_gone(pid_t pid, bool mps);

/* At the owner's exit: removes the memory objects of all allocations. */
void host_unlink_all(void);

#endif
