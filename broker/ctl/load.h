/* SPDX-License-Identifier: Apache-2.0 */
/*
 * load.h - broker-ctl load: creates a buffer with the bytes of a file.
 *
 * A file that is plainly .npy or .safetensors is refused (formats.h), unless it is standard input. The buffer is
 * written under a temporary name, and is renamed when it is complete: a process that waits for the final name never
 * sees an incomplete buffer. Until the rename the buffer is ephemeral, so it ends with this process. Owns the
 * connection, and the buffer until the rename.
 */
#ifndef GPUB_CTL_LOAD_H
#define GPUB_CTL_LOAD_H

#include <stdbool.h>
#include <stdint.h>

struct load_order {
	const char *address; /* address of the broker; NULL: the address that gpub_connect() takes by default */
	const char *name, *file; /* name of the buffer; path of the file; file "-": standard input */
	unsigned    device; /* index of the device in the broker */
	unsigned    mode, flags; /* permission bits; flags: GPUB_DEDICATED, GPUB_SAME_ADDRESS */
	uint64_t    reserve; /* bytes that the buffer may grow to; 0: the buffer keeps its size */
	int         wait_ms; /* milliseconds that the create may wait for memory; 0: not at all */
	bool        replace; /* a buffer that has the name is unlinked by the rename */
	bool        seal;    /* the buffer is sealed before the rename */
	bool        quiet;   /* no progress is shown */
};

/*
 * Loads the file into a new buffer. Returns 0 or negative errno with the error message, and then there is no new
 * buffer.
 */
int ctl_load(const struct load_order *order);

#endif
