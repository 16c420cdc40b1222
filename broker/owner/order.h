/* SPDX-License-Identifier: Apache-2.0 */
/*
 * order.h - what the broker orders from the owner of the device memory, and what comes of it: plain data.
 *
 * The broker names memory by a number, which is that of the order that made it and is never used again. Addresses are
 * the owner's alone. Owns nothing.
 */
#ifndef GPUB_ORDER_H
#define GPUB_ORDER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/error.h"
#include "common/handle.h"

enum order_kind {
	ORDER_ALLOCATE, /* allocates memory, zeroes it (invariant 6) and exports it */
	ORDER_ADOPT,    /* takes over memory of an owner that has ended; a descriptor comes beside the order */
	ORDER_ZERO,     /* zeroes a part of the memory */
	ORDER_RELEASE,  /* frees the memory */
	ORDER_ROOM,     /* asks how much memory the device has free */
	ORDER_GONE,     /* asks whether all devices have ended the work of a dead process */
	ORDER_NAMES     /* makes the directory of the memory's names again, if somebody removed it */
};

struct order {
	enum order_kind kind;
	uint64_t        number;   /* of this order; no other order of the broker has it */
	unsigned        device;   /* index of the device in the broker; unused by GONE and NAMES */
	uid_t           uid;      /* the user in whose queue the order waits; unused by RELEASE */
	uint64_t        memory;   /* number of the memory; of ALLOCATE the order's; unused by ROOM, GONE, NAMES */
	uint64_t        offset;   /* ZERO: bytes from the beginning of the memory to the part */
	uint64_t        size;     /* ALLOCATE, ADOPT: bytes, whole granules; ZERO: bytes of the part */
	unsigned        exported; /* ALLOCATE, ADOPT: the kind of export */
	struct device_handle handle; /* ADOPT: the handle of the memory */
	pid_t           pid;      /* GONE: the dead process; device.h says what the results 0 and -EBUSY mean */
	bool            mps;      /* GONE: the process ran under MPS */
};

struct outcome {
	uint64_t             number;     /* of the order */
	int                  error;      /* 0, or a negative errno with the error message in `text` */
	char                 text[ERROR_TEXT_MAX];
	uint64_t             room;       /* of ROOM, and of a failed ALLOCATE: free bytes of the device; 0: unknown */
	bool                 renamed;    /* of NAMES: names of memory were lost since the last NAMES */
	struct device_handle handle;     /* of ALLOCATE: opens the memory */
	/*
	 * of ALLOCATE: opens the memory; -1: none. In the owner it is the device's, which closes it when the memory is
	 * freed. The broker has a copy, which it sends back with the RELEASE.
	 */
	int                  descriptor;
};

#endif
