/* SPDX-License-Identifier: Apache-2.0 */
/*
 * spec.h - buffers that a file declares, read with libconfuse:
 *
 *     buffer "field/u" { size = "64M"  device = 0  mode = "0600"  timeline = false  dedicated = false }
 *
 * Owns nothing. The first error ends the reading; its message begins with FILE:LINE.
 */
#ifndef GPUB_RUN_SPEC_H
#define GPUB_RUN_SPEC_H

struct declared_buffers;

/* Adds the file's buffers to the list, some also on failure. path must stay: they point to it. Negative errno. */
int run_spec_read(struct declared_buffers *buffers, const char *path);

#endif
