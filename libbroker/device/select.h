/* SPDX-License-Identifier: Apache-2.0 */
/*
 * select.h - chooses the kind of device by the text of the option --device.
 *
 * Owns only the text's grammar. Never opens or allocates memory.
 */
#ifndef GPUB_SELECT_H
#define GPUB_SELECT_H

#include <stdbool.h>

#include "device.h"

/*
 * Chooses and starts the device "auto", "cuda", "host" or "host:N" (N devices, 1 to DEVICE_MAX), and stores its
 * constant table in *device. "auto" chooses host if the machine has no NVIDIA driver or no GPU, and then error_text()
 * says which is missing; or in a build without CUDA. A driver or a GPU that does not work is an error. -EINVAL: another
 * text. -ENODEV: "cuda", in a build without CUDA. Other errors are those of start().
 */
int device_select(const char *text, bool owner, const struct device **device);

/* Checks the text as device_select() does, without a use of the device. -ENODEV: "cuda", in a build without CUDA. */
int device_check(const char *text);

#define DEVICE_CHOICE_SIZE 16 /* bytes of room for a text of device_select(), including the NUL */

#endif
