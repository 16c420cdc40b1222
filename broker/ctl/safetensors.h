/* SPDX-License-Identifier: Apache-2.0 */
/*
 * safetensors.h - the header of a .safetensors file: several tensors by name, with their types, shapes and places.
 *
 * A file is the size of the header (8 bytes, little-endian), the header, which is JSON and may end in spaces, and the tensors without
 * gaps. The header is somebody else's text: each place is compared with the type, the shape and the file's size, before anybody uses it.
 * Owns nothing; reads and writes no file.
 */
#ifndef GPUB_CTL_SAFETENSORS_H
#define GPUB_CTL_SAFETENSORS_H

#include <stddef.h>
#include <stdint.h>

#define SAFETENSORS_PREFIX     8
#define SAFETENSORS_HEADER_MAX 100000000 /* bytes: the format's own limit */
#define SAFETENSORS_ALIGNMENT  256       /* where the tensors begin in a buffer */

/* The header's size, where the file has that many bytes. -EINVAL with the error message. */
int safetensors_prefix_read(const uint8_t prefix[SAFETENSORS_PREFIX], uint64_t file_size, size_t *size);

/* Whether the header is right for so many bytes of tensors behind it. -EINVAL, or -ENOMEM, with the error message. */
int safetensors_check(const char *header, size_t size, uint64_t bytes);

/* How long a header has to be for the tensors behind it to begin at SAFETENSORS_ALIGNMENT. */
size_t safetensors_padded(size_t size);

void safetensors_prefix_make(size_t size, uint8_t prefix[SAFETENSORS_PREFIX]);

#endif
