/* SPDX-License-Identifier: Apache-2.0 */
/*
 * messages.c - each message that a client can send, to a broker in this process: with empty tables, then with full
 * ones; or with empty ones to a broker that notes what must survive it in a ledger.
 *
 *     messages               nothing, or "SKIP" and why its instructions say nothing
 *     messages TIMES         each so many times: calls measured(), in which the broker does all that the message brings
 *                            about, and says before each call which message it is and how full the tables are
 *     messages TIMES noted   the same with a ledger
 *
 * For messages.sh to count. What is written to the status file is part of each message.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "broker/core/note.h"
#include "crowd.h"

#define CROWDED "crowded" /* the owner's, alone in its memory, for everybody */
#define SHARED  "shared"  /* the owner's, small, for everybody */
#define LARGE   (64u << 10)
#define FOREVER (-1)

static struct peer owner, stranger;
static const char *fullness;

__attribute__((noinline)) void measured(void);
void measured(void)
{
	do
		broker_pass(&broker, true);
	while (broker.jobs->pending);
	/* what it has put off */
	broker_pass(&broker, false);
	broker_pass(&broker, false);
}

/* What the broker does once something is there for it. */
static void measure(const char *what)
{
	printf("%s\t%s\n", fullness, what);
	fflush(stdout);
	measured();
}

/* Says it; the answer, if there is one. Notices are read. */
static struct wire_message measure_message(const char *what, const struct peer *peer,
					   const struct wire_message *message)
{
	struct wire_message next, answer = { 0 };
	unsigned type;

	say(peer->sock, message);
	measure(what);
	while ((type = received_already(peer->sock, &next)))
		if (type != WIRE_NOTICE)
			answer = next;
	return answer;
}

static void expect_answer(const struct wire_message *answer, unsigned type)
{
	if (answer->type == WIRE_REFUSED && type != WIRE_REFUSED)
		print_error("refused: %s\n", answer->refused.text);
	assert_int_equal(answer->type, type);
}

/* One that is not to be refused, or is to be. */
static struct wire_message measure_done(const char *what, const struct peer *peer, const struct wire_message *message)
{
	struct wire_message answer = measure_message(what, peer, message);

	assert_int_not_equal(answer.type, 0);
	expect_answer(&answer, answer.type == WIRE_REFUSED ? WIRE_DONE : answer.type);
	return answer;
}

static void measure_refused(const char *what, const struct peer *peer, const struct wire_message *message)
{
	struct wire_message answer = measure_message(what, peer, message);

	expect_answer(&answer, WIRE_REFUSED);
}

/* ---- what is there before and after ---- */

static void make(const struct peer *peer, const char *name, uint64_t size, unsigned flags)
{
	struct wire_message message = create_of(name, size, 0666, flags);

	want(peer, &message);
}

static void take_away(const struct peer *peer, const char *name)
{
	struct wire_message message = named(WIRE_UNLINK, 1, name);

	want(peer, &message);
	finish();
}

static struct wire_grant hold(const struct peer *peer, const char *name)
{
	struct wire_message message = acquire_of(name, 0);

	return want(peer, &message).grant;
}

static void let_go(const struct peer *peer, enum wire_type type, const struct wire_grant *grant)
{
	struct wire_message message = grant_of(type, grant->mapping, grant->serial);

	say(peer->sock, &message);
	finish();
}

/* ---- names ---- */

