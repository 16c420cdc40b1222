/* SPDX-License-Identifier: Apache-2.0 */
/*
 * allocation.h - one piece of device memory, from the create that needs it to the free.
 *
 * The registry (above) keeps here which buffers and grants there are on it, and decides by their counts that it may be freed;
 * slab.c and usage.c keep their part of it. Owns nothing itself.
 */
#ifndef GPUB_ALLOCATION_H
#define GPUB_ALLOCATION_H

#include <stdbool.h>
#include <stdint.h>

#include "broker/users/accounting.h"
#include "device/device.h"
#include "slab.h"
#include "usage.h"

struct buffer;
struct grant;

/* One export of whole granules on one device: of one large buffer, or of many small ones of one kind. */
struct allocation {
	unsigned             device; /* the broker's index */
	uint64_t             span;   /* bytes, whole granules */
	void                *ptr;
	struct device_handle handle;
	struct slab          slab;
	bool                 made;     /* the device has it */
	bool                 parted;   /* its mode or owner changed, or others may have it by a ticket */
	bool                 given_up; /* it serves no new buffer; who maps it was asked to close */
	bool                 evicted;  /* for others' sake: when it is closed it goes to the device */
	bool                 idle;     /* no buffers are in it; it is mapped, and kept for the next one of its kind */
	bool                 freeing;
	unsigned             named;    /* buffers in it that still have their name */
	unsigned             used;     /* uses of them, all together */
	unsigned             open;     /* grants on it that are not over, those that are held among them */
	unsigned             held;
	unsigned             cleaning; /* ranges that the device is zeroing */
	struct buffer       *buffers;
	struct grant        *grants;
	struct charge        charge, descriptors; /* that the device keeps open for it */
	struct usage        *usage; /* its owner's, of its device */
	struct spare         spare; /* while it is idle */
	struct leaving       leaving; /* when it was evicted */
	void                *release_job; /* malloc'd with it: a free must not want for memory */
	struct grant        *unnoticed; /* from here on its grants have the notice that it is given up yet to come */
	bool                 noticing;  /* it is among the registry's for that */
	struct allocation   *prev, *next;
	struct allocation   *notice_prev, *notice_next;
};

#endif
