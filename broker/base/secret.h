/* SPDX-License-Identifier: Apache-2.0 */
/*
 * secret.h - random keys in guarded memory, which reads as zeros in a child after a fork: the owner of the devices is
 * forked again while the broker has keys. Owns nothing.
 */
#ifndef GPUB_SECRET_H
#define GPUB_SECRET_H

#include <stddef.h>
#include <stdint.h>

/*
 * Returns `size` random bytes, which the caller frees by sodium_free(). NULL with the error message set: out of memory.
 * Does not fail where the kernel cannot zero the memory of a child (before Linux 4.14; gVisor).
 */
uint8_t *secret_new(size_t size);

#endif
