/* SPDX-License-Identifier: Apache-2.0 */
/* broker-text.h - what a broker has, as text: equal brokers have equal texts. */
#ifndef GPUB_TEST_BROKER_TEXT_H
#define GPUB_TEST_BROKER_TEXT_H

#include <stdbool.h>

struct broker;

/*
 * Hides what need not be the same after a kill: which place a new object gets follows from the order in which places
 * became free; the page that says a timeline's last value has the living broker's end mark already; what waits in a
 * socket is charged; a create that is handled again has another time.
 */
extern bool text_hides_chance;

void row(const char *format, ...) __attribute__((format(printf, 1, 2))); /* adds a line */
char *text_take(void); /* returns all lines in an order of their own, for free(3), and forgets them */

/* Returns what the broker has, for free(3). */
char *broker_text(struct broker *of);

#endif
