/* SPDX-License-Identifier: Apache-2.0 */
/* host-object.h - the shm objects that are the host device's memory: files in /dev/shm, or memfds. */
#ifndef GPUB_HOST_OBJECT_H
#define GPUB_HOST_OBJECT_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

#include "host-region.h"
#include "host.h"

#define HOST_RANDOM_SIZE 16 /* random bytes in an object's name, which are 2 hexadecimal digits each */
#define HOST_NAME_SIZE   (sizeof("/dev/shm") + HOST_PREFIX_MAX + 1 + 2 * HOST_RANDOM_SIZE)

/* Stores the path of the file that the handle names in `name`. False: the handle is not that of a file in /dev/shm. */
bool host_object_name(const struct device_handle *handle, char name[HOST_NAME_SIZE]);

/*
 * Makes the region's object, with all its pages, its handle and its descriptors: a memfd if the memory is exported by a
 * descriptor, else a file in /dev/shm. -ENOSPC: the machine has too little memory.
 */
int  host_object_create(struct host_region *region);

/* Removes the name of the owner's object and marks it as released, so that it cannot be opened any more. */
void host_object_unlink(struct host_region *region);

/* Whether host_object_unlink() was called for the object. object: what fstat(2) stored for it. */
bool host_object_released(const struct stat *object);

/*
 * Opens an object for an importer, by the handle or, if descriptor is not -1, by the descriptor, which must be that of
 * the handle's object. If handle is NULL, the descriptor may be that of any memory of a host device. Returns a
 * descriptor of a new open file, or a negative errno with the error message set.
 */
int host_object_open(const struct device_handle *handle, int descriptor);

/* Whether the object still has its size. If not, reports a violation of others. False also if fstat(2) fails. */
bool host_object_whole(const struct host_region *region);

/* Sets `size` bytes of the object from offset `from` on to `byte`. */
int host_object_fill(const struct host_region *region, uint64_t from, uint64_t size, int byte);

/*
 * Returns how many of the object's `size` bytes from offset `from` on, up to the first other one, equal `byte`. Returns
 * `size` also if the object cannot be read. Bytes after the object's end do not count as equal.
 */
uint64_t host_object_compare(const struct host_region *region, uint64_t from, uint64_t size, uint8_t byte);

/* In a forked child: closes the objects that the parent has open. Async-signal-safe. */
void host_close_inherited(void);

#endif
