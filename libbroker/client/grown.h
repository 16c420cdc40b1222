/* SPDX-License-Identifier: Apache-2.0 */
/*
 * grown.h - public structs that grew: a program that was built for an earlier version passes fewer members.
 *
 * Each begins with its struct_size. What the program does not have is 0. Owns nothing.
 */
#ifndef GPUB_GROWN_H
#define GPUB_GROWN_H

#include <stddef.h>

/*
 * Copies what the program passed, and zeroes behind it. first: the size in the first version, size: that of this one. what: the struct's name in the error
 * message, init: what it begins with. -EINVAL: the size is of no version that this library knows.
 */
int grown_take(void *to, size_t size, size_t first, const void *from, const char *what, const char *init);

/* The same the other way: as much of it as the program has. The program's struct_size was taken before. */
void grown_give(void *to, const void *from);

#endif
