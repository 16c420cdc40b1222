/* SPDX-License-Identifier: Apache-2.0 */
/*
 * malformed.c - attacks on the protocol: lengths, versions, types, ids, names, values, greetings, and the order of
 * messages.
 *
 * A session that breaks the protocol is cut off. A request that makes no sense, or is for what the session does not
 * own, is refused.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "attacks.h"

/* ---- form ---- */

static void lengths(void)
{
	static const size_t sizes[] = { 0, 1, 15, 16, WIRE_SIZE - 1, WIRE_SIZE + 1, 2 * WIRE_SIZE, 4096, 65536 };
	static uint8_t bytes[65536];
	struct wire_message stat = speaker_message(WIRE_STAT, "a");
	struct speaker s;

	memcpy(bytes, &stat, sizeof stat);
	for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
		WANT(!speaker_dial(&s));
		WANT(!speaker_send(&s, bytes, sizes[i], 0));
		want_cut(&s);
		join(&s);
		WANT(!speaker_send(&s, bytes, sizes[i], 0));
		want_cut(&s);
	}
}

static void say_and_be_cut(const struct wire_message *message)
{
	struct speaker s;

	join(&s);
	WANT(!speaker_say(&s, message));
	want_cut(&s);
}

static void versions(void)
{
	static const uint16_t others[] = { 0, 1, WIRE_VERSION + 1, WIRE_VERSION << 8, UINT16_MAX };
	struct wire_message message = speaker_message(WIRE_STAT, "a");

	for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
		message.version = others[i];
		say_and_be_cut(&message);
	}
	message.version = WIRE_VERSION;
	for (int bit = 0; bit < 32; bit++) {
		message.magic = WIRE_MAGIC ^ 1u << bit;
		say_and_be_cut(&message);
	}
}

/* Whether a session may send it at any time. */
static bool is_a_request(unsigned type)
{
	const struct wire_row *row = wire_row(type);

	return row->sender == WIRE_CLIENT && !(row->traits & (WIRE_GREETS | WIRE_OWED));
}

static void types(void)
{
	struct wire_message message = speaker_message(WIRE_STAT, "a");

	for (unsigned type = 0; type < 80; type++) {
		message.type = (uint16_t)(type < 64 ? type : UINT16_MAX - (type - 64) * 4096);
		if (!is_a_request(message.type))
			say_and_be_cut(&message);
	}
}

/* Of each message each name, alone and with all bytes behind it. */
static void endless_names(void)
{
	for (unsigned type = 1; type < WIRE_TYPES; type++)
		for (unsigned i = 0; i < wire_row(type)->names; i++) {
			struct wire_message message = speaker_message(type, "a");

			memset(message.bytes + i * NAME_SIZE, 'a', NAME_SIZE);
			say_and_be_cut(&message);
			memset(message.bytes + i * NAME_SIZE, 'a', sizeof message.bytes - i * NAME_SIZE);
			say_and_be_cut(&message);
		}
}

/* ---- sense ---- */

static int create_with(struct speaker *s, uint64_t size, unsigned device, unsigned mode, unsigned flags)
{
	struct wire_message message = speaker_message(WIRE_CREATE, "attacker/absurd"), answer;

	message.create.size = size;
	message.create.device = device;
	message.create.mode = mode;
	message.create.flags = flags;
	message.create.timeout_ms = INT32_MIN;
	return speaker_ask(s, &message, &answer, NULL);
}

static void absurd_creates(struct speaker *s)
{
	WANT(create_with(s, 0, 0, 0600, 0) == -EINVAL);
	WANT(create_with(s, UINT64_MAX, 0, 0600, 0) == -ENOMEM);
	WANT(create_with(s, UINT64_MAX - 4096, 0, 0600, 0) == -ENOMEM);
	WANT(create_with(s, 1ull << 63, 0, 0600, 0) == -ENOMEM);
	WANT(create_with(s, 4096, 1, 0600, 0) == -ENODEV);
	WANT(create_with(s, 4096, UINT32_MAX, 0600, 0) == -ENODEV);
	WANT(create_with(s, 4096, 0, 01000, 0) == -EINVAL);
	WANT(create_with(s, 4096, 0, UINT32_MAX, 0) == -EINVAL);
	WANT(create_with(s, 4096, 0, 0600, UINT32_MAX) == -EINVAL);
}

