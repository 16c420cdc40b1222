/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bytes.h - the bytes of the buffers of fuzz-broker: zeros at first, then what a client would have written into them.
 *
 * Owns a mark for each buffer that it has written. Opens the memory as clients do.
 */
#ifndef GPUB_FUZZ_BYTES_H
#define GPUB_FUZZ_BYTES_H

#include <stdbool.h>

#include "broker/base/context.h"

/*
 * New buffers, and what others grew by, must be zeros: they are written, as by a client. all: the others must have the
 * bytes that were written into them.
 */
void bytes_check(const struct broker *broker, bool all);

/* Forgets all marks, for the next broker. */
void bytes_forget(void);

#endif
