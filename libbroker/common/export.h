/* SPDX-License-Identifier: Apache-2.0 */
/*
 * export.h - the kinds of export, by which an allocation reaches other processes: a row of traits for each kind.
 *
 * Code asks for the trait that matters to it and does not compare kinds. Only a device's functions that make and open
 * memory of one kind know that kind. Owns nothing; the table is constant.
 */
#ifndef GPUB_EXPORT_H
#define GPUB_EXPORT_H

#include <stdbool.h>

#define EXPORT_CHUNKS_MAX 32 /* pieces of one allocation at most: its first memory, and the chunks by which it grew */

/* The numbers of the kinds of export, in messages, seals and the status file. */
enum export_kind {
	EXPORT_IPC, /* CUDA IPC */
	EXPORT_VMM, /* CUDA's virtual memory management */
	EXPORT_KINDS
};

struct export {
	const char *name; /* name of the kind, as in --export, $GPUBROKER_EXPORT, brokerd.conf and the status file */
	/*
	 * True: a descriptor opens the memory, and the handle only tells which memory the descriptor is for. Requires
	 * views. False: the handle alone opens the memory.
	 */
	bool by_descriptor;
	/*
	 * True: the device's map() opens the memory. Each call makes a mapping of its own, read-only or writable,
	 * except that all calls for one given address share a mapping. False: the device's open() opens the memory,
	 * as with CUDA IPC. All opens in a process share one mapping, which can be read and written.
	 */
	bool views;
	/* True: a buffer can have one address in all processes, and can grow. Requires by_descriptor and views. */
	bool growable;
	/*
	 * True: each close of a mapping waits for all work of the process on the device. Required where views is false.
	 * False: once the work on a mapping is done, the device's unmap() closes the mapping without waiting.
	 */
	bool close_waits;
	/* True: a reset of the device (cudaDeviceReset) ends mappings. False: mappings survive and must be unmapped. */
	bool ends_at_reset;
	/* True: a process in another pid namespace whose pid number equals the broker's cannot open the memory. */
	bool pid_matters;
};

/* The table of kinds, by enum export_kind, and its length. A test defines its own (other-exports.c). */
extern const struct export exports[];
extern const unsigned export_count;

/* Returns the row of kind `number`, which must be less than export_count. */
static inline const struct export *export_of(unsigned number)
{
	return &exports[number];
}

#endif
