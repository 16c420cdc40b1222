/* SPDX-License-Identifier: Apache-2.0 */
/*
 * save.h - broker-ctl save: a file with what is in a buffer.
 *
 * A file whose name ends in .npy begins with the header for the buffer's layout. One that ends in .safetensors is checked before it gets
 * its name. Owns the connection, the lease, and the file until it has its name (output.h).
 */
#ifndef GPUB_CTL_SAVE_H
#define GPUB_CTL_SAVE_H

#include <stdbool.h>

struct save_order {
	const char *address; /* NULL: wherever gpub_connect() looks */
	const char *name, *file; /* "-": standard output */
	bool        quiet;
};

int ctl_save(const struct save_order *order);

#endif
