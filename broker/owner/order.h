/* SPDX-License-Identifier: Apache-2.0 */
/*
 * order.h - what the broker orders from the owner of the device memory, and what comes of it: plain data.
 *
 * The broker names memory by a number, which is that of the order that made it and is never used again. Addresses are
 * the owner's alone.
 *
 * The owner may outlive its broker. So that no order is carried out twice and no outcome is lost, the owner keeps the
 * outcome of each order that changes memory until an order acknowledges it, and lists the kept ones to the next broker.
 * Owns nothing.
 */
#ifndef GPUB_ORDER_H
#define GPUB_ORDER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/error.h"
#include "common/handle.h"

/*
 * The version of what broker and owner send to each other: of orders, outcomes and lists, and of the facts of the
 * start. An upgrade keeps the owner, so a program goes on with an owner of the same version only.
 */
#define OWNER_VERSION 1

/*
 * Number of orders of a lane that are with the owner at most: an order counts from the moment that it is sent until the
 * broker has handled its outcome. With fewer, an owner that has to wait for a processor would do little each time; with
 * more, a user would wait longer behind those of others.
 *
 * The owner keeps at most so many outcomes for a lane, too. When the broker sends an order, at most LANE_ORDERS - 1
 * other orders of the lane count. All orders before them are handled, and the new order acknowledges the newest of
 * these: the owner carries orders out, and answers them, in the order in which they were sent. So the owner keeps at
 * most LANE_ORDERS - 1 outcomes when it begins an order, and has room for one more. The next broker handles all that
 * the owner has listed before it sends its first order, which acknowledges that.
 */
#define LANE_ORDERS 16

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
	uint64_t        number;   /* of this order, not 0; no other order that the owner gets has it */
	/* number of the newest order of the lane whose outcome was kept, and which the broker has handled; 0: none */
	uint64_t        acknowledged;
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

/*
 * Returns whether the owner keeps the outcome of such an order. The outcomes of the other orders are answers to
 * questions, which the next broker asks again.
 */
static inline bool order_is_kept(enum order_kind kind)
{
	return kind == ORDER_ALLOCATE || kind == ORDER_ADOPT || kind == ORDER_ZERO || kind == ORDER_RELEASE;
}

enum listed_kind {
	LISTED_MEMORY,  /* memory of the device that the owner has */
	LISTED_OUTCOME, /* an outcome that is not acknowledged; those of a lane come in the order of their orders */
	LISTED_END      /* the owner accepts orders from now on */
};

/* What an owner that has served another broker says first through each lane of the next one. */
struct listed {
	enum listed_kind kind;
	enum order_kind  order;    /* OUTCOME: what was ordered */
	uint64_t         memory;   /* MEMORY: the number; OUTCOME: number of the memory that the order was about */
	uint64_t         size;     /* MEMORY: bytes */
	unsigned         exported; /* MEMORY, and OUTCOME if the owner has the memory: kind of export */
	/*
	 * OUTCOME: as it was answered, or was to be answered. The handle and the descriptor of an ALLOCATE are there
	 * unless the memory was released since.
	 */
	struct outcome   outcome;
};

#endif