static int create_with_layout(struct speaker *s, gpub_layout layout)
{
	struct wire_message message = speaker_message(WIRE_CREATE, "attacker/layout"), answer;

	message.create.size = 4096;
	message.create.mode = 0600;
	message.create.layout = layout;
	return speaker_ask(s, &message, &answer, NULL);
}

/* What no library would send; and one that needs more bytes than there are. */
static void absurd_layouts(struct speaker *s)
{
	const gpub_layout good = { .code = GPUB_FLOAT, .bits = 32, .lanes = 1, .ndim = 1, .shape = { 1024 } };
	gpub_layout bad[8] = { good, good, good, good, good, good, good, good };

	bad[0].shape[0] = 1025;
	bad[1].shape[0] = UINT64_MAX;
	bad[2].ndim = 9;
	bad[3].ndim = UINT32_MAX;
	bad[4].code = 255;
	bad[5].lanes = 0;
	bad[6].lanes = UINT16_MAX;
	bad[7].shape[7] = 1;
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
		WANT(create_with_layout(s, bad[i]) == -EINVAL);
	WANT(!create_with_layout(s, good));
}

static void absurd_names(struct speaker *s)
{
	static const char *const names[] = { "", "/", "../x", "a b", "a\nb", "\x7f", "caf\xc3\xa9", "%s%n", "#1" };

	for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
		struct wire_grant grant;
		int error = speaker_named(s, WIRE_STAT, names[i]);

		/* "../x" is a name like any other: names are no paths */
		WANT(error == -EINVAL || (error == -ENOENT && !strcmp(names[i], "../x")));
		WANT(speaker_create(s, names[i], 4096, 0600, 0) == (error == -ENOENT ? 0 : -EINVAL));
		WANT(speaker_acquire(s, names[i], 0, &grant) == -EINVAL);
		WANT(speaker_acquire(s, names[i], 8, &grant) == -EINVAL);
	}
}

static void absurd(void)
{
	struct wire_message message = speaker_message(WIRE_ACQUIRE, SHOWN), answer;
	struct speaker s;

	join(&s);
	absurd_creates(&s);
	absurd_layouts(&s);
	absurd_names(&s);
	message.acquire.device = UINT32_MAX;
	WANT(speaker_ask(&s, &message, &answer, NULL) == -ENODEV);
	message = speaker_message(WIRE_CHANGE, "../x");
	message.change.what = 8;
	WANT(speaker_ask(&s, &message, &answer, NULL) == -EINVAL);
	message.change.what = WIRE_CHANGE_MODE;
	message.change.mode = 01777;
	WANT(speaker_ask(&s, &message, &answer, NULL) == -EINVAL);
	message = speaker_message(WIRE_ISSUE, "../x");
	message.issue.lifetime_ms = UINT64_MAX;
	WANT(speaker_ask(&s, &message, &answer, NULL) == -EINVAL);
	message.issue.lifetime_ms = 0;
	message.issue.once = 2;
	WANT(speaker_ask(&s, &message, &answer, NULL) == -EINVAL);
	want_served(&s);
	speaker_end(&s);
}

/* Every bit of a good request turned over, one at a time: refused, cut off or done, never worse. */
static void turned_bits(void)
{
	struct wire_message good = speaker_message(WIRE_ACQUIRE, "attacker/bits"), message;
	struct speaker s;

	join(&s);
	WANT(!speaker_create(&s, "attacker/bits", 4096, 0600, 0));
	for (unsigned bit = 0; bit < 8 * sizeof good; bit++) {
		message = good;
		((uint8_t *)&message)[bit / 8] ^= (uint8_t)(1 << bit % 8);
		if (!speaker_say(&s, &message) && speaker_named(&s, WIRE_STAT, "no") == -ENOENT)
			continue;
		speaker_end(&s);
		join(&s);
	}
	speaker_end(&s);
}

static uint64_t random_bits(unsigned *seed)
{
	return (uint64_t)rand_r(seed) << 42 ^ (uint64_t)rand_r(seed) << 21 ^ (uint64_t)rand_r(seed);
}

