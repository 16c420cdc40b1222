/* SPDX-License-Identifier: Apache-2.0 */
/*
 * values.h - parses the values that people write on command lines (option-table.h) and in brokerd's configuration.
 *
 * A row of a table of options gives the type of its value as a struct value_type. All functions that return int
 * return 0, or a negative errno with the error message set and the field untouched. Owns nothing.
 */
#ifndef GPUB_VALUES_H
#define GPUB_VALUES_H

#include <stdint.h>

#include "gpubroker.h"

/* the type of a function that parses text and stores the value in the field */
typedef int taker(void *field, const char *text);

/* The type of a value: parsed by a function, one of a list of words, or else a number. */
struct value_type {
	taker             *take;      /* the function that parses the value; NULL: the value is a word or a number */
	const char        *what;      /* for the error message: what the number counts, or a list of all words */
	uint64_t           low, high; /* smallest and largest number that is allowed; the field is an unsigned */
	const char *const *words;     /* list of words, ended by NULL; the field, an unsigned, gets the index */
};

#define VALUE(function)         { .take = (function) }
#define NUMBER(name, from, to)  { .what = (name), .low = (from), .high = (to) }
#define WORD(list, description) { .what = (description), .words = (list) }

/* Parses the text as a value of this type and stores the value in the field. */
int value_take(const struct value_type *type, void *field, const char *text);

/* Parsers of values. Each comment begins with the type of the field that the parser stores its value in. */
taker take_flag;      /* bool: true for any text */
taker take_text;      /* const char *: the text itself */
taker take_instance;  /* char[INSTANCE_SIZE]: the name of a broker, padded with zero bytes */
taker take_device;    /* char[DEVICE_CHOICE_SIZE]: "auto", "cuda", "host" or "host:N", padded with zero bytes */
taker take_size_or_0; /* uint64_t: a number of bytes, such as "64M", or 0 */
taker take_mode;      /* unsigned: permission bits, written in octal */
taker take_export;    /* unsigned: number of the kind of export with this name (common/exports.h) */
taker take_user;      /* uint32_t: uid, from a user's name or a number */
taker take_group;     /* uint32_t: gid, from a group's name or a number */

/* Returns the number of the kind of export in $GPUBROKER_EXPORT; 0: not set; export_count: there is no such kind. */
unsigned export_of_environment(void);

/* Parses a decimal number from low to high. what: what the number counts, for the error message. */
int number_parse(const char *text, const char *what, uint64_t low, uint64_t high, uint64_t *number);

/* Size, layout, reserve and device of a buffer that is to be created. */
struct amount {
	uint64_t    size; /* size of the buffer in bytes, at least 1 */
	gpub_layout layout;
	uint64_t    reserve; /* bytes that the buffer may grow to; 0: the buffer keeps its size */
	unsigned    device;  /* index of the device in the broker, below DEVICE_MAX */
};

#define AMOUNT_TEXT_MAX (GPUB_LAYOUT_TEXT_MAX + 8)

taker take_layout; /* struct amount: sets layout, and size to the layout's, from a text such as "f32[1024,1024]" */

/*
 * struct amount: sets size, layout and device from SIZE or LAYOUT and @DEVICE: "64M", "f32[1024,1024]", "64M@1"; sets
 * reserve to 0.
 */
taker take_amount;

#endif
