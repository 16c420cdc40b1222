/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ticket.h - a ticket: a right to one buffer, which one process hands to another as text.
 *
 * The broker stamps a ticket with a keyed hash (BLAKE2b, libsodium), so a holder can read what the ticket allows but
 * cannot change the ticket. The text is "gpub1." and the ticket in base64url. A ticket is a secret like a password,
 * because any holder may use it, unless it is for one user. Owns the form of a ticket and its stamp. The broker decides
 * what a ticket allows (broker/request/delegation.c). sodium_init() must have run.
 */
#ifndef GPUB_TICKET_H
#define GPUB_TICKET_H

#include <stdbool.h>
#include <stdint.h>

#define TICKET_TEXT_MAX   256 /* bytes of a ticket's text at most, including the NUL */
#define TICKET_STAMP_SIZE 32
#define TICKET_KEY_SIZE   32
#define TICKET_ANY_USER   UINT32_MAX

/*
 * `stamp` covers all bytes before it, so the struct has no padding, and unused bytes are 0. Integers are in the
 * machine's byte order.
 */
struct ticket {
	uint8_t  instance[16]; /* board_header.instance_id of the broker that issued the ticket */
	uint8_t  id[16];       /* random */
	uint64_t serial;       /* serial of the buffer that the ticket is for */
	uint64_t expires_ms;   /* time of CLOCK_BOOTTIME; 0: the ticket has no time limit */
	uint32_t uid;          /* the user who may redeem the ticket; TICKET_ANY_USER: any holder */
	uint32_t owner_changes; /* how often the buffer's owner had changed when the ticket was issued */
	uint8_t  rights, once, reserved[6]; /* GPUB_READ, GPUB_WRITE; 1: can be redeemed once; must be 0 */
	uint8_t  stamp[TICKET_STAMP_SIZE];
};

_Static_assert(sizeof(struct ticket) == 96, "the token is stamped as bytes: no padding");

void ticket_stamp(struct ticket *ticket, const uint8_t key[TICKET_KEY_SIZE]);

/* Whether the ticket was stamped with this key and is unchanged since. Takes constant time. */
bool ticket_is_genuine(const struct ticket *ticket, const uint8_t key[TICKET_KEY_SIZE]);

void ticket_encode(const struct ticket *ticket, char text[TICKET_TEXT_MAX]);

/* Decodes a ticket's text. Does not check the stamp. -EKEYREJECTED, error message set: the text is no ticket. */
int ticket_decode(const char *text, struct ticket *ticket);

#endif
