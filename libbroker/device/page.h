/* SPDX-License-Identifier: Apache-2.0 */
/*
 * page.h - memory that the device writes: mapped shared, kept from forks, registered.
 *
 * A program that registers memory with CUDA and unmaps it without unregistering it leaves a stale registration behind. What is
 * mapped at that address next cannot be registered, and what the device writes there goes to pages that nobody sees. So memory
 * is mapped elsewhere then. Owns nothing; never unmaps or unregisters what it returned, for a late write must find it.
 */
#ifndef GPUB_PAGE_H
#define GPUB_PAGE_H

#include <stdbool.h>
#include <stddef.h>

/* Maps that much of fd, or of anonymous memory (-1), and registers it so. 0 and *page, or the errno. */
int page_map(int (*page_register)(void *, size_t, bool), size_t size, int fd, bool writable, void **page);

#endif
