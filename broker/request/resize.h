/* SPDX-License-Identifier: Apache-2.0 */
/*
 * resize.h - the size of a buffer that was created with a reserve: it grows by memory behind what it has, and shrinks.
 *
 * A resized buffer is a new generation of its name, as after a rename: who uses it keeps its lease, and finds the new
 * size with the next acquire. Owns a growth until the device has made and zeroed what is new. One at a time for a
 * buffer.
 */
#ifndef GPUB_RESIZE_H
#define GPUB_RESIZE_H

#include "common/wire.h"

struct session;

/*
 * Answers at once, or when the memory is there. 0 or a negative errno with the error message set, which dispatch.c then
 * sends as the refusal: -EINVAL, -EBUSY, -EROFS, -ENOSPC, -ENOMEM, -EDQUOT, -EACCES, -ENOENT.
 */
int resize_begin(struct session *session, const struct wire_message *message);

#endif
