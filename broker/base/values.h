/* SPDX-License-Identifier: Apache-2.0 */
/*
 * values.h - how people write values, on command lines (option-table.h) and in brokerd's configuration.
 *
 * A row of such a table gives the type of its value as a struct value_type. All functions return 0, or a negative errno
 * with the error message set and the field untouched. Owns nothing.
 */
#ifndef GPUB_VALUES_H
#define GPUB_VALUES_H

#include <stdint.h>

#include "gpubroker.h"

typedef int taker(void *field, const char *text);

struct value_type {
	taker             *take;      /* NULL: a number or a word, as follows */
	const char        *what;      /* of a number: what it counts; of words: those that there are. For the error message */
	uint64_t           low, high; /* a number, in an unsigned */
	const char *const *words;     /* a word, whose place in this list is the enum; NULL at the end */
};

#define VALUE(function)         { .take = (function) }
#define NUMBER(name, from, to)  { .what = (name), .low = (from), .high = (to) }
#define WORD(list, description) { .what = (description), .words = (list) }

/* Puts the value that the text stands for into the field. */
int value_take(const struct value_type *type, void *field, const char *text);

taker take_flag;      /* bool: true, whatever the text */
taker take_text;      /* const char *: the text itself */
taker take_instance;  /* char [INSTANCE_SIZE], and zeros behind it */
taker take_device;    /* as the device of struct broker_config, and zeros behind it */
taker take_size_or_0; /* uint64_t: bytes, or with K, M, G; or 0 */
taker take_mode;      /* unsigned: permission bits in octal */
taker take_export;    /* unsigned: the kind of export by its number (export.h) */
taker take_user;      /* uint32_t: of a user's name, or a number */
taker take_group;     /* the same of a group */

/*
 * The number of the kind of export that $GPUBROKER_EXPORT names. 0: it is not set. export_count: there is no such kind.
 */
unsigned export_of_environment(void);

/* A whole number. what: what it is, for the error message. */
int number_parse(const char *text, const char *what, uint64_t low, uint64_t high, uint64_t *number);

/* How much memory, for what, on which device. */
struct amount {
	uint64_t    size; /* bytes, at least 1 */
	gpub_layout layout;
	uint64_t    reserve; /* bytes that it may grow to; 0: it keeps its size */
	unsigned    device; /* below DEVICE_MAX */
};

#define AMOUNT_TEXT_MAX (GPUB_LAYOUT_TEXT_MAX + 8)

taker take_layout; /* struct amount, its size and layout: "f32[1024,1024]" */

/* Into a struct amount: a size or a layout, "64M" or "f32[1024,1024]", and a device behind it, "64M@1". */
taker take_amount;

#endif