static void creates(void)
{
	struct wire_message small = create_of("x", 1, 0666, 0), large = create_of("y", LARGE, 0600, 0),
			    again = create_of(SHARED, 1, 0666, 0),
			    ephemeral = create_of("z", 1, 0666, GPUB_EPHEMERAL | GPUB_TIMELINE), greedy = large;
	struct wire_message unlink = named(WIRE_UNLINK, 1, "x"), nobody = named(WIRE_UNLINK, 1, "no-such");
	struct quota *quota = &broker.accounting->quotas.fallback;

	measure_done("CREATE in memory that is there", &owner, &small);
	measure_done("CREATE that the device makes", &owner, &large);
	measure_done("CREATE, ephemeral, with a timeline", &owner, &ephemeral);
	measure_refused("CREATE of a taken name", &owner, &again);
	quota->limit[RESOURCE_BYTES] = 0;
	greedy.create.name[0] = 'g';
	measure_refused("CREATE over the quota", &owner, &greedy);
	quota->limit[RESOURCE_BYTES] = QUOTA_NONE;
	measure_done("UNLINK of what nobody has", &owner, &unlink);
	strcpy(unlink.name.name, "y");
	measure_done("UNLINK that frees", &owner, &unlink);
	measure_refused("UNLINK of no name", &owner, &nobody);
	take_away(&owner, "z");
}

static void stats(void)
{
	struct wire_message known = named(WIRE_STAT, 1, CROWDED), unknown = named(WIRE_STAT, 1, "no-such");

	measure_done("STAT", &owner, &known);
	measure_refused("STAT of no name", &owner, &unknown);
}

static void changes(void)
{
	struct wire_message message = named(WIRE_CHANGE, 1, "own");

	make(&owner, "own", 1, GPUB_DEDICATED);
	message.change.what = WIRE_CHANGE_MODE;
	message.change.mode = 0640;
	measure_done("CHANGE of the mode", &owner, &message);
	strcpy(message.change.name, SHARED);
	measure_refused("CHANGE that is refused", &stranger, &message);
	take_away(&owner, "own");
}

static void unlink_used(void)
{
	struct wire_message message = named(WIRE_UNLINK, 1, "used");
	struct wire_grant grant;

	make(&owner, "used", LARGE, GPUB_DEDICATED);
	grant = hold(&stranger, "used");
	measure_done("UNLINK of what one session has", &owner, &message);
	/* that one's word is not trusted: it is orphaned until the session's end */
	let_go(&stranger, WIRE_CLOSED, &grant);
}

static void drains(void)
{
	struct wire_message message = named(WIRE_DRAIN, 1, "used"), closed;
	struct wire_grant grant;

	message.drain.timeout_ms = FOREVER;
	make(&owner, "used", LARGE, GPUB_DEDICATED);
	grant = hold(&owner, "used");
	assert_int_equal(measure_message("DRAIN", &owner, &message).type, 0);
	closed = grant_of(WIRE_CLOSED, grant.mapping, 0);
	measure_done("CLOSED that ends a drain", &owner, &closed);
}

/* ---- mappings and grants ---- */

static void acquires(void)
{
	struct peer newcomer = join_as(OWNER);
	struct wire_message shared = acquire_of(SHARED, 0), crowded = acquire_of(CROWDED, 0),
			    none = acquire_of("no-such", 0), later = acquire_of("later", FOREVER), message;
	struct wire_grant grant, first, other;

	first = measure_done("ACQUIRE, the first of an allocation", &newcomer, &crowded).grant;
	measure_done("ACQUIRE of a buffer that it uses", &newcomer, &crowded);
	other = measure_done("ACQUIRE of a shared allocation's first", &newcomer, &shared).grant;
	strcpy(shared.acquire.name, "shared-too");
	grant = measure_done("ACQUIRE in a known allocation", &newcomer, &shared).grant;
	assert_int_equal(grant.place, WIRE_NO_HANDLE);
	measure_refused("ACQUIRE of no name", &newcomer, &none);
	strcpy(none.acquire.name, "private");
	measure_refused("ACQUIRE that the mode refuses", &stranger, &none);
	assert_int_equal(measure_message("ACQUIRE that waits", &newcomer, &later).type, 0);
	message = create_of("later", 1, 0600, 0);
	measure_done("CREATE that one waits for", &owner, &message);
	take_away(&owner, "later");
	message = grant_of(WIRE_QUIESCED, grant.mapping, grant.serial);
	measure_message("QUIESCED", &newcomer, &message);
	message = grant_of(WIRE_WRITER, first.mapping, first.serial);
	measure_refused("WRITER that another one is", &newcomer, &message);
	message = grant_of(WIRE_QUIESCED, first.mapping, first.serial);
	measure_message("QUIESCED of a buffer that many use", &newcomer, &message);
	measure_message("QUIESCED of what it does not use", &newcomer, &message);
	message = grant_of(WIRE_CLOSED, first.mapping, 0);
	measure_message("CLOSED", &newcomer, &message);
	measure_message("CLOSED of no mapping of its own", &newcomer, &message);
	(void)other;
	part(&newcomer);
	finish();
}

