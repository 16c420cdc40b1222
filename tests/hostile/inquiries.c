/* SPDX-License-Identifier: Apache-2.0 */
/*
 * inquiries.c - attacks on the question what a process waits for: whoever makes false claims in the answer is shown
 * with what it may say of itself alone, and nobody has others asked, or waited for, more than the broker allows.
 */
#include <string.h>
#include <sys/socket.h>

#include "attacks.h"

#define NAME  "attacker/inquired"
#define FLOOD 20000

/* As a library that answers. */
static void join_answering(struct speaker *s)
{
	struct wire_message hello;

	WANT(!speaker_dial(s) && !speaker_hello(s, &hello));
	hello.hello.flags |= WIRE_HELLO_WAITS | WIRE_HELLO_RANK;
	hello.hello.rank = UINT32_MAX;
	WANT(!speaker_say(s, &hello) && !speaker_welcome(s));
}

static void hold_timeline(struct speaker *s, struct wire_grant *grant)
{
	struct wire_message message = speaker_message(WIRE_ACQUIRE, NAME), answer;
	int page = -1;

	message.acquire.rights = BOTH;
	WANT(!speaker_ask(s, &message, &answer, &page) && page >= 0);
	*grant = answer.grant;
	close(page);
}

static void say_refresh(struct speaker *s)
{
	struct wire_message message = speaker_message(WIRE_REFRESH, "");

	message.request = 99;
	WANT(!speaker_say(s, &message));
}

/* The next message of that type. */
static struct wire_message next_of(struct speaker *s, unsigned type)
{
	struct wire_message message;

	do
		WANT(!speaker_receive(s, &message, NULL));
	while (message.type != type);
	return message;
}

static void refresh(struct speaker *s)
{
	say_refresh(s);
	WANT(next_of(s, WIRE_DONE).request == 99);
}

static struct wire_message waits_of(unsigned count, uint64_t mapping, uint64_t serial)
{
	struct wire_message message = speaker_message(WIRE_WAITS, "");

	message.waits.count = count;
	for (unsigned i = 0; i < WIRE_WAITS_MAX; i++)
		message.waits.wait[i] = (struct wire_wait){
			.mapping = mapping, .serial = serial, .value = UINT64_MAX - i, .age_ms = UINT64_MAX
		};
	return message;
}

/* Of buffers that it does not use, of every number near; then what is true. */
static void claim(void)
{
	struct speaker s, asker;
	struct wire_grant grant;
	struct wire_message message;

	join_answering(&s);
	join(&asker);
	WANT(!speaker_create(&s, NAME, 4096, 0600, GPUB_TIMELINE));
	hold_timeline(&s, &grant);
	say_refresh(&asker);
	next_of(&s, WIRE_INQUIRE);
	message = waits_of(WIRE_WAITS_MAX, grant.mapping, 0);
	message.waits.more = 1;
	for (uint64_t i = 0; i < WIRE_WAITS_MAX; i++)
		message.waits.wait[i].serial = grant.serial + i - WIRE_WAITS_MAX;
	WANT(!speaker_say(&s, &message));
	for (uint64_t i = 0; i < WIRE_WAITS_MAX; i++) {
		message.waits.wait[i].mapping = grant.mapping + i - WIRE_WAITS_MAX;
		message.waits.wait[i].serial = grant.serial;
	}
	WANT(!speaker_say(&s, &message));
	message = waits_of(1, grant.mapping, grant.serial);
	WANT(!speaker_say(&s, &message));
	WANT(next_of(&asker, WIRE_DONE).request == 99);
	atomic_store(&stage->number[0], grant.serial);
	atomic_store(&stage->number[1], s.session);
	hold();
	speaker_end(&asker);
	speaker_end(&s);
}

