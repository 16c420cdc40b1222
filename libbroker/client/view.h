/* SPDX-License-Identifier: Apache-2.0 */
/*
 * view.h - the views of a mapping: memory of a kind of export with views is mapped once for leases that write, and
 * once, read-only, for those that do not. Where one mapping serves both, both views are the same.
 */
#ifndef GPUB_VIEW_H
#define GPUB_VIEW_H

#include "gpubroker.h"

enum view { VIEW_READ, VIEW_WRITE, VIEWS };

/* That of leases with these rights. */
static inline enum view view_of(unsigned rights)
{
	return rights & GPUB_WRITE ? VIEW_WRITE : VIEW_READ;
}

#endif
