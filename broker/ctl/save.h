/* SPDX-License-Identifier: Apache-2.0 */
/*
 * save.h - broker-ctl save: writes the content of a buffer to a file.
 *
 * Writes all bytes of the buffer as they are. A file that is called .npy or .safetensors is refused (formats.h). Owns
 * the connection, the lease, and the file until it gets its name (output.h).
 */
#ifndef GPUB_CTL_SAVE_H
#define GPUB_CTL_SAVE_H

#include <stdbool.h>

struct save_order {
	const char *address; /* address of the broker; NULL: the address that gpub_connect() takes by default */
	const char *name, *file; /* name of the buffer; path of the file; file "-": standard output */
	bool        quiet; /* no progress is shown */
};

/*
 * Saves the buffer to the file. Returns 0 or negative errno with the error message, and then a file at the path is as
 * it was before.
 */
int ctl_save(const struct save_order *order);

#endif
