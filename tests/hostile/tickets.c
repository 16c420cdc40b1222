/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tickets.c - attacks on the sealed handles in the board, and on tickets.
 *
 * What is forged, cut, changed, late, used up, or another's opens nothing, and is counted by its reason.
 */
#include <sodium.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/wait.h>

#include "attacks.h"
#include "common/socket.h"

#define LENT       "victim/lent"
#define STALE      "victim/stale"
#define TERM_MS    40
#define RACERS     8
#define RACE_TRIES 4

enum given_ticket { OF_ANYBODY, OF_A_BYSTANDER, OF_THE_ATTACKER, SHORT_LIVED, OUTLIVED, ONCE };

static void issue(struct speaker *owner, enum given_ticket which, const char *name, const struct wire_issue *terms)
{
	WANT(!speaker_issue(owner, name, terms, &stage->ticket[which]));
}

static void lend(void)
{
	struct wire_issue any = { .rights = GPUB_READ, .uid = TICKET_ANY_USER }, terms = any;
	struct speaker owner;

	join(&owner);
	WANT(!speaker_create(&owner, LENT, 4096, 0600, GPUB_DEDICATED));
	WANT(!speaker_create(&owner, STALE, 4096, 0600, GPUB_DEDICATED));
	issue(&owner, OF_ANYBODY, LENT, &any);
	issue(&owner, OUTLIVED, STALE, &any);
	terms.uid = arena_uid(BYSTANDER);
	issue(&owner, OF_A_BYSTANDER, LENT, &terms);
	terms.uid = arena_uid(ATTACKER);
	terms.once = 1;
	issue(&owner, OF_THE_ATTACKER, LENT, &terms);
	terms.uid = TICKET_ANY_USER;
	issue(&owner, ONCE, LENT, &terms);
	terms = any;
	terms.lifetime_ms = TERM_MS;
	issue(&owner, SHORT_LIVED, LENT, &terms);
	WANT(!speaker_named(&owner, WIRE_UNLINK, STALE));
	speaker_end(&owner);
}

static int redeem(struct speaker *s, const struct ticket *ticket)
{
	struct wire_grant grant;
	int error = speaker_redeem(s, ticket, &grant);

	if (!error)
		WANT(grant.rights == GPUB_READ && !speaker_closed(s, grant.mapping));
	return error;
}

/* ---- tickets ---- */

#define BITS (8 * (int)sizeof(struct ticket))

static void turn_bits(void)
{
	struct ticket ticket = stage->ticket[OF_ANYBODY];
	struct speaker s;

	join(&s);
	WANT(!redeem(&s, &ticket));
	for (int bit = 0; bit < BITS; bit++) {
		ticket = stage->ticket[OF_ANYBODY];
		((uint8_t *)&ticket)[bit / 8] ^= (uint8_t)(1 << bit % 8);
		WANT(redeem(&s, &ticket) == -EKEYREJECTED);
	}
	speaker_end(&s);
}

static bool bits_are_counted(void)
{
	return SOON(counted("tickets_forged") + counted("tickets_foreign") == BITS);
}

#define FORGERIES 500

/* All that is read in a genuine one, and more rights; the stamp alone is guessed. */
static void forge(void)
{
	struct ticket ticket = stage->ticket[OF_ANYBODY];
	struct speaker s;

	join(&s);
	ticket.rights = BOTH;
	for (int i = 0; i < FORGERIES; i++) {
		randombytes_buf(ticket.stamp, sizeof ticket.stamp);
		WANT(redeem(&s, &ticket) == -EKEYREJECTED);
	}
	/* one stamp for another ticket's terms */
	ticket = stage->ticket[OF_A_BYSTANDER];
	memcpy(ticket.stamp, stage->ticket[OF_ANYBODY].stamp, sizeof ticket.stamp);
	WANT(redeem(&s, &ticket) == -EKEYREJECTED);
	memset(&ticket, 0, sizeof ticket);
	WANT(redeem(&s, &ticket) == -EKEYREJECTED);
	speaker_end(&s);
}

static bool forgeries_are_counted(void)
{
	return SOON(counted("tickets_forged") == FORGERIES + 1) && counted("tickets_foreign") == 1;
}

