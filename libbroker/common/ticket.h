/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ticket.h - a delegable ticket: a right to one buffer that one process hands to another as text.
 *
 * The broker stamps it with a keyed hash (BLAKE2b, libsodium), so its holder can read what it allows but change
 * nothing. As text it is "gpub1." and base64url. It is a secret like a password: any holder may use it. Owns the form
 * and its stamp; the broker decides what a token allows (broker/request/delegation.c). sodium_init() must have run.
 */
#ifndef GPUB_TICKET_H
#define GPUB_TICKET_H

#include <stdbool.h>
#include <stdint.h>

#define TICKET_TEXT_MAX   256 /* with its terminating zero */
#define TICKET_STAMP_SIZE 32
#define TICKET_KEY_SIZE   32
#define TICKET_ANY_USER   UINT32_MAX

/* Every byte is stamped: no padding, unused bytes zero. Integers are in the machine's order. */
struct ticket {
	uint8_t  instance[16]; /* the broker that issued it */
	uint8_t  id[16];       /* random */
	uint64_t serial;       /* of the buffer */
	uint64_t expires_ms;   /* CLOCK_BOOTTIME; 0: with its buffer */
	uint32_t uid;          /* who may redeem it; TICKET_ANY_USER: any holder */
	uint32_t tenure;       /* how often the buffer had changed its owner: a ticket is one owner's */
	uint8_t  rights, once, reserved[6];
	uint8_t  stamp[TICKET_STAMP_SIZE];
};

_Static_assert(sizeof(struct ticket) == 96, "the token is stamped as bytes: no padding");

void ticket_stamp(struct ticket *ticket, const uint8_t key[TICKET_KEY_SIZE]);

/* Whether that key stamped it and nothing changed since. In constant time. */
bool ticket_is_genuine(const struct ticket *ticket, const uint8_t key[TICKET_KEY_SIZE]);

void ticket_encode(const struct ticket *ticket, char text[TICKET_TEXT_MAX]);

/* -EKEYREJECTED: the text is not a ticket of any broker. */
int ticket_decode(const char *text, struct ticket *ticket);

#endif
