/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tickets.c - tickets from issue to redemption, between processes, through the public interface.
 *
 * One puppet issues, others redeem what they are told; the text travels in the test program's own memory, which nothing
 * of the broker can reach. What each refusal counts as at the broker, and other users, are test-delegation.c's.
 */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "harness.h"

static struct broker_process broker, second_broker;
static struct puppet a, b, c;

/* The ticket under way: shared with all puppets, which are forked from here. */
static char *text;

/* ---- steps ---- */

/* order.value: its lifetime; order.flags and order.rights as they are. */
static int do_issue(const struct order *order)
{
	gpub_ticket_terms terms = GPUB_TICKET_TERMS_INIT;

	terms.flags = order->flags;
	terms.lifetime_ms = order->value;
	return gpub_ticket_issue(client, order->name, order->rights, &terms, text);
}

static int do_issue_standard(const struct order *order)
{
	/* as a lease's rights may be */
	return gpub_ticket_issue(client, order->name, GPUB_READ | GPUB_MINE, NULL, text);
}

static int do_issue_for(const struct order *order)
{
	gpub_ticket_terms terms = GPUB_TICKET_TERMS_INIT;

	terms.user = (uint32_t)order->value;
	return gpub_ticket_issue(client, order->name, GPUB_READ, &terms, text);
}

/* 0: every refusal was the right one, and left the text alone. Else the number of the first that was not. */
static int do_issue_nonsense(const struct order *order)
{
	gpub_ticket_terms terms = GPUB_TICKET_TERMS_INIT;

	strcpy(text, "untouched");
	if (gpub_ticket_issue(client, order->name, 0, NULL, text) != -EINVAL)
		return 1;
	if (gpub_ticket_issue(client, order->name, GPUB_MINE, NULL, text) != -EINVAL ||
	    gpub_ticket_issue(client, order->name, GPUB_READ | 8, NULL, text) != -EINVAL)
		return 2;
	if (gpub_ticket_issue(client, "no/such", GPUB_READ, NULL, text) != -ENOENT)
		return 3;
	if (gpub_ticket_issue(client, "/no name", GPUB_READ, NULL, text) != -EINVAL)
		return 4;
	if (gpub_ticket_issue(client, order->name, GPUB_READ, NULL, NULL) != -EINVAL)
		return 5;
	terms.flags = 2;
	if (gpub_ticket_issue(client, order->name, GPUB_READ, &terms, text) != -EINVAL)
		return 6;
	terms.flags = 0;
	terms.reserved = 1;
	if (gpub_ticket_issue(client, order->name, GPUB_READ, &terms, text) != -EINVAL)
		return 7;
	terms.reserved = 0;
	terms.struct_size--;
	if (gpub_ticket_issue(client, order->name, GPUB_READ, &terms, text) != -EINVAL)
		return 8;
	return strcmp(text, "untouched") ? 9 : 0;
}

/* answer.value: the lease's rights. */
static int do_redeem(const struct order *order)
{
	int error = gpub_redeem(client, text, &lease[order->slot]);

	step_value = error ? 0 : lease[order->slot].rights;
	return error;
}

/* One bit or another is flipped; 0: each was -EKEYREJECTED, and the lease untouched. Else the bit's number plus 1. */
static int do_redeem_flipped(const struct order *order)
{
	gpub_lease before = lease[order->slot];
	char *mine = strdup(text);
	int bad = 0, bits = (int)strlen(mine) * 8;

	for (int i = 0; i < 100 && !bad; i++) {
		int bit = (int)(random() % bits);

		mine[bit / 8] ^= (char)(1 << bit % 8);
		if (gpub_redeem(client, mine, &lease[order->slot]) != -EKEYREJECTED ||
		    memcmp(&before, &lease[order->slot], sizeof before))
			bad = bit + 1;
		mine[bit / 8] ^= (char)(1 << bit % 8);
	}
	free(mine);
	return bad;
}

