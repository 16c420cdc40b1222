/* SPDX-License-Identifier: Apache-2.0 */
/*
 * output.h - a file that gets its name when it is whole: until then it is a temporary one in the same folder.
 *
 * Owns the temporary file until it is committed or abandoned. A file that had the name is replaced in one step, by one
 * with its owner, group, mode and access control list; what is no regular file is not replaced. "-" is standard
 * output, which has no such care.
 */
#ifndef GPUB_CTL_OUTPUT_H
#define GPUB_CTL_OUTPUT_H

struct output {
	int   fd; /* for reading and writing */
	char *path, *temporary; /* NULL: standard output */
};

int output_open(struct output *output, const char *path);

/* On the disk, and under its name. It is over either way. */
int output_commit(struct output *output);
void output_abandon(struct output *output);

#endif
