/* SPDX-License-Identifier: Apache-2.0 */
/*
 * publish.c - gpub_seal, gpub_rename, gpub_wait_newer: from a buffer that one process writes to a version that all
 * read, while others read, write, wait and die.
 */
#include <errno.h>
#include <string.h>
#include <sys/types.h>

#include "refusals.h"

static struct broker_process broker;

static uint64_t generation(const char *name)
{
	gpub_info info = { .struct_size = sizeof info };

	return gpub_stat(client, name, &info) ? 0 : info.generation;
}

/* Whether a lease that is held has the generation that a stat of that name says. */
static int do_is_newest(const struct order *order)
{
	uint64_t held;

	return gpub_lease_generation(&lease[order->slot], &held) ? -EINVAL : held == generation(order->name);
}

/* ---- seal ---- */

static int do_seal_own(const struct order *order)
{
	gpub_info info = { .struct_size = sizeof info };
	gpub_lease reader, writer, later;
	char ticket[GPUB_TICKET_MAX], both[GPUB_TICKET_MAX];

	(void)order;
	REFUSE(gpub_lease_generation(NULL, NULL), -EINVAL);
	ALSO(!gpub_acquire(client, "own", GPUB_READ | GPUB_WRITE, 0, &writer));
	ALSO(!gpub_acquire(client, "own", GPUB_READ, 0, &reader));
	ALSO(!gpub_ticket_issue(client, "own", GPUB_WRITE, NULL, ticket));
	ALSO(!gpub_ticket_issue(client, "own", GPUB_READ | GPUB_WRITE, NULL, both));
	ALSO(!gpub_stat(client, "own", &info) && !(info.flags & GPUB_SEALED));
	ALSO(!gpub_seal(client, "own") && !gpub_seal(client, "own"));
	ALSO(!gpub_stat(client, "own", &info) && info.flags & GPUB_SEALED);
	ALSO(!poke(writer.ptr, 7) && !gpub_return(&writer)); /* it stays valid until then */
	REFUSE(gpub_renew(&writer), -EROFS);
	REFUSE(gpub_acquire(client, "own", GPUB_WRITE, 0, &later), -EROFS);
	ALSO(!gpub_return(&reader) && !gpub_renew(&reader) && !gpub_return(&reader));
	REFUSE(gpub_ticket_issue(client, "own", GPUB_WRITE, NULL, ticket), -EROFS);
	REFUSE(gpub_redeem(client, ticket, &later), -EROFS);
	ALSO(!gpub_redeem(client, both, &later) && later.rights == GPUB_READ && !gpub_return(&later));
	return verdict();
}

static int do_refuse(const struct order *order)
{
	gpub_info info = { .struct_size = sizeof info };
	gpub_spec spec = GPUB_SPEC_INIT;

	(void)order;
	spec.size = 4096;
	spec.flags = GPUB_SEALED;
	REFUSE(gpub_create(client, "born-sealed", &spec), -EINVAL);
	REFUSE(gpub_seal(client, "none"), -ENOENT);
	REFUSE(gpub_seal(client, ""), -EINVAL);
	REFUSE(gpub_rename(client, "none", "new", 0), -ENOENT);
	REFUSE(gpub_rename(client, "own", "/", 0), -EINVAL);
	REFUSE(gpub_rename(client, "own", "new", 4), -EINVAL);
	REFUSE(gpub_rename(client, "own", "other", 0), -EEXIST);
	/* none had it yet, and nobody is told that */
	REFUSE(gpub_wait_newer(client, "own", 1u << 20, 0, &info), -ETIMEDOUT);
	REFUSE(gpub_wait_newer(client, "own", generation("own"), 0, &info), -ETIMEDOUT);
	REFUSE(gpub_wait_newer(client, "own", generation("own"), 10, &info), -ETIMEDOUT);
	REFUSE(gpub_wait_newer(client, "none", 0, 0, &info), -ENOENT);
	REFUSE(gpub_wait_newer(client, "none", 0, -2, &info), -EINVAL);
	REFUSE(gpub_wait_newer(client, "none", 0, 0, NULL), -EINVAL);
	ALSO(!gpub_rename(client, "own", "own", 0) && !gpub_wait_newer(client, "own", 0, 0, &info));
	return verdict();
}