/* A header that is accepted, and anything behind it. Names are often good ones. */
static struct wire_message noise(unsigned *seed)
{
	struct wire_message message;
	unsigned type;

	do
		type = (unsigned)rand_r(seed) % WIRE_TYPES;
	while (!is_a_request(type) || type == WIRE_SNAPSHOT); /* whose answer is packets: snapshots.c */
	wire_init(&message, type, 1);
	for (size_t i = 0; i < sizeof message.bytes; i += 8) {
		uint64_t bits = rand_r(seed) % 3 ? random_bits(seed) : (uint64_t)(rand_r(seed) % 4096);

		memcpy(message.bytes + i, &bits, 8);
	}
	if (wire_row(type)->names && rand_r(seed) % 8)
		snprintf(message.name.name, NAME_SIZE, "noise/%d", rand_r(seed) % 8);
	/* in the broker's own user's name it would evict for good */
	if (type == WIRE_EVICT)
		message.evict.session |= 1ull << 40;
	return message;
}

static void say_noise(void)
{
	unsigned seed = 4711;

	for (int session = 0; session < 100; session++) {
		struct speaker s;

		join(&s);
		for (int i = 0; i < 60; i++) {
			struct wire_message message = noise(&seed);

			if (speaker_say(&s, &message) || drain(&s))
				break;
		}
		speaker_end(&s);
	}
}

/* ---- the greeting ---- */

static void hello_twice(void)
{
	struct wire_message hello;
	struct speaker s;

	WANT(!speaker_dial(&s));
	WANT(!speaker_hello(&s, &hello));
	WANT(!speaker_say(&s, &hello));
	WANT(!speaker_say(&s, &hello));
	want_cut(&s);
}

static void hello_with_anothers_nonce(void)
{
	struct wire_message hello, others;
	struct speaker s, other;

	WANT(!speaker_dial(&s));
	WANT(!speaker_dial(&other));
	WANT(!speaker_hello(&s, &hello));
	WANT(!speaker_hello(&other, &others));
	WANT(!speaker_say(&s, &others));
	WANT(speaker_welcome(&s) == -EPROTO);
	WANT(!speaker_say(&other, &others));
	WANT(!speaker_welcome(&other));
	speaker_end(&s);
	speaker_end(&other);
}

static void hello_with_turned_bits(void)
{
	for (int bit = 0; bit < 8 * WIRE_NONCE_SIZE; bit += 5) {
		struct wire_message hello;
		struct speaker s;

		WANT(!speaker_dial(&s));
		WANT(!speaker_hello(&s, &hello));
		hello.hello.nonce[bit / 8] ^= (uint8_t)(1 << bit % 8);
		WANT(!speaker_say(&s, &hello));
		WANT(speaker_welcome(&s) == -EPROTO);
		speaker_end(&s);
	}
}

/* The process that connected is not the one that greets. */
static void hello_of_a_child(void)
{
	struct wire_message hello;
	struct speaker s;
	pid_t pid;

	WANT(!speaker_dial(&s));
	WANT(!speaker_hello(&s, &hello));
	pid = fork();
	if (!pid)
		_exit(speaker_say(&s, &hello) != 0);
	WANT(waitpid(pid, NULL, 0) == pid);
	WANT(speaker_welcome(&s) == -EPROTO);
	speaker_end(&s);
}

static void requests_first(void)
{
	for (unsigned type = 1; type < WIRE_TYPES; type++) {
		struct wire_message message = speaker_message(type, "attacker/early");
		struct speaker s;

		WANT(!speaker_dial(&s));
		WANT(!speaker_say(&s, &message));
		want_cut(&s);
	}
}

static void greetings(void)
{
	hello_twice();
	hello_with_anothers_nonce();
	hello_with_turned_bits();
	hello_of_a_child();
	requests_first();
}

/* Also one that half of it is shut down for. */
static void halves(void)
{
	struct speaker s;

	for (int how = SHUT_RD; how <= SHUT_RDWR; how++) {
		WANT(!speaker_dial(&s));
		shutdown(s.sock, how);
		speaker_end(&s);
		join(&s);
		WANT(!speaker_create(&s, "attacker/half", 4096, 0600, GPUB_EPHEMERAL));
		shutdown(s.sock, how);
		speaker_end(&s);
	}
}

