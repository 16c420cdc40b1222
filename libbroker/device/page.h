/* SPDX-License-Identifier: Apache-2.0 */
/*
 * page.h - maps host memory that a device writes: shared, kept from forks, and registered with the device.
 *
 * A program that registers memory with CUDA and unmaps the memory without unregistering it leaves a stale
 * registration. Memory that is mapped at this address later cannot be registered, and the device would write to the
 * pages of the old mapping. In this case page_map() maps the memory at another address. Owns nothing. Never unmaps or
 * unregisters memory that was returned, because the device may write to the memory late.
 */
#ifndef GPUB_PAGE_H
#define GPUB_PAGE_H

#include <stdbool.h>
#include <stddef.h>

/*
 * Maps `size` bytes of fd or, if fd is -1, of anonymous memory, and registers them by page_register(). Returns 0 and
 * stores the address in *page, or returns a negative errno with the error message set.
 */
int page_map(int (*page_register)(void *, size_t, bool), size_t size, int fd, bool writable, void **page);

#endif
