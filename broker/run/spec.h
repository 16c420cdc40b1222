/* SPDX-License-Identifier: Apache-2.0 */
/*
 * spec.h - reads a spec file, which declares buffers, with libconfuse:
 *
 *     buffer "field/u" { size = "64M"  device = 0  mode = "0600"  timeline = false  dedicated = false }
 *
 * Owns nothing. The first error ends the reading; its message begins with FILE:LINE.
 */
#ifndef GPUB_RUN_SPEC_H
#define GPUB_RUN_SPEC_H

struct declared_buffers;

/*
 * Adds the buffers that the file declares to the list; after a failure some of them may be in it. The entries point to
 * `path`, which must outlive them. Returns 0 or negative errno.
 */
int run_spec_read(struct declared_buffers *buffers, const char *path);

#endif