/* ---- ids ---- */

#define IDS 4000

static void close_others(void)
{
	struct speaker s;

	join(&s);
	for (uint64_t id = 0; id < IDS; id++)
		WANT(!speaker_closed(&s, id));
	WANT(!speaker_closed(&s, UINT64_MAX));
	want_served(&s);
	speaker_end(&s);
}

static bool others_are_counted(void)
{
	return SOON(counted("closed_foreign") == IDS + 1);
}

static void close_twice(void)
{
	struct wire_grant first, second;
	struct speaker s, other;

	join(&s);
	join(&other);
	WANT(!speaker_create(&s, "attacker/twice", 4096, 0600, 0));
	WANT(!speaker_acquire(&s, "attacker/twice", BOTH, &first));
	WANT(!speaker_acquire(&s, "attacker/twice", BOTH, &second));
	WANT(first.mapping == second.mapping && second.place == WIRE_NO_HANDLE);
	for (int i = 0; i < 3; i++)
		WANT(!speaker_closed(&s, first.mapping));
	WANT(!speaker_acquire(&s, "attacker/twice", BOTH, &second));
	WANT(first.mapping != second.mapping && second.place != WIRE_NO_HANDLE);
	WANT(!speaker_closed(&other, second.mapping));
	want_served(&other);
	WANT(!speaker_closed(&s, second.mapping));
	WANT(!speaker_closed(&s, second.mapping));
	want_served(&s);
	speaker_end(&s);
	speaker_end(&other);
}

static bool twice_is_counted(void)
{
	return SOON(counted("closed_foreign") == 4);
}

static void writers(void)
{
	struct wire_message message, answer;
	struct wire_grant shown;
	struct speaker s;

	join(&s);
	WANT(!speaker_acquire(&s, SHOWN, GPUB_READ, &shown));
	wire_init(&message, WIRE_WRITER, 0);
	message.grant_id.mapping = shown.mapping;
	message.grant_id.serial = shown.serial;
	WANT(speaker_ask(&s, &message, &answer, NULL) == -EACCES);
	message.grant_id.serial++;
	WANT(speaker_ask(&s, &message, &answer, NULL) == -EINVAL);
	message.grant_id.serial = shown.serial;
	for (message.grant_id.mapping = 0; message.grant_id.mapping < 500; message.grant_id.mapping++)
		if (message.grant_id.mapping != shown.mapping)
			WANT(speaker_ask(&s, &message, &answer, NULL) == -EINVAL);
	speaker_end(&s);
}

/* As long as there are sessions of others; one of its own goes, and with it comes that process's pidfd. */
static void evict_others(void)
{
	struct wire_message message, answer;
	struct speaker s, own;
	int fd = -1;

	join(&s);
	join(&own);
	wire_init(&message, WIRE_EVICT, 0);
	for (message.evict.session = 0; message.evict.session <= own.session + 50; message.evict.session++) {
		int error;

		if (message.evict.session == own.session)
			continue;
		error = speaker_ask(&s, &message, &answer, NULL);
		WANT(error == -ENOENT || error == -EACCES || (error == -EINVAL && message.evict.session == s.session));
	}
	message.evict.session = own.session;
	WANT(!speaker_ask(&s, &message, &answer, &fd) && fd >= 0);
	close(fd);
	want_cut(&own);
	speaker_end(&s);
}

/* ---- what is another user's ---- */

static int change(struct speaker *s, const char *name, unsigned what, unsigned value)
{
	struct wire_message message = speaker_message(WIRE_CHANGE, name), answer;

	message.change.what = what;
	message.change.mode = message.change.owner = message.change.group = value;
	return speaker_ask(s, &message, &answer, NULL);
}