/* The text, shorter by any number of characters, longer, or with another character anywhere. */
static void cut_text(void)
{
	char text[TICKET_TEXT_MAX], changed[TICKET_TEXT_MAX];
	struct ticket ticket;
	size_t length;
	struct speaker s;

	join(&s);
	ticket_encode(&stage->ticket[OF_ANYBODY], text);
	length = strlen(text);
	for (size_t cut = 0; cut < length; cut++) {
		memcpy(changed, text, cut);
		changed[cut] = 0;
		WANT(ticket_decode(changed, &ticket) == -EKEYREJECTED);
	}
	for (size_t at = 0; at < length; at++) {
		strcpy(changed, text);
		changed[at] = changed[at] == 'A' ? 'B' : 'A';
		WANT(ticket_decode(changed, &ticket) || redeem(&s, &ticket) == -EKEYREJECTED);
	}
	strcpy(changed, text);
	strcat(changed, "A");
	WANT(ticket_decode(changed, &ticket) == -EKEYREJECTED);
	speaker_end(&s);
}

/* The same through the library, whose error message has nothing of the ticket in it. */
static void cut_in_the_library(void)
{
	char text[TICKET_TEXT_MAX];
	gpub_lease lease_of_it;

	WANT(!gpub_connect(&client, arena_broker.address));
	ticket_encode(&stage->ticket[OF_ANYBODY], text);
	WANT(!gpub_redeem(client, text, &lease_of_it) && !gpub_return(&lease_of_it));
	text[strlen(text) - 1] ^= 4;
	WANT(gpub_redeem(client, text, &lease_of_it) == -EKEYREJECTED && !strstr(gpub_strerror_last(), text + 6));
	text[strlen(text) / 2] = 0;
	WANT(gpub_redeem(client, text, &lease_of_it) == -EKEYREJECTED && !strstr(gpub_strerror_last(), text + 6));
	gpub_disconnect(client);
}

static void cut(void)
{
	cut_text();
	cut_in_the_library();
}

static void redeem_anothers(void)
{
	struct speaker s;

	join(&s);
	WANT(redeem(&s, &stage->ticket[OF_A_BYSTANDER]) == -EKEYREJECTED);
	WANT(!redeem(&s, &stage->ticket[OF_THE_ATTACKER]));
	speaker_end(&s);
}

static bool another_is_counted(void)
{
	bool right = SOON(counted("tickets_foreign") == 1 && counted("tickets_redeemed") == 1);

	if (!right)
		printf("# %lld foreign, %lld redeemed\n", (long long)counted("tickets_foreign"),
		       (long long)counted("tickets_redeemed"));
	return right;
}

static void redeem_twice(void)
{
	struct speaker s, other;

	join(&s);
	join(&other);
	WANT(!redeem(&s, &stage->ticket[OF_THE_ATTACKER]));
	WANT(redeem(&s, &stage->ticket[OF_THE_ATTACKER]) == -EKEYREJECTED);
	WANT(redeem(&other, &stage->ticket[OF_THE_ATTACKER]) == -EKEYREJECTED);
	speaker_end(&s);
	join(&s);
	WANT(redeem(&s, &stage->ticket[OF_THE_ATTACKER]) == -EKEYREJECTED);
	speaker_end(&s);
	speaker_end(&other);
}

static bool twice_is_counted(void)
{
	return SOON(counted("tickets_used") == 3) && counted("tickets_redeemed") == 1;
}

static void racer(void)
{
	struct speaker s;

	join(&s);
	for (int i = 0; i < RACE_TRIES; i++)
		if (!redeem(&s, &stage->ticket[ONCE]))
			atomic_fetch_add(&stage->number[0], 1);
	speaker_end(&s);
}

static void redeem_at_once(void)
{
	int left = RACERS;

	stage->number[0] = 0;
	for (int i = 0; i < RACERS; i++)
		if (!fork()) {
			racer();
			_exit(0);
		}
	while (left && wait(NULL) > 0)
		left--;
	WANT(stage->number[0] == 1);
}

static void redeem_late(void)
{
	struct speaker s;
	int error;

	join(&s);
	WANT(SOON((error = redeem(&s, &stage->ticket[SHORT_LIVED]))));
	WANT(error == -EKEYEXPIRED);
	WANT(redeem(&s, &stage->ticket[OUTLIVED]) == -ESTALE);
	speaker_end(&s);
}

static bool late_is_counted(void)
{
	return SOON(counted("tickets_expired") >= 1 && counted("tickets_stale") == 1);
}