/* Nothing uses the memory any more: it is kept for the next buffer of its kind. */
static void idles(void)
{
	struct wire_message message = named(WIRE_UNLINK, 1, "kept");
	struct wire_grant grant;

	make(&owner, "kept", LARGE, 0);
	grant = hold(&owner, "kept");
	want(&owner, &message);
	message = grant_of(WIRE_QUIESCED, grant.mapping, grant.serial);
	measure_message("QUIESCED that leaves memory idle", &owner, &message);
	let_go(&owner, WIRE_CLOSED, &grant);
}

/* Of who does not own the memory. */
static void untrusted(void)
{
	struct peer newcomer = join_as(STRANGER);
	struct wire_grant grant = hold(&newcomer, CROWDED);
	struct wire_message idle = grant_of(WIRE_QUIESCED, grant.mapping, grant.serial),
			    closed = grant_of(WIRE_CLOSED, grant.mapping, 0);

	measure_message("QUIESCED that is not trusted", &newcomer, &idle);
	measure_message("CLOSED that is not trusted", &newcomer, &closed);
	closed.grant_id.mapping = hold(&newcomer, CROWDED).mapping;
	measure_message("CLOSED that is not trusted, again", &newcomer, &closed);
	bury(&newcomer);
	finish();
}

static void writes(void)
{
	struct wire_message message;
	struct wire_grant grant;

	make(&owner, "timed", 1, GPUB_TIMELINE);
	grant = hold(&stranger, "timed");
	message = grant_of(WIRE_WRITER, grant.mapping, grant.serial);
	measure_done("WRITER", &stranger, &message);
	take_away(&owner, "timed");
}

/* ---- tickets ---- */

static void tickets(void)
{
	struct wire_message issue = issue_of(CROWDED, false, 0), once = issue_of(CROWDED, true, 3600000), redeem,
			    answer;
	struct wire_grant grant;

	answer = measure_done("ISSUE", &owner, &issue);
	redeem = redeem_of(&answer.ticket);
	grant = measure_done("REDEEM", &owner, &redeem).grant;
	let_go(&owner, WIRE_CLOSED, &grant);
	answer = measure_done("ISSUE of one that is good once", &owner, &once);
	redeem = redeem_of(&answer.ticket);
	grant = measure_done("REDEEM of one that is good once", &owner, &redeem).grant;
	measure_refused("REDEEM of a used one", &owner, &redeem);
	let_go(&owner, WIRE_CLOSED, &grant);
	broker.accounting->quotas.fallback.limit[RESOURCE_TICKETS] = 0;
	measure_refused("ISSUE over the quota", &owner, &once);
	broker.accounting->quotas.fallback.limit[RESOURCE_TICKETS] = 4096;
}

/* ---- versions under one name ---- */

static struct wire_message rename_of(const char *name, const char *to)
{
	struct wire_message message = named(WIRE_RENAME, 1, name);

	strcpy(message.rename.to, to);
	message.rename.flags = GPUB_REPLACE;
	return message;
}

static void seals(void)
{
	struct wire_message message = acquire_of("sealed", 0), others = named(WIRE_SEAL, 1, CROWDED);
	struct wire_grant grant;

	make(&owner, "sealed", LARGE, GPUB_DEDICATED);
	message.acquire.rights = GPUB_READ;
	grant = want(&owner, &message).grant;
	wire_init(&message, WIRE_RIGHTS, 1);
	message.rights = (struct wire_rights){ .mapping = grant.mapping, .serial = grant.serial, .rights = GPUB_WRITE };
	measure_done("RIGHTS", &owner, &message);
	message = named(WIRE_SEAL, 1, "sealed");
	measure_done("SEAL", &owner, &message);
	measure_refused("SEAL of what others may write", &owner, &others);
	take_away(&owner, "sealed");
	let_go(&owner, WIRE_CLOSED, &grant);
}