/* Cut off everywhere, and lengthened; 0: all were -EKEYREJECTED. */
static int do_redeem_truncated(const struct order *order)
{
	char longer[GPUB_TICKET_MAX + 8], part[GPUB_TICKET_MAX];
	int bad = 0;

	for (size_t length = 0; length < strlen(text) && !bad; length++) {
		snprintf(part, length + 1, "%s", text);
		bad = gpub_redeem(client, part, &lease[order->slot]) != -EKEYREJECTED;
	}
	snprintf(longer, sizeof longer, "%sA", text);
	bad |= gpub_redeem(client, longer, &lease[order->slot]) != -EKEYREJECTED;
	bad |= gpub_redeem(client, "", &lease[order->slot]) != -EKEYREJECTED;
	bad |= gpub_redeem(client, NULL, &lease[order->slot]) != -EINVAL;
	bad |= gpub_redeem(client, text, NULL) != -EINVAL;
	return bad;
}

/* The error message of the last refusal says nothing that could be used. */
static int do_look_for_text(const struct order *order)
{
	(void)order;
	gpub_redeem(client, text, &lease[7]);
	return strstr(gpub_strerror_last(), text + 6) != NULL;
}

static int do_redeem_in_child(const struct order *order)
{
	gpub_ticket_terms terms = GPUB_TICKET_TERMS_INIT;
	char mine[GPUB_TICKET_MAX];
	gpub_lease other;
	int status;
	pid_t pid = fork();

	(void)order;
	if (!pid) {
		alarm(10);
		_exit(gpub_redeem(client, text, &other) != -ECHILD ||
		      gpub_ticket_issue(client, "x", GPUB_READ, &terms, mine) != -ECHILD);
	}
	return waitpid(pid, &status, 0) != pid || status;
}

static int do_drain(const struct order *order)
{
	return gpub_drain(client, order->name, order->timeout);
}

/* ---- the world ---- */

static void begin(void)
{
	broker_start(&broker, "host");
	puppet_start(&a, &broker);
	puppet_start(&b, &broker);
	ask(&a, do_create, .name = "x", .size = 5000);
	ask(&a, do_acquire, .name = "x");
	ask(&a, do_write, .value = 4711);
	ask(&a, do_return);
}

static void end(void)
{
	puppet_end(&a);
	puppet_end(&b);
	broker_end(&broker);
}

static bool gone(const char *name)
{
	return !status_buffers(&broker, name, NULL);
}

/* ---- what they are good for ---- */

static void test_redeemed_in_another_process(void)
{
	begin();
	POINT(!ask(&a, do_issue, .name = "x", .rights = GPUB_READ), "its owner issues a ticket");
	POINT(strlen(text) < GPUB_TICKET_MAX && !strncmp(text, "gpub1.", 6), "it is text");
	POINT(!ask(&b, do_redeem) && b.last.value == GPUB_READ, "another process redeems it, with the rights it gives");
	POINT(!ask(&b, do_read) && b.last.value == 4711, "and reads what the owner wrote");
	POINT(!ask(&b, do_redeem, .slot = 1) && !ask(&b, do_read, .slot = 1) && b.last.value == 4711,
	      "as often as it likes, where it is not good once");
	POINT(SOON(status_holders(&broker, "x", b.pid) == 2), "each redemption is a grant and a mapping of its own");
	ask(&a, do_issue, .name = "x", .rights = GPUB_READ | GPUB_WRITE);
	POINT(!ask(&a, do_redeem, .slot = 1) && a.last.value == (GPUB_READ | GPUB_WRITE),
	      "also the one that issued it");
	POINT(!ask(&a, do_write, .slot = 1, .value = 8) && !ask(&b, do_read) && b.last.value == 8,
	      "and it is one memory");
	POINT(SOON(status_counter(&broker, "tickets_issued") == 2 && status_counter(&broker, "tickets_redeemed") == 3),
	      "the broker counts them");
	end();
}

