/* SPDX-License-Identifier: Apache-2.0 */
/*
 * output.h - an output file that appears under its name only when it is complete: it is written as a temporary file in
 * the same folder, and renamed at the end.
 *
 * Owns the temporary file until output_commit() or output_abandon(). The rename replaces an older file of that name in
 * one step, and keeps its owner, group, mode and access control list as far as possible. A path to something else than
 * a regular file is refused. The path "-" is standard output, which is written directly.
 */
#ifndef GPUB_CTL_OUTPUT_H
#define GPUB_CTL_OUTPUT_H

struct output {
	int   fd; /* descriptor of the temporary file or of standard output, open for writing */
	char *path, *temporary; /* paths of the final and the temporary file, allocated; NULL: standard output */
};

/*
 * Makes the temporary file for an output file at path. Returns 0 or negative errno with the error message, and then no
 * file is left.
 */
int output_open(struct output *output, const char *path);

/*
 * Syncs and renames the temporary file, or removes it on failure, and frees output. Returns 0 or negative errno with
 * the error message.
 */
int output_commit(struct output *output);

/* Removes the temporary file, and frees output. */
void output_abandon(struct output *output);

#endif
