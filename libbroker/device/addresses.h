/* SPDX-License-Identifier: Apache-2.0 */
/* addresses.h - whether memory can be mapped at given addresses of this process, and why not. Owns nothing. */
#ifndef GPUB_ADDRESSES_H
#define GPUB_ADDRESSES_H

#include <stdint.h>

/* Returns -EADDRINUSE. The error message says what this process has mapped in [base, base + size), if known. */
int addresses_taken(const void *base, uint64_t size);

/* Returns 0 if this process can map memory at [base, base + size) now; else the result of addresses_taken(). */
int addresses_check(const void *base, uint64_t size);

#endif
