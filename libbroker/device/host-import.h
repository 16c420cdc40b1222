/* SPDX-License-Identifier: Apache-2.0 */
/*
 * host-import.h - the importer's half of the host device: mappings of other processes' memory. The functions are
 * described in device.h.
 */
#ifndef GPUB_HOST_IMPORT_H
#define GPUB_HOST_IMPORT_H

#include "device.h"

int host_open(int ordinal, const struct device_handle *handle, uint64_t size, void **ptr);
int host_map(int ordinal, const struct device_memory *memory, void **ptr);
int host_extend(int ordinal, void *base, uint64_t offset, int descriptor, uint64_t size);
int host_map_again(int ordinal, const void *ptr, bool writable, void **again);
int host_make_writable(int ordinal, void *ptr);
int host_close(int ordinal, void *ptr);
int host_unmap(int ordinal, void *ptr);
int host_sync(int ordinal, const struct device_handle *handle, uint64_t size);

/* At a reset of the device: ends its mappings whose kind of export has ends_at_reset. Call it under host_state.lock. */
void host_mappings_end(unsigned device);

#endif
