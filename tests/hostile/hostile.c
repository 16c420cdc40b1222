/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hostile.c - a client that speaks the protocol wrongly on purpose, one attack after another, against one broker.
 *
 * After each the broker lives and lets newcomers in, the victim's work went on in time and its memory is as it wrote
 * it, the accounting, the descriptors and the memory of the broker are back, and new memory is zeros (arena.h). The
 * attacks that deal with memory are then made again while the owner of the memory is killed over and over, and most
 * attacks while the broker's process is. An argument has only those attacks run whose name contains it.
 */
#include <string.h>

#include "attacks.h"
#include "tests/privileged.h"

static const char *wanted;

/* Attacks that deal with memory, so that they are made again while its owner dies. */
static const struct attack *const on_memory[] = { memory, pool, growth, processes, cancellation, floods };

/*
 * Attacks that are made again while the broker's process dies: what they send comes in the gap, too. The others look at
 * what a broker does by and by, or at how long it takes, which one that lives for 50 ms cannot show.
 */
static const struct attack *const on_broker[] = { descriptors, tickets, memory, growth, cancellation };

static void attack_one(const struct attack *attack)
{
	if (!wanted || arena_has(attack, wanted))
		arena_attack(attack);
}

static void attack_all(const struct attack *attacks)
{
	for (; attacks->name; attacks++)
		attack_one(attacks);
}

int main(int argc, char **argv)
{
	int status;
	bool can_attack_privileged;

	if (privileged_main(argc, argv, &status))
		return status;
	wanted = argc > 1 ? argv[1] : NULL;
	can_attack_privileged = privileged_begin();
	arena_begin("hostile", 340);
	attack_all(malformed);
	attack_all(tickets);
	attack_all(descriptors);
	attack_all(timelines);
	attack_all(inquiries);
	attack_all(memory);
	attack_all(ranges);
	attack_all(pool);
	attack_all(publishing);
	attack_all(growth);
	attack_all(processes);
	if (can_attack_privileged)
		attack_all(privileged);
	else
		point_skip("%s: set-user-ID programs do not work here", privileged[0].name);
	attack_all(cancellation);
	attack_all(floods);
	attack_all(snapshots);
	attack_all(status_files);
	attack_all(walks);
	arena_dies(ARENA_OWNER);
	for (size_t i = 0; i < sizeof on_memory / sizeof *on_memory; i++)
		attack_all(on_memory[i]);
	arena_dies(ARENA_BROKER);
	for (size_t i = 0; i < sizeof on_broker / sizeof *on_broker; i++)
		attack_all(on_broker[i]);
	arena_dies(ARENA_NOBODY);
	attack_one(&status_file_of_others);
	if (!wanted || strstr(status_file_of_its_own.name, wanted))
		arena_attack_status_file(&status_file_of_its_own);
	privileged_end();
	return arena_end();
}
