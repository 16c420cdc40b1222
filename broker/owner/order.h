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
	ORDER_ZERO,     /* zeroes a part of the memory */
	ORDER_RELEASE,  /* frees the memory */
	ORDER_ROOM,     /* asks how much memory the device has free */
	ORDER_GONE      /* asks whether all devices have ended the work of a dead process */
};

struct order {
	enum order_kind kind;
	unsigned        device;   /* index of the device in the broker; unused by GONE */
	uid_t           uid;      /* the user in whose queue the order waits; unused by RELEASE */
	uint64_t        memory;   /* ALLOCATE, ZERO, RELEASE: number of the memory */
	uint64_t        offset;   /* ZERO: bytes from the beginning of the memory to the part */
	uint64_t        size;     /* ALLOCATE: bytes, whole granules; ZERO: bytes of the part */
	unsigned        exported; /* ALLOCATE: the kind of export */
	pid_t           pid;      /* GONE: the dead process; device.h says what the results 0 and -EBUSY mean */
	bool            mps;      /* GONE: the process ran under MPS */
};

struct outcome {
	int                  error;      /* 0, or a negative errno with the error message in `text` */
	char                 text[ERROR_TEXT_MAX];
	uint64_t             room;       /* of ROOM, and of a failed ALLOCATE: free bytes of the device; 0: unknown */
	struct device_handle handle;     /* of ALLOCATE: opens the memory */
	int                  descriptor; /* of ALLOCATE: opens the memory; owned by the device; -1: none */
};

#endif
