/* SPDX-License-Identifier: Apache-2.0 */
/*
 * load.h - broker-ctl load: a buffer with what is in a file.
 *
 * The buffer is written under a name of its own, and gets the name that was asked for when it is whole: who waits for that name never
 * sees a part. Until then it ends with this process, however that ends. Owns the connection, and the buffer until it has its name.
 */
#ifndef GPUB_CTL_LOAD_H
#define GPUB_CTL_LOAD_H

#include <stdbool.h>
#include <stdint.h>

struct load_order {
	const char *address; /* NULL: wherever gpub_connect() looks */
	const char *name, *file; /* "-": standard input */
	unsigned    device; /* the broker's number */
	unsigned    mode, flags; /* GPUB_DEDICATED, GPUB_SAME_ADDRESS */
	uint64_t    reserve; /* bytes that it may grow to; 0: it keeps its size */
	int         wait_ms;
	bool        replace, seal, quiet;
};

int ctl_load(const struct load_order *order);

#endif
