/* SPDX-License-Identifier: Apache-2.0 */
/* host-page.h - pages that are registered with the host device. The functions are described in device.h. */
#ifndef GPUB_HOST_PAGE_H
#define GPUB_HOST_PAGE_H

#include <stdbool.h>
#include <stddef.h>

int host_page_register(void *page, size_t size, bool writable);
int host_page_unregister(void *page);

#endif
