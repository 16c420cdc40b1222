/* SPDX-License-Identifier: Apache-2.0 */
/*
 * grown.h - public structs that grew: a program that was built for an earlier version passes fewer members.
 *
 * Each begins with its struct_size. What the program does not have is 0. Owns nothing.
 */
#ifndef GPUB_GROWN_H
#define GPUB_GROWN_H

#include <stddef.h>

#define GROWN_VERSIONS 3

/* A public struct: its name, what it begins with, and its size in each version, this one last. */
struct grown {
	const char *what, *init;
	size_t      sizes[GROWN_VERSIONS]; /* behind the last: 0 */
};

/* Copies what the program passed, and zeroes behind it. -EINVAL: the size is of no version that this library knows. */
int grown_take(void *to, const struct grown *grown, const void *from);

/* The same the other way: as much of it as the program has. The program's struct_size was taken before. */
void grown_give(void *to, const void *from);

#endif
