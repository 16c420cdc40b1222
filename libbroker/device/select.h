/* SPDX-License-Identifier: Apache-2.0 */
/*
 * select.h - chooses the kind of device by its text.
 *
 * Owns nothing but the text's grammar. Never opens or allocates memory.
 */
#ifndef GPUB_SELECT_H
#define GPUB_SELECT_H

#include <stdbool.h>

#include "device.h"

/*
 * Chooses by "auto", "cuda", "host" or "host:N" (1 to DEVICE_MAX) and starts it. auto takes host where there is no NVIDIA
 * driver or no device, and error_text() then says which. A driver or a device that does not work is an error. *device is
 * constant data. -EINVAL: the text is none of these. Other errors are those of start().
 */
int device_select(const char *text, bool owner, const struct device **device);

/* Checks the text as device_select() does, touching no device. */
int device_check(const char *text);

#define DEVICE_CHOICE_SIZE 16 /* of "auto", "cuda", "host" or "host:N", with its zero */

#endif
