/* SPDX-License-Identifier: Apache-2.0 */
/* addresses.h - what lies at addresses of this process that memory should be mapped at. */
#ifndef GPUB_ADDRESSES_H
#define GPUB_ADDRESSES_H

#include <stdint.h>

/* -EADDRINUSE, with an error message that says what this process has there, as far as the kernel knows. */
int addresses_taken(const void *base, uint64_t size);

/* 0: nothing lies there now, and memory can be mapped there. Otherwise as addresses_taken(). */
int addresses_check(const void *base, uint64_t size);

#endif
