/* SPDX-License-Identifier: Apache-2.0 */
/*
 * brokers-harness.h - an owner that is a thread of the test, with two devices, and its brokers, one after the other.
 * The test sends orders and receives outcomes itself.
 *
 * A broker dies without a word: its ends of the lanes close, and its end of the owner's socket but for a duplicate. The
 * devices are stubs that note their calls. A gate of each lane keeps its calls waiting while it is closed.
 */
#ifndef GPUB_TESTS_BROKERS_HARNESS_H
#define GPUB_TESTS_BROKERS_HARNESS_H

#include "tests/unit/broker/owner-thread.h"

#define DEVICES   2
#define QUESTIONS DEVICES /* the lane of questions */
#define LISTED_MAX 1024

/* What a lane lists, without its end. */
struct list {
	unsigned      memories, outcomes; /* numbers of entries of each array */
	struct listed memory[LISTED_MAX];
	struct listed outcome[LANE_ORDERS];
};

extern struct owner_link broker;  /* of the broker that lives */
extern struct owner_facts facts;  /* that broker's */
extern int owners_socket;         /* the duplicate; -1: none */

/* Begin and end the owner, with a first broker. For cmocka's setup and teardown. */
int brokers_setup(void **state);
int brokers_teardown(void **state);

void broker_dies(void);
void broker_comes(void); /* the next one */

/* Closes the duplicate, and waits until the owner has ended. */
void owner_ends(void);

/* While a lane's gate is closed the device's calls for the lane wait. gate_reached() waits until one does. */
void gate_close(unsigned lane);
void gate_open(unsigned lane);
void gate_reached(unsigned lane);

void names_lose(void); /* the next names_restore() says that names were lost */

/* An order of that kind; its size is its number, which is how the devices' calls are told apart. */
struct order order_of(enum order_kind kind, uint64_t number, uint64_t memory);

/* Sends an order through its lane. descriptor: goes beside it; -1: none. */
void order_send(const struct order *order, int descriptor);
unsigned order_lane(const struct order *order);

/* Receives the next outcome of the lane, whose descriptor is the caller's. outcome_waits() waits until there is one. */
struct outcome outcome_receive(unsigned lane);
void outcome_waits(unsigned lane);
void outcome_none(unsigned lane); /* none comes for a while */

/* Receives what the lane lists. Closes the descriptors; in `list` their numbers tell that they came. */
void list_receive(unsigned lane, struct list *list);

/* Returns how often the devices carried out the ALLOCATE, ADOPT, ZERO or GONE with the number. */
unsigned runs_of(uint64_t number);
unsigned memories_made(void);  /* number of pieces of memory that the devices have */
unsigned descriptors(void);    /* open ones of this process */

#endif