/* ---- the board ---- */

/* No sealed handle in the board opens but the session's own, whatever terms of other sessions it is tried with. */
static void open_all(const struct speaker *s, const struct wire_grant *own)
{
	struct device_handle handle;
	struct wire_grant grant = *own;
	struct speaker other = *s;

	for (uint32_t place = 0; place < s->board.header->handles; place++) {
		grant.place = place;
		WANT((speaker_unseal(s, &grant, &handle) == 0) == (place == own->place));
	}
	grant = *own;
	for (other.session = 1; other.session < s->session; other.session++)
		WANT(speaker_unseal(&other, own, &handle) == -EKEYREJECTED);
	for (grant.mapping = 0; grant.mapping < own->mapping; grant.mapping++)
		for (uint32_t place = 0; place < 16; place++) {
			grant.place = place;
			WANT(speaker_unseal(s, &grant, &handle) == -EKEYREJECTED);
		}
}

/* A sealed handle is for exactly these terms. */
static void open_with_other_terms(const struct speaker *s, const struct wire_grant *own)
{
	struct device_handle handle;
	struct wire_grant grant = *own;

	grant.rights = BOTH;
	WANT(speaker_unseal(s, &grant, &handle) == -EKEYREJECTED);
	grant = *own;
	grant.size++;
	WANT(speaker_unseal(s, &grant, &handle) == -EKEYREJECTED);
	grant = *own;
	grant.offset = 4096;
	WANT(speaker_unseal(s, &grant, &handle) == -EKEYREJECTED);
	grant = *own;
	grant.serial--;
	WANT(speaker_unseal(s, &grant, &handle) == -EKEYREJECTED);
}

/* What a handle of the host device begins with stands nowhere in clear, nor does a canary. */
static void look_for_secrets(const struct speaker *s)
{
	const struct board *board = &s->board;

	WANT(!memmem(board->base, board->size, ".mem", 4));
	WANT(!memmem(board->base, board->size, stage->canary, CANARY_SIZE));
	WANT(!memmem(board->base, board->size, s->key, sizeof s->key));
}

static void read_board(void)
{
	struct wire_grant grant, again;
	struct device_handle handle;
	struct speaker s, second;

	join(&s);
	join(&second);
	WANT(memcmp(s.key, second.key, sizeof s.key));
	WANT(!speaker_acquire(&s, SHOWN, GPUB_READ, &grant));
	look_for_secrets(&s);
	open_all(&s, &grant);
	open_with_other_terms(&s, &grant);
	/* nor with another session's key, though it be the same process's */
	memcpy(second.key, s.key, 8);
	WANT(speaker_unseal(&second, &grant, &handle) == -EKEYREJECTED);
	/* the mapping has ended, and its ticket is replayed for a new one */
	WANT(!speaker_closed(&s, grant.mapping));
	WANT(!speaker_acquire(&s, SHOWN, GPUB_READ, &again));
	grant.mapping = again.mapping;
	WANT(speaker_unseal(&s, &grant, &handle) == -EKEYREJECTED);
	speaker_end(&s);
	speaker_end(&second);
}

const struct attack tickets[] = {
	{ "flips a ticket's bits", "none of the 704 tickets that differ in one bit is honoured; each is counted",
	  .prepare = lend, .run = turn_bits, .after = bits_are_counted },
	{ "forges tickets", "none is honoured; each is counted", .prepare = lend, .run = forge,
	  .after = forgeries_are_counted },
	{ "cuts tickets", "invariant 8: a text that is cut off, longer or changed is no ticket", .prepare = lend,
	  .run = cut },
	{ "redeems another's ticket", "it is for its user alone", .prepare = lend, .run = redeem_anothers,
	  .after = another_is_counted, .flags = NEEDS_USERS },
	{ "replays a ticket", "what is good once is honoured once, in any session", .prepare = lend,
	  .run = redeem_twice, .after = twice_is_counted },
	{ "redeems at once", "also when eight processes try at once", .prepare = lend, .run = redeem_at_once },
	{ "redeems late", "invariant 8: not after its term, nor after its buffer's name", .prepare = lend,
	  .run = redeem_late, .after = late_is_counted },
	{ "reads the board",
	  "invariant 4: it shows no handle, and no sealed handle opens but with its session's key and terms",
	  .run = read_board, .flags = NEEDS_USERS },
	{ 0 },
};
