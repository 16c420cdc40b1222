/* SPDX-License-Identifier: Apache-2.0 */
/*
 * page.h - memory that the device writes: mapped shared, kept from forks, registered.
 *
 * A program that registers memory with CUDA and unmaps it without unregistering it leaves a stale registration behind. What
 * is mapped at that address next cannot be registered, and the device writes there to pages that nobody sees. In this case
 * the memory is mapped elsewhere. Owns nothing. Never unmaps or unregisters what it returned: a late write of the device
 * must find it.
 */
#ifndef GPUB_PAGE_H
#define GPUB_PAGE_H

#include <stdbool.h>
#include <stddef.h>

/* Maps size bytes of fd, or of anonymous memory (-1), and registers them. 0 and *page, or the errno. */
int page_map(int (*page_register)(void *, size_t, bool), size_t size, int fd, bool writable, void **page);

#endif
