/* SPDX-License-Identifier: Apache-2.0 */
/*
 * attacks.h - the attacks by topic, each list ended by one without a name, and what several topics use.
 *
 * Owns nothing. What an attack leaves behind under a name is swept away after it (arena.h).
 */
#ifndef GPUB_TESTS_HOSTILE_ATTACKS_H
#define GPUB_TESTS_HOSTILE_ATTACKS_H

#include <errno.h>

#include "arena.h"
#include "gpubroker.h"

extern const struct attack malformed[], tickets[], descriptors[], timelines[], inquiries[], memory[], ranges[], pool[],
	processes[], privileged[], publishing[], growth[], cancellation[], floods[], snapshots[], status_files[],
	walks[];
extern const struct attack status_file_of_others, status_file_of_its_own;

#define BOTH (GPUB_READ | GPUB_WRITE)

/* Installs the program that privileged[] attacks. False: such programs do not work here. */
bool privileged_begin(void);
void privileged_end(void);

/* A buffer of the victim's that everybody may write: prepare() makes it, as the victim's user. */
#define GIVEN      "victim/given"
#define GIVEN_SIZE (1u << 20)
void make_given(void);

/* In during(): its owner unlinks it; whether it then stays, held or mapped, as long as this process lives. */
bool given_outlives_its_name(void);

/* In during(): kills it, and waits until the given buffer is freed. */
bool given_goes_with(pid_t pid);

/* In run(): a session, or the attack has failed. */
void join(struct speaker *speaker);

/* In run(): the broker has read all that the session sent, and goes on serving it. */
void want_served(struct speaker *speaker);

/* In run(): the session is ended by the broker. */
void want_cut(struct speaker *speaker);

/* Reads what is there, without waiting. -ECONNRESET: the end. */
int drain(const struct speaker *speaker);

#endif
