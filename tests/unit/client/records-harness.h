/* SPDX-License-Identifier: Apache-2.0 */
/*
 * records-harness.h - a client with one open record, for unit tests.
 *
 * Records are made open by hand here, without a broker: the word in the board is a variable of the test, and the
 * device is a table that only registers memory.
 */
#ifndef GPUB_TESTS_RECORDS_HARNESS_H
#define GPUB_TESTS_RECORDS_HARNESS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "client/client.h"
#include "client/close.h"
#include "client/hold.h"
#include "client/lease.h"
#include "client/mapping.h"
#include "client/records.h"
#include "client/table.h"

#define BLOCKS 2
#define SLOTS (SLOTS_FIRST * 3) /* of two blocks */
#define MAPPING 9
#define LIVE  BOARD_WORD(5, BOARD_LIVE)

extern const struct device fake;
extern int fake_register_error;
extern int fake_close_error;
extern unsigned fake_closed;
extern uint64_t *landing_word, landing_value;
extern int fake_write_error;
extern _Atomic uint64_t board_generation;
extern struct gpub_client *client;
extern struct record *record;
extern char memory[64];

int fake_register(void *page, size_t size, bool writable);
int fake_check(int ordinal);
void land(void);
void open_record(struct record *which, uint64_t mapping);
int setup(void **state);
int teardown(void **state);
uint64_t hold(void);
gpub_lease lease_of(uint64_t token);
int give_back(uint64_t token);
int give_back_on(uint64_t token);
bool idle(void);
int close_now(bool wait);

#define ON(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

#endif