static void take_over(struct speaker *s, const char *name)
{
	static const struct wire_issue terms = { .rights = GPUB_READ, .uid = TICKET_ANY_USER };
	struct wire_message message = speaker_message(WIRE_DRAIN, name), answer;
	struct ticket ticket;

	message.drain.timeout_ms = 0;
	WANT(speaker_ask(s, &message, &answer, NULL) == -EACCES);
	WANT(speaker_named(s, WIRE_UNLINK, name) == -EACCES);
	WANT(speaker_issue(s, name, &terms, &ticket) == -EACCES);
	WANT(change(s, name, WIRE_CHANGE_MODE, 0666) == -EACCES);
	WANT(change(s, name, WIRE_CHANGE_OWNER, arena_uid(ATTACKER)) == -EACCES);
	WANT(change(s, name, WIRE_CHANGE_GROUP, arena_uid(ATTACKER)) == -EACCES);
	WANT(speaker_create(s, name, 4096, 0666, 0) == -EEXIST);
}

static void others_buffers(void)
{
	struct wire_grant grant;
	struct speaker s;

	join(&s);
	WANT(speaker_acquire(&s, SECRET, GPUB_READ, &grant) == -EACCES);
	WANT(speaker_acquire(&s, SECRET, GPUB_WRITE, &grant) == -EACCES);
	WANT(speaker_acquire(&s, SECRET_2, GPUB_READ, &grant) == -EACCES);
	WANT(speaker_acquire(&s, SHOWN, GPUB_WRITE, &grant) == -EACCES);
	WANT(!speaker_acquire(&s, SHOWN, GPUB_READ, &grant) && grant.rights == GPUB_READ);
	take_over(&s, SECRET);
	take_over(&s, SHOWN);
	/* and it cannot make another pay for what it has */
	WANT(!speaker_create(&s, "attacker/gift", 4096, 0600, 0));
	WANT(change(&s, "attacker/gift", WIRE_CHANGE_OWNER, arena_uid(VICTIM)) == -EACCES);
	WANT(change(&s, "attacker/gift", WIRE_CHANGE_GROUP, arena_uid(VICTIM)) == -EACCES);
	speaker_end(&s);
}

/* ---- order ---- */

static void leave_and_go_on(void)
{
	struct wire_message leave = speaker_message(WIRE_LEAVE, ""), stat = speaker_message(WIRE_STAT, "a");
	struct wire_grant grant;
	struct speaker s;

	join(&s);
	WANT(!speaker_create(&s, "attacker/left", 4096, 0600, 0));
	WANT(!speaker_acquire(&s, "attacker/left", BOTH, &grant));
	WANT(!speaker_say(&s, &leave));
	WANT(!speaker_closed(&s, grant.mapping));
	WANT(!speaker_closed(&s, grant.mapping));
	WANT(!speaker_say(&s, &stat));
	want_cut(&s);
	join(&s);
	WANT(!speaker_say(&s, &leave));
	WANT(!speaker_say(&s, &leave));
	want_cut(&s);
}

const struct attack malformed[] = {
	{ "lengths", "a message of any other length ends the session", .run = lengths },
	{ "versions", "so do another version and another magic", .run = versions },
	{ "types", "so do types that there are not, or that brokers send", .run = types },
	{ "endless names", "so do names without an end", .run = endless_names },
	{ "absurd values", "what makes no sense is refused with its errno, and the session goes on", .run = absurd },
	{ "turned bits", "each bit of a request turned over does no harm", .run = turned_bits },
	{ "noise", "nor do six thousand random requests", .run = say_noise },
	{ "greetings", "no other nonce, process or message than the right one is welcomed", .run = greetings },
	{ "half-closed", "sockets shut down on one side keep nothing", .run = halves },
	{ "closes another's mappings", "invariant 3: none ends by it, each is counted", .run = close_others,
	  .after = others_are_counted },
	{ "closes twice", "invariant 3: a mapping ends once", .run = close_twice, .after = twice_is_counted },
	{ "claims timelines", "a session that may only read, or has no grant, gets no page to write", .run = writers,
	  .flags = NEEDS_USERS },
	{ "evicts others", "only one's own sessions can be evicted", .run = evict_others, .flags = NEEDS_USERS },
	{ "takes over buffers", "mode bits and ownership hold for every request", .run = others_buffers,
	  .flags = NEEDS_USERS },
	{ "leaves and goes on", "after LEAVE nothing but CLOSED is read", .run = leave_and_go_on },
	{ 0 },
};