/* The notices to all who use it, most of which are the owner's and the stranger's. */
static void read_notices(void)
{
	struct wire_message notice;
	bool more;

	do {
		finish();
		more = broker.registry->notices;
		while (received_already(owner.sock, &notice) || received_already(stranger.sock, &notice))
			more = true;
	} while (more);
}

/* As many grants on it as get a notice in one pass, also where nobody else has any. */
static struct peer use_crowded(void)
{
	struct peer newcomer = join_as(STRANGER + 1);
	struct wire_message issue = issue_of(CROWDED, false, 0), answer = want(&owner, &issue),
			    redeem = redeem_of(&answer.ticket);

	for (int i = 0; i < 20; i++)
		want(&newcomer, &redeem);
	return newcomer;
}

static void renames(void)
{
	struct wire_message replaces = rename_of("next", "now"), crowd = rename_of(CROWDED, "moved"),
			    back = rename_of("moved", CROWDED), newer = named(WIRE_NEWER, 1, "now"), told;
	struct wire_message cancel = named(WIRE_CANCEL, 77, "");
	struct peer user;

	make(&owner, "now", 1, 0);
	make(&owner, "next", 1, 0);
	newer.newer.generation = measure_done("NEWER that is there", &owner, &newer).info.generation;
	newer.newer.timeout_ms = FOREVER;
	newer.request = cancel.request;
	assert_int_equal(measure_message("NEWER that waits", &stranger, &newer).type, 0);
	measure_refused("CANCEL of one that waits", &stranger, &cancel);
	assert_int_equal(measure_message("CANCEL of nothing", &stranger, &cancel).type, 0);
	say(stranger.sock, &newer);
	finish();
	measure_done("RENAME that replaces, and ends a wait", &owner, &replaces);
	assert_int_equal(received_already(stranger.sock, &told), WIRE_INFO);
	user = use_crowded();
	measure_done("RENAME of what many use", &owner, &crowd);
	read_notices();
	want(&owner, &back);
	read_notices();
	bury(&user);
	finish();
	take_away(&owner, "now");
}

static void resizes(void)
{
	struct wire_message message = named(WIRE_RESIZE, 1, "grows");
	struct wire_message create = create_of("grows", 1, 0600, 0);

	create.create.reserve = 2 * LARGE;
	want(&owner, &create);
	message.resize.size = LARGE;
	measure_done("RESIZE", &owner, &message);
	take_away(&owner, "grows");
}

/* ---- inquiries ---- */

static void inquiry_reaches(enum inquiry_state state)
{
	while (broker.inquiry->state != state) {
		usleep(1000);
		finish();
	}
}

/*
 * Measured while the broker waits for answers and after the round, because a round itself is a piece of work in each
 * pass.
 */
static void inquiries(void)
{
	struct peer asker = join_as(OWNER), second = join_as(OWNER), asked = join_as(STRANGER);
	struct wire_message message = named(WIRE_REFRESH, 1, "");
	struct wire_grant grant = hold(&asked, CROWDED);

	session_of(&asked)->answers = true;
	inquiry_reaches(INQUIRY_IDLE);
	say(asker.sock, &message);
	inquiry_reaches(INQUIRY_AWAITING);
	assert_int_equal(measure_message("REFRESH", &second, &message).type, 0);
	inquiry_reaches(INQUIRY_IDLE);
	wire_init(&message, WIRE_WAITS, 0);
	message.waits.count = 1;
	message.waits.wait[0] = (struct wire_wait){ .mapping = grant.mapping, .serial = grant.serial, .value = 1 };
	measure_message("WAITS", &asked, &message);
	assert_int_equal(session_of(&asked)->inquired.answer, ANSWER_GIVEN);
	part(&asker);
	part(&second);
	bury(&asked);
	finish();
}