static void seals(void)
{
	struct puppet a, b;

	puppet_start(&a, &broker);
	puppet_start(&b, &broker);
	ask(&a, do_create, .name = "own", .size = 4096);
	ask(&a, do_create, .name = "other", .size = 4096);
	ask(&a, do_seal_own);
	POINT(!a.last.result, "a sealed buffer gives no lease that writes, and none can be renewed (line %d)",
	      a.last.result);
	ask(&a, do_refuse);
	POINT(!a.last.result, "a seal, a rename, a wait that make no sense are refused (line %d)", a.last.result);

	ask(&b, do_acquire, .name = "other", .rights = GPUB_READ);
	POINT(!ask(&a, do_seal, .name = "other"), "a buffer that another process only reads can be sealed");
	POINT(ask(&b, do_acquire, .name = "other", .rights = GPUB_WRITE, .slot = 1) == -EROFS,
	      "the reader, which has it mapped, gets no right to write it");
	POINT(!ask(&b, do_acquire, .name = "other", .rights = GPUB_READ, .slot = 1), "and goes on reading");

	ask(&a, do_create, .name = "third", .size = 4096);
	ask(&b, do_acquire, .name = "third", .rights = GPUB_READ, .slot = 2);
	POINT(!ask(&b, do_acquire, .name = "third", .rights = GPUB_WRITE, .slot = 3),
	      "a process that reads a buffer may write it later");
	POINT(ask(&a, do_seal, .name = "third") == -EBUSY && strstr(a.last.text, "may write 'third'"),
	      "while it may, nobody seals the buffer: %s", a.last.text);
	ask(&b, do_return, .slot = 2);
	ask(&b, do_return, .slot = 3);
	POINT(ask(&a, do_seal, .name = "third") == -EBUSY, "also when it has returned its leases");
	ask(&b, do_trim);
	POINT(SOON(!ask(&a, do_seal, .name = "third")), "when it has closed the buffer it can be sealed");
	ask(&a, do_create, .name = "fourth", .size = 4096);
	ask(&b, do_acquire, .name = "fourth", .rights = GPUB_WRITE, .slot = 2);
	puppet_kill(&b);
	POINT(SOON(!ask(&a, do_seal, .name = "fourth")), "also when it is dead");
	puppet_end(&a);
}

/* ---- rename ---- */

static void renames(void)
{
	struct puppet a, b;
	uint64_t first;

	puppet_start(&a, &broker);
	puppet_start(&b, &broker);
	ask(&a, do_create, .name = "v", .size = 4096);
	ask(&a, do_create, .name = "v.new", .size = 4096);
	ask(&a, do_acquire, .name = "v", .rights = GPUB_WRITE);
	ask(&a, do_write, .value = 1);
	ask(&a, do_acquire, .name = "v.new", .rights = GPUB_WRITE, .slot = 1);
	ask(&a, do_write, .value = 2, .slot = 1);
	ask(&b, do_acquire, .name = "v", .rights = GPUB_READ);
	ask(&b, do_acquire, .name = "v.new", .rights = GPUB_READ, .slot = 1);
	ask(&b, do_acquire, .name = "v", .rights = GPUB_READ, .slot = 3);
	ask(&b, do_return, .slot = 3);
	ask(&b, do_stat, .name = "v");
	first = b.last.value;
	tell(&b, do_newer, .name = "v", .value = first, .timeout = -1);
	POINT(SOON(status_number(&broker, "waiting") == 1), "who has the newest version waits for the next");
	POINT(!ask(&a, do_rename, .name = "v.new v", .flags = GPUB_REPLACE),
	      "a buffer takes the name of another in one step");
	POINT(!receive(&b) && b.last.value > first, "who waited is told: the generation goes up");
	POINT(SOON(status_holders(&broker, "v", b.pid) == 2),
	      "who holds it under the earlier name, and who the replaced one, is shown");
	ask(&b, do_read);
	POINT(b.last.value == 1, "a lease of the replaced buffer stays what it was");
	ask(&b, do_read, .slot = 1);
	POINT(b.last.value == 2, "and one of the renamed buffer, too");
	POINT(ask(&b, do_renew, .slot = 3) == -ESTALE, "a returned lease of the replaced one cannot be renewed");
	ask(&b, do_acquire, .name = "v", .rights = GPUB_READ, .slot = 2);
	ask(&b, do_read, .slot = 2);
	POINT(b.last.value == 2, "the name means the new buffer");
	POINT(ask(&b, do_is_newest, .name = "v", .slot = 2) == 1 && !ask(&b, do_is_newest, .name = "v", .slot = 1),
	      "a lease knows its generation");
	POINT(ask(&b, do_acquire, .name = "v.new", .rights = GPUB_READ, .slot = 3) == -ENOENT,
	      "the name that it had means nothing");
	ask(&b, do_return, .slot = 1);
	POINT(ask(&b, do_renew, .slot = 1) == -ESTALE, "a lease by that name cannot be renewed");
	ask(&b, do_return);
	ask(&a, do_return);
	ask(&a, do_return, .slot = 1);
	POINT(SOON(ask(&a, do_trim) + ask(&b, do_trim) == 0 && status_buffers(&broker, "v", "draining") == 0),
	      "the replaced buffer ends with its last lease");
	ask(&b, do_read, .slot = 2);
	POINT(b.last.value == 2 && status_buffers(&broker, "v", "live") == 1, "the new one goes on");
	tell(&b, do_acquire, .name = "later", .rights = GPUB_READ, .timeout = -1);
	POINT(SOON(status_number(&broker, "waiting") == 1), "an acquire waits for a name");
	ask(&a, do_rename, .name = "v later");
	POINT(!receive(&b), "and is woken by a rename");
	ask(&a, do_unlink, .name = "later");
	puppet_end(&a);
	puppet_end(&b);
}

