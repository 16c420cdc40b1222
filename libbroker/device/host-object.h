/* SPDX-License-Identifier: Apache-2.0 */
/* host-object.h - the shm objects behind the host device's memory: of allocations, also freed ones, and of mappings. */
#ifndef GPUB_HOST_OBJECT_H
#define GPUB_HOST_OBJECT_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

#include "host-region.h"
#include "host.h"

#define HOST_RANDOM_SIZE 16 /* bytes of an object's name */
#define HOST_NAME_SIZE   (sizeof("/dev/shm") + HOST_PREFIX_MAX + 1 + 2 * HOST_RANDOM_SIZE)

/* False: the handle is none of the host device's. */
bool host_object_name(const struct device_handle *handle, char name[HOST_NAME_SIZE]);

/*
 * Makes the region's handle and descriptors, and reserves its pages: a file in /dev/shm, or a memfd where memory is
 * exported by descriptors. -ENOSPC: there is no room.
 */
int  host_object_create(struct host_region *region);
void host_object_unlink(struct host_region *region); /* by its owner: nobody can open it from now on who has not */

/* Returns true if host_object_unlink() was called for the object, whose state this is. */
bool host_object_released(const struct stat *object);

/* An open file of its own for an importer: by the handle, or of that descriptor, which must be the handle's. Negative errno, error set. */
int host_object_open(const struct device_handle *handle, int descriptor);

/* False, and reported: somebody changed its size. */
bool host_object_whole(const struct host_region *region);

int host_object_fill(const struct host_region *region, uint64_t from, uint64_t size, int byte);

/* How many bytes from there on are that byte, up to size; fewer also where the object ends early. */
uint64_t host_object_compare(const struct host_region *region, uint64_t from, uint64_t size, uint8_t byte);

/* In a forked child, async-signal-safe: closes the objects that the parent had open. */
void host_close_inherited(void);

#endif