/* ---- sessions ---- */

static struct peer measured_join(uid_t uid)
{
	struct peer peer = { .sock = dial() };
	struct wire_message message;
	struct socket_extra extra;

	measure("connecting");
	assert_int_equal(socket_receive(peer.sock, &message, &extra, true, MSG_DONTWAIT), 0);
	message = hello_to(&message);
	say(peer.sock, &message);
	measure("HELLO");
	assert_int_equal(socket_receive(peer.sock, &message, &extra, true, MSG_DONTWAIT), 0);
	assert_int_equal(message.type, WIRE_WELCOME);
	assert_int_equal(board_map(&peer.board, extra.fd), 0);
	close(extra.fd);
	peer.session = message.welcome.session;
	change_user(&peer, uid);
	return peer;
}

static void sessions(void)
{
	struct peer a = measured_join(OWNER), b = join_as(OWNER), c = join_as(OWNER);
	struct wire_message leave = named(WIRE_LEAVE, 1, ""), evict = named(WIRE_EVICT, 1, "");

	measure_done("LEAVE", &a, &leave);
	part(&a);
	measure("hanging up");
	evict.evict.session = b.session;
	measure_done("EVICT", &owner, &evict);
	part(&b);
	finish();
	hold(&c, CROWDED);
	hold(&c, SHARED);
	hang_up_dying(&c);
	measure("dying with two mappings");
}

static void (*const all[])(void) = { creates,   stats,  changes, unlink_used, drains,
				     acquires, idles, untrusted, writes,  tickets,     sessions, seals, renames,
				     resizes, inquiries };

static void measure_all(const char *how_full, unsigned long times)
{
	fullness = how_full;
	finish();
	while (times--)
		for (size_t i = 0; i < sizeof all / sizeof *all; i++)
			all[i]();
}

static struct note note;

static void begin(bool has_ledger)
{
	struct wire_message private = create_of("private", 1, 0600, 0), claim;
	struct wire_grant grant;
	void *state = NULL;

	/* so many that two users at their quotas leave room for others */
	harness_buffers = 4 * BROKER_BUFFERS;
	harness_handles = 4 * BROKER_HANDLES;
	assert_int_equal(harness_group_setup(&state), 0);
	assert_int_equal(harness_setup(&state), 0);
	if (has_ledger)
		assert_int_equal(note_begin(&broker, &note), 0);
	broker_keep(&broker, BROKER_POOL);
	owner = join_as(OWNER);
	stranger = join_as(STRANGER);
	make(&owner, CROWDED, LARGE, GPUB_DEDICATED | GPUB_TIMELINE);
	make(&owner, SHARED, 1, 0);
	make(&owner, "shared-too", 1, 0);
	want(&owner, &private);
	hold(&owner, SHARED);
	hold(&stranger, SHARED);
	hold(&owner, CROWDED);
	grant = hold(&stranger, CROWDED);
	claim = grant_of(WIRE_WRITER, grant.mapping, grant.serial);
	want(&stranger, &claim);
}

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED
#elif defined(__has_feature) /* clang */
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SANITIZED
#endif
#endif

static const char *why_not(void)
{
#ifdef SANITIZED
	return "SKIP built with sanitizers\n";
#elif defined(CRASH_POINTS_ENABLED)
	return "SKIP built with crash points\n";
#else
	return "";
#endif
}

int main(int argc, char **argv)
{
	bool has_ledger = argc > 2;
	unsigned long times = argc > 1 ? strtoul(argv[1], NULL, 10) : 0;
	void *state = NULL;

	if (!times)
		return fputs(why_not(), stdout) < 0;
	begin(has_ledger);
	measure_all(has_ledger ? "noted" : "empty", times);
	if (!has_ledger) {
		crowd_gather(&owner, &stranger, CROWDED);
		measure_all("full", times);
	}
	broker_end_now();
	note_end(&broker, &note);
	return harness_group_teardown(&state);
}
