/* SPDX-License-Identifier: Apache-2.0 */
/* uuid-text.h - formats a device's UUID as NVIDIA's programs do, without their prefix "GPU-". Owns nothing. */
#ifndef GPUB_UUID_TEXT_H
#define GPUB_UUID_TEXT_H

#include <stdint.h>

#define UUID_TEXT_SIZE 37 /* bytes of "5a3e1f00-58e3-c0d9-b11c-5fa064ed0dad" with the NUL */

/* Writes the UUID to text and returns text. */
const char *uuid_format(const uint8_t uuid[16], char text[UUID_TEXT_SIZE]);

#endif