static bool one_truth_is_shown(void)
{
	json_t *text = status_json(&arena_broker), *wait;
	unsigned own = 0, others = 0;
	size_t i;

	json_array_foreach(json_object_get(text, "waits"), i, wait) {
		uint64_t generation = (uint64_t)json_integer_value(json_object_get(wait, "generation"));
		uint64_t session = (uint64_t)json_integer_value(json_object_get(wait, "session"));

		if (session != atomic_load(&stage->number[1]))
			continue;
		own += generation == atomic_load(&stage->number[0]);
		others += generation != atomic_load(&stage->number[0]);
	}
	json_decref(text);
	return own == 1 && !others;
}

/* As a library that was never to be asked; malformed; then more than was asked for, which is a request each. */
static void answer_unasked(void)
{
	struct wire_message message = waits_of(1, 1, 1);
	struct wire_grant grant;
	struct speaker s, asker;

	join(&s);
	WANT(!speaker_say(&s, &message));
	want_cut(&s);
	join_answering(&s);
	message.waits.count = UINT32_MAX;
	WANT(!speaker_say(&s, &message));
	want_cut(&s);
	join_answering(&s);
	join(&asker);
	WANT(!speaker_create(&asker, NAME, 4096, 0600, GPUB_TIMELINE));
	hold_timeline(&s, &grant);
	say_refresh(&asker);
	next_of(&s, WIRE_INQUIRE);
	message = waits_of(WIRE_WAITS_MAX, grant.mapping, grant.serial);
	message.waits.more = 1;
	for (unsigned i = 0; i < FLOOD; i++)
		WANT(!speaker_say(&s, &message));
	WANT(next_of(&asker, WIRE_DONE).request == 99);
	refresh(&asker);
	speaker_end(&asker);
	speaker_end(&s);
}

/* It never answers, and reads nothing: it gets one question however many ask. */
static void never_answer(void)
{
	struct wire_message message;
	struct wire_grant grant;
	struct speaker s, asker;
	unsigned asked = 0;

	join_answering(&s);
	join(&asker);
	WANT(!speaker_create(&asker, NAME, 4096, 0600, GPUB_TIMELINE));
	hold_timeline(&s, &grant);
	for (int i = 0; i < 5; i++)
		refresh(&asker);
	WANT(!speaker_named(&asker, WIRE_UNLINK, NAME));
	do {
		WANT(!speaker_receive(&s, &message, NULL));
		asked += message.type == WIRE_INQUIRE;
	} while (message.type != WIRE_NOTICE);
	WANT(asked == 1);
	speaker_end(&asker);
	speaker_end(&s);
}

/* All but the first wait for nothing: they are refused. */
static void flood_refreshes(void)
{
	struct wire_message message = speaker_message(WIRE_REFRESH, ""), answer;
	unsigned done = 0, refused = 0;
	struct speaker s;

	join(&s);
	for (unsigned i = 0; i < FLOOD; i++) {
		message.request = i + 1;
		WANT(!speaker_say(&s, &message));
		while (recv(s.sock, &answer, sizeof answer, MSG_DONTWAIT) == sizeof answer) {
			done += answer.type == WIRE_DONE;
			refused += answer.type == WIRE_REFUSED && answer.refused.error == -EBUSY;
		}
	}
	while (done + refused < FLOOD) {
		WANT(!speaker_receive(&s, &answer, NULL));
		done += answer.type == WIRE_DONE;
		refused += answer.type == WIRE_REFUSED && answer.refused.error == -EBUSY;
	}
	WANT(done && refused > done);
	speaker_end(&s);
}

const struct attack inquiries[] = {
	{ "makes false claims of what it waits for", "only what it may wait for is shown", .run = claim,
	  .during = one_truth_is_shown },
	{ "answers what nobody asked", "its session is ended, or pays; others are answered", .run = answer_unasked },
	{ "never says what it waits for", "others are answered, and it is asked once", .run = never_answer },
	{ "has everybody asked all the time", "one question at a time, and others are served", .run = flood_refreshes },
	{ 0 },
};
