/* SPDX-License-Identifier: Apache-2.0 */
/*
 * view.h - the views of a mapping. If the kind of export has views, memory is mapped writable for leases with
 * GPUB_WRITE and, a second time, read-only for other leases. If the memory is mapped once for both, both views have the
 * same address.
 */
#ifndef GPUB_VIEW_H
#define GPUB_VIEW_H

#include "gpubroker.h"

enum view { VIEW_READ, VIEW_WRITE, VIEWS };

/* Returns the view that leases with these rights use. */
static inline enum view view_of(unsigned rights)
{
	return rights & GPUB_WRITE ? VIEW_WRITE : VIEW_READ;
}

#endif
