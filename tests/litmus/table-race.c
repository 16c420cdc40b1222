/* SPDX-License-Identifier: Apache-2.0 */
/* table-race.c - see table-race.h */
#include "table-race.h"

#include <stdio.h>
#include <stdlib.h>

#include "client/records.h"
#include "client/table.h"

/*
 * In a table of their own, so small that every eighteenth change rebuilds it in place: some names go to and fro, and
 * others, which stay, are looked for.
 */
#define SCANS 32
#define MOVES 4
#define STAY  15u
#define MOVE  15u

static struct table small;
static struct record small_record[STAY + MOVE];
static struct table_key small_key[STAY];
static unsigned small_moved[MOVE];
static enum outcome found[CELLS];

static int small_add(struct record *record, const char *kind, unsigned number)
{
	char name[NAME_SIZE];

	snprintf(name, sizeof name, "%s/%u", kind, number);
	return table_add(&small, record, name, 0);
}

int small_make(void)
{
	char name[NAME_SIZE];
	int error = table_init(&small);

	for (unsigned i = 0; i < STAY && !error; i++) {
		snprintf(name, sizeof name, "stays/%u", i);
		error = table_key_make(&small, &small_key[i], name, 0);
		if (!error)
			error = small_add(&small_record[i], "stays", i);
	}
	for (unsigned i = 0; i < MOVE && !error; i++)
		error = small_add(&small_record[STAY + i], "moves", i);
	return error;
}

/* Found, or the table is seen to change: anything but "it is not there". */
static enum outcome look_for(unsigned number)
{
	uint64_t version;
	struct record *record = table_find(&small, &small_key[number], &version);

	if (!table_unchanged(&small, version))
		return OUTCOME_TWO;
	return record == &small_record[number] ? OUTCOME_ONE : OUTCOME_FORBIDDEN;
}

void find_first(unsigned i)
{
	found[i] = OUTCOME_ONE;
	for (unsigned n = 0; n < SCANS; n++) {
		enum outcome outcome = look_for((i + n) % STAY);

		if (outcome != OUTCOME_ONE && found[i] != OUTCOME_FORBIDDEN)
			found[i] = outcome;
	}
}

void move_second(unsigned i)
{
	for (unsigned n = 0; n < MOVES; n++) {
		unsigned number = (i + n) % MOVE;
		struct record *record = &small_record[STAY + number];

		table_remove(&small, record);
		small_moved[number]++;
		if (small_add(record, small_moved[number] % 2 ? "moved" : "moves", number))
			abort();
	}
}

enum outcome judge_found(unsigned i)
{
	return found[i];
}
