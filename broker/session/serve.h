/* SPDX-License-Identifier: Apache-2.0 */
/*
 * serve.h - does the broker's work for sessions: begins them, reads their messages, discards what disconnected ones
 * send.
 *
 * Each user gets the same share of a pass (fair-queue.h). When the share or the user's tokens are used up, a session
 * with more work waits in its user's queue, with its messages unread in the socket, so that only the sender is slowed
 * down. Owns no state. Never interprets a message: greeting.c and session_hooks do.
 */
#ifndef GPUB_SERVE_H
#define GPUB_SERVE_H

#include <stdbool.h>

struct broker;
struct hand;
struct session_descriptors;
struct session_record;

/*
 * Begins a session on the connection fd. If its user has no share or no token left, the session waits in the fair
 * queue. reserved: a descriptor that is kept for the session's pidfd. Returns 0, or the error of greeting_arrive():
 * both descriptors stay the caller's.
 */
int session_accept(struct broker *broker, int fd, int reserved);

/*
 * Handles the messages that the broker before this one had in hand and has not handled: those of the packet after the
 * first `done`. The load has put the packet into this broker's hand (core/load.c). Called when all else of that broker
 * is restored.
 */
void sessions_resume_hand(struct broker *broker);

/*
 * Counts a crash of the broker before this one, which had handled `done` messages of the packet in hand. At the second
 * one in a row at a message, sessions_resume_hand() disconnects its session.
 */
void sessions_blame(struct broker *broker);

/* Goes on with the ends of the sessions of the broker before this one that have hung up. */
void sessions_resume_ends(struct broker *broker);

/*
 * Makes a session of the broker before this one and serves it from now on (restore.h). Takes over the descriptors.
 * Returns 0, or the error of session_restore(), and then they stay the caller's.
 */
int session_resume(struct broker *broker, const struct session_record *record, const struct session_descriptors *kept);

/*
 * Serves the sessions in the fair queue for one pass. Returns true if sessions are left that may be served in the next
 * pass, because they need not wait for their user's quota.
 */
bool sessions_serve(struct broker *broker);

#endif
