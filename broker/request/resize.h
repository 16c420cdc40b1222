/* SPDX-License-Identifier: Apache-2.0 */
/*
 * resize.h - grows and shrinks a buffer that was created with a reserve. A buffer grows by memory at the addresses that
 * follow its present memory.
 *
 * A resized buffer is a new generation of its name, as after a rename: clients keep their leases, and get the new size
 * with the next acquire. Owns the state of a resize until the device has made and zeroed the memory. A buffer has one
 * resize at a time.
 */
#ifndef GPUB_RESIZE_H
#define GPUB_RESIZE_H

#include "common/wire.h"

struct session;

/*
 * The handler of RESIZE. Answers at once, or when the device has finished. Returns 0, or a negative errno with the
 * error message set, which dispatch.c sends as the refusal: -EINVAL, -ENAMETOOLONG, -EBUSY, -EROFS, -ENOSPC, -ENOMEM,
 * -EDQUOT, -EACCES, -ENOENT, -ECONNREFUSED.
 */
int resize_begin(struct session *session, const struct wire_message *message);

#endif
