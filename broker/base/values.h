/* SPDX-License-Identifier: Apache-2.0 */
/*
 * values.h - values as people write them, on command lines (option-table.h) and in brokerd's configuration.
 *
 * A taker puts one value in its field: 0, or negative errno with the sentence set. Owns nothing.
 */
#ifndef GPUB_VALUES_H
#define GPUB_VALUES_H

#include <stdint.h>

typedef int taker(void *field, const char *value);

taker take_flag;     /* bool: true, whatever the value */
taker take_text;     /* const char *: the value itself */
taker take_instance; /* char [INSTANCE_SIZE], and zeros behind it */
taker take_device;   /* as the device of struct broker_config, and zeros behind it */
taker take_pool;     /* uint64_t: bytes, or with K, M, G; or 0 */

/* A whole number. what: what it is, for the sentence. */
int number_parse(const char *text, const char *what, uint64_t low, uint64_t high, uint64_t *number);

#endif