static void test_terms(void)
{
	begin();
	POINT(!ask(&a, do_issue_nonsense, .name = "x"), "what makes no sense is not issued, and no text written");
	ask(&a, do_issue, .name = "x", .rights = GPUB_READ, .flags = GPUB_TICKET_ONCE);
	POINT(!ask(&b, do_redeem), "one that is good once is redeemed");
	POINT(ask(&b, do_redeem, .slot = 1) == -EKEYREJECTED && strstr(b.last.text, "once"), "and then no more");
	POINT(ask(&a, do_redeem, .slot = 1) == -EKEYREJECTED, "by nobody");
	ask(&a, do_issue_standard, .name = "x");
	POINT(!ask(&b, do_redeem, .slot = 1) && ask(&b, do_redeem, .slot = 2) == -EKEYREJECTED,
	      "without terms a ticket is good once");
	ask(&a, do_issue, .name = "x", .rights = GPUB_READ, .value = 1);
	poll(NULL, 0, 10); /* longer than its life, however fast this is */
	POINT(ask(&b, do_redeem, .slot = 2) == -EKEYEXPIRED, "past its term it is refused");
	ask(&a, do_issue_for, .name = "x", .value = geteuid() + 1);
	POINT(ask(&b, do_redeem, .slot = 2) == -EKEYREJECTED && strstr(b.last.text, "another user"),
	      "nor is it good for another user than it names");
	ask(&a, do_issue_for, .name = "x", .value = geteuid());
	POINT(!ask(&b, do_redeem, .slot = 2), "for the one that it names it is");
	POINT(SOON(status_counter(&broker, "tickets_used") == 3 && status_counter(&broker, "tickets_expired") == 1 &&
		   status_counter(&broker, "tickets_foreign") == 1),
	      "each refusal is counted by its reason");
	end();
}

static void test_unlinked(void)
{
	begin();
	ask(&a, do_issue, .name = "x", .rights = GPUB_READ);
	POINT(!ask(&b, do_redeem), "a ticket is redeemed");
	ask(&a, do_unlink, .name = "x");
	POINT(ask(&b, do_redeem, .slot = 1) == -ESTALE,
	      "invariant 8: it ends with its buffer's name, while that drains");
	ask(&a, do_create, .name = "x");
	POINT(ask(&b, do_redeem, .slot = 1) == -ESTALE, "invariant 8: and opens no later buffer of that name");
	POINT(!ask(&b, do_read) && b.last.value == 4711, "what was redeemed before is held as before");
	end();
}

static void test_forged(void)
{
	begin();
	ask(&a, do_issue, .name = "x", .rights = GPUB_READ);
	POINT(!ask(&b, do_redeem_flipped, .slot = 1), "a hundred tickets with a bit flipped are all refused");
	if (b.last.result)
		printf("# bit %d of %s\n", b.last.result - 1, text);
	POINT(!ask(&b, do_redeem_truncated, .slot = 1), "cut off anywhere, or lengthened, it is refused");
	POINT(!ask(&b, do_redeem), "and untouched it is still good");
	ask(&a, do_unlink, .name = "x");
	POINT(!ask(&b, do_look_for_text), "no error message has the ticket in it");
	POINT(!broker_said(&broker, text + 6), "nor has the broker's log");
	end();
}

/* Genuine there, and stamped for a buffer with the same serial. */
static void test_another_brokers(void)
{
	begin();
	broker_start(&second_broker, "host");
	puppet_start(&c, &second_broker);
	ask(&c, do_create, .name = "x");
	ask(&c, do_issue, .name = "x", .rights = GPUB_READ);
	POINT(!ask(&c, do_redeem), "a ticket is good at its own broker");
	POINT(ask(&b, do_redeem) == -EKEYREJECTED && strstr(b.last.text, "another broker"),
	      "invariant 8: and refused at another");
	puppet_end(&c);
	broker_end(&second_broker);
	end();
}

/* ---- the lease that it gives ---- */

static void test_renew_and_trim(void)
{
	begin();
	ask(&a, do_issue, .name = "x", .rights = GPUB_READ | GPUB_WRITE, .flags = GPUB_TICKET_ONCE);
	ask(&b, do_redeem);
	POINT(!ask(&b, do_trim) && !ask(&b, do_read) && b.last.value == 4711, "a trim leaves what is held");
	POINT(ask(&b, do_renew) == -EBUSY, "a lease that is held is not renewed");
	ask(&b, do_return);
	POINT(!ask(&b, do_renew) && !ask(&b, do_read) && b.last.value == 4711,
	      "a returned one is, though its ticket was good once");
	POINT(ask(&b, do_acquire, .name = "", .slot = 1) == -EINVAL, "by no name that it could have");
	ask(&b, do_return);
	ask(&b, do_trim);
	POINT(SOON(!status_holders(&broker, "x", b.pid)), "a trim closes what was returned");
	POINT(ask(&b, do_renew) == -ESTALE, "and then it cannot be renewed: the ticket would have to be asked again");
	POINT(ask(&b, do_redeem, .slot = 1) == -EKEYREJECTED, "which was good once");
	POINT(!ask(&b, do_acquire, .name = "x") && !ask(&b, do_read) && b.last.value == 4711,
	      "by its name the same buffer is there for users that its mode admits");
	end();
}

