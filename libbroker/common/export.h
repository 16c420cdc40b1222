/* SPDX-License-Identifier: Apache-2.0 */
/*
 * export.h - how an allocation is exported to other processes: a row of traits for each kind.
 *
 * Code asks for the trait that it needs. It does not compare kinds, but for the device's own functions that make and
 * open memory of one kind. Owns nothing; all of it is constant.
 */
#ifndef GPUB_EXPORT_H
#define GPUB_EXPORT_H

#include <stdbool.h>

#define EXPORT_CHUNKS_MAX 32 /* pieces of one allocation: the first one, and those that it grew by */

/* The numbers of the kinds, in messages, seals and the status. */
enum export_kind {
	EXPORT_IPC, /* CUDA IPC */
	EXPORT_VMM, /* CUDA's virtual memory management */
	EXPORT_KINDS
};

struct export {
	const char *name; /* the word of --export, $GPUBROKER_EXPORT, brokerd.conf and the status */
	/*
	 * A descriptor opens the memory, and the handle says which descriptor is meant. Else the handle is enough.
	 * Needs views.
	 */
	bool by_descriptor;
	/*
	 * The device's map() opens the memory: each call makes another mapping, with an access of its own, unless it
	 * asks for an address. Else open() does, as for CUDA IPC: all opens in a process are one mapping, which can be
	 * read and written.
	 */
	bool views;
	/* Buffers may have one address in all processes, and may grow in place. Needs by_descriptor and views. */
	bool growable;
	/*
	 * Each close of a mapping waits for all work of the process on the device. Else the device's unmap() ends a
	 * mapping without a wait, once its work is done. Set where there are no views.
	 */
	bool close_waits;
	/* A reset of the device (cudaDeviceReset) ends mappings. Else they stay where they are and must be unmapped. */
	bool ends_at_reset;
	/* A process whose pid has the same number as the broker's, in another pid namespace, cannot open the memory. */
	bool pid_matters;
};

/* The kinds by their numbers. A test has others: it defines both of these itself (other-exports.c). */
extern const struct export exports[];
extern const unsigned export_count;

/* The kind of that number, which must be less than export_count. */
static inline const struct export *export_of(unsigned number)
{
	return &exports[number];
}

#endif