/* A process that dies before it publishes leaves nothing behind, and what it published stays. */
static void unfinished(void)
{
	struct puppet a, b;

	puppet_start(&a, &broker);
	puppet_start(&b, &broker);
	ask(&a, do_create, .name = "e", .size = 4096, .flags = GPUB_EPHEMERAL);
	ask(&a, do_create, .name = "e.half", .size = 4096, .flags = GPUB_EPHEMERAL);
	ask(&a, do_create, .name = "e.brief", .size = 4096, .flags = GPUB_EPHEMERAL);
	POINT(!ask(&a, do_rename, .name = "e f", .flags = GPUB_PERSIST), "an ephemeral buffer is published to stay");
	ask(&a, do_rename, .name = "e.brief g");
	puppet_kill(&a);
	POINT(SOON(ask(&b, do_stat, .name = "e.half") == -ENOENT), "its creator dies: what it had not published goes");
	POINT(SOON(ask(&b, do_stat, .name = "g") == -ENOENT), "so does what it renamed without GPUB_PERSIST");
	POINT(!ask(&b, do_stat, .name = "f"), "what it published stays");
	ask(&b, do_unlink, .name = "f");
	puppet_end(&b);
}

/* A timeline goes on under the new name, and its end is found by who knows the old one. */
static void timelines(void)
{
	struct puppet a, b;

	puppet_start(&a, &broker);
	puppet_start(&b, &broker);
	ask(&a, do_stream);
	ask(&b, do_stream);
	ask(&a, do_create, .name = "t", .size = 4096, .flags = GPUB_TIMELINE);
	ask(&a, do_acquire, .name = "t", .rights = GPUB_WRITE);
	ask(&b, do_acquire, .name = "t", .rights = GPUB_READ);
	ask(&a, do_signal, .value = 1);
	ask(&a, do_rename, .name = "t u");
	POINT(!ask(&a, do_signal, .value = 2) && !ask(&a, do_sync),
	      "the writer goes on with a lease of before the rename");
	POINT(!ask(&b, do_acquire, .name = "u", .rights = GPUB_READ, .slot = 1) &&
		      !ask(&b, do_wait, .value = 2, .slot = 1) && !ask(&b, do_sync),
	      "who acquires the new name sees the timeline");
	POINT(!ask(&a, do_acquire, .name = "u", .rights = GPUB_WRITE, .slot = 1) &&
		      !ask(&a, do_signal, .value = 3, .slot = 1) && !ask(&a, do_sync),
	      "and its writer writes it by that, too");
	POINT(!ask(&b, do_wait, .value = 3) && !ask(&b, do_sync), "which a lease of before the rename sees");
	puppet_kill(&a);
	POINT(SOON(ask(&b, do_timeline) == -EOWNERDEAD) && ask(&b, do_timeline, .slot = 1) == -EOWNERDEAD,
	      "when the writer dies both leases say so");
	ask(&b, do_rename, .name = "u w");
	POINT(ask(&b, do_timeline) == -EOWNERDEAD && ask(&b, do_timeline, .slot = 1) == -EOWNERDEAD &&
		      !ask(&b, do_acquire, .name = "w", .rights = GPUB_READ, .slot = 2) &&
		      ask(&b, do_timeline, .slot = 2) == -EOWNERDEAD,
	      "also after another rename, and by that name");
	ask(&b, do_unlink, .name = "w");
	puppet_end(&b);
}

int main(void)
{
	harness_begin("publish", 120);
	broker_start(&broker, "host");
	seals();
	renames();
	unfinished();
	timelines();
	broker_end(&broker);
	return harness_end();
}
