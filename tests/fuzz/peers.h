/* SPDX-License-Identifier: Apache-2.0 */
/*
 * peers.h - clients of fuzz-broker: raw sockets that say whatever an input makes them say.
 *
 * A peer remembers what it was sent, so that an input can name a grant that exists. What it is sent is checked: each
 * message is well formed, and a sealed handle opens with the peer's own key (invariant 4). Owns its socket and its
 * board.
 */
#ifndef GPUB_FUZZ_PEERS_H
#define GPUB_FUZZ_PEERS_H

#include "fuzz.h"

#include "broker/core/broker.h"
#include "broker/registry/mappings.h"
#include "common/socket.h"

#define PEER_GRANTS 8

struct peer {
	int                 sock; /* -1: not connected */
	bool                welcome;
	struct wire_hello   challenge;
	struct wire_welcome welcomed;
	struct board        board;
	struct wire_grant   grants[PEER_GRANTS]; /* the last ones that it was sent */
	unsigned            granted;
	struct wire_message last; /* that it said */
};

extern struct ticket peers_ticket; /* the last one that any of them was given: who has it may use it */

void peer_dial(struct peer *peer, const char *path);

/* Reads what waits, at most count messages. Returns how many there were. */
unsigned peer_read(struct peer *peer, struct broker *broker, unsigned count);

/* A request made of the input: fields are good, bad or known ones, and then bytes of it may be changed. */
void peer_compose(struct peer *peer, struct input *input, struct wire_message *message);

/* Sends, never waiting; what the socket does not take is lost. */
void peer_say(struct peer *peer, const struct wire_message *message, size_t length);
/* of so many like it, and one */
void peer_say_packet(struct peer *peer, const struct wire_message *message, unsigned count);
void peer_say_descriptors(struct peer *peer, const struct wire_message *message, unsigned count);
void peer_say_as_another(struct peer *peer, const struct wire_message *message);

void peer_hang_up(struct peer *peer);

/* The broker's view of it; NULL before its WELCOME, and when it is gone. */
struct session *peer_session(const struct peer *peer, struct broker *broker);

/* A peer that the kernel would have named another user: one process cannot be two. Before it holds anything. */
void peer_become(const struct peer *peer, struct broker *broker, uid_t uid);

#endif