/* Renewed and returned in stream order, again and again, while the stream stands behind another process. */
static int do_cycle(const struct order *order)
{
	int error = 0;

	for (int i = 0; i < order->timeout && !error; i++) {
		error = gpub_return_on(&lease[order->slot], work);
		if (!error)
			error = gpub_renew(&lease[order->slot]);
	}
	return error;
}

static void test_many_returns_under_way(void)
{
	begin();
	ask(&a, do_create, .name = "gate", .flags = GPUB_TIMELINE);
	ask(&a, do_acquire, .name = "gate", .slot = 1);
	ask(&b, do_acquire, .name = "gate", .slot = 1);
	ask(&a, do_stream);
	ask(&b, do_stream);
	ask(&a, do_issue, .name = "x", .rights = GPUB_READ, .flags = GPUB_TICKET_ONCE);
	ask(&b, do_redeem);
	ask(&b, do_wait, .slot = 1, .value = 1);
	POINT(!ask(&b, do_cycle, .timeout = 100), "a redeemed lease is renewed while a hundred returns are under way");
	ask(&a, do_signal, .slot = 1, .value = 1);
	POINT(!ask(&b, do_sync) && !ask(&b, do_read) && b.last.value == 4711, "and is there when they have landed");
	end();
}

/* What a ticket gives is not what the name gives, and the other way round. */
static void test_apart_from_the_name(void)
{
	begin();
	ask(&b, do_acquire, .name = "x");
	ask(&a, do_issue, .name = "x", .rights = GPUB_READ);
	POINT(!ask(&b, do_redeem, .slot = 1) && b.last.value == GPUB_READ, "a ticket for reading gives reading alone");
	POINT(!ask(&b, do_write, .value = 5) && !ask(&b, do_read, .slot = 1) && b.last.value == 5,
	      "beside a lease by name that may write");
	ask(&b, do_return);
	ask(&b, do_return, .slot = 1);
	ask(&b, do_trim);
	POINT(SOON(!status_holders(&broker, "x", b.pid)), "one trim closes both");
	end();
}

static void test_drain(void)
{
	begin();
	ask(&a, do_issue, .name = "x", .rights = GPUB_READ);
	ask(&b, do_redeem);
	tell(&a, do_drain, .name = "x", .timeout = -1);
	POINT(SOON(status_buffers(&broker, "x", "draining") == 1), "a buffer is drained");
	status_stable(&broker, &b);
	POINT(!puppet_answered(&a) && status_holders(&broker, "x", b.pid) == 1,
	      "invariant 2: a session that redeemed a ticket is waited for");
	POINT(!ask(&b, do_read) && b.last.value == 4711, "and goes on reading");
	ask(&b, do_return);
	ask(&b, do_trim);
	POINT(!receive(&a) && SOON(gone("x")), "the drain ends when that is closed");
	end();
}

static void test_redeemer_dies(void)
{
	begin();
	ask(&a, do_issue, .name = "x", .rights = GPUB_READ);
	ask(&b, do_redeem);
	tell(&a, do_drain, .name = "x", .timeout = -1);
	SOON(status_buffers(&broker, "x", "draining") == 1);
	puppet_kill(&b);
	POINT(!receive(&a) && SOON(gone("x")), "invariant 10: or when the session that redeemed it died");
	puppet_end(&a);
	broker_end(&broker);
}

static void test_fork(void)
{
	begin();
	ask(&a, do_issue, .name = "x", .rights = GPUB_READ);
	POINT(!ask(&b, do_redeem_in_child), "a forked child can neither redeem nor issue: ECHILD");
	POINT(!ask(&b, do_redeem), "and its parent can as before");
	end();
}

int main(void)
{
	harness_begin("tickets", 60);
	text = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (text == MAP_FAILED)
		bail_out("no memory for a ticket");
	test_redeemed_in_another_process();
	test_terms();
	test_unlinked();
	test_forged();
	test_another_brokers();
	test_renew_and_trim();
	test_many_returns_under_way();
	test_apart_from_the_name();
	test_drain();
	test_redeemer_dies();
	test_fork();
	return harness_end();
}
