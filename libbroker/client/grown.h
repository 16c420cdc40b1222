/* SPDX-License-Identifier: Apache-2.0 */
/*
 * grown.h - public structs that have grown: a program that was built for an earlier version passes fewer members.
 *
 * Each such struct begins with its struct_size. Members that the program's struct does not have are 0. Owns nothing.
 */
#ifndef GPUB_GROWN_H
#define GPUB_GROWN_H

#include <stddef.h>

#define GROWN_VERSIONS 3

/* Describes a public struct in all its versions. */
struct grown {
	const char *what;                  /* name of the struct, for error messages */
	const char *init;                  /* with what a program should initialise the struct, for error messages */
	size_t      sizes[GROWN_VERSIONS]; /* size of the struct in each version, oldest first; 0: no such version */
};

/*
 * Copies the program's struct `from` to `to`, which has the size of this library's version, and zeroes the members
 * that the program's struct does not have. -EINVAL, with the error message set: struct_size is that of no known
 * version.
 */
int grown_take(void *to, const struct grown *grown, const void *from);

/*
 * Copies `from`, a struct of this library's version, to the program's struct `to`, except struct_size and the members
 * that the program's struct does not have. grown_take() has checked the program's struct_size.
 */
void grown_give(void *to, const void *from);

#endif
