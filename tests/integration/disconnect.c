/* SPDX-License-Identifier: Apache-2.0 */
/*
 * disconnect.c - a thread that acquires and returns all through another's gpub_disconnect(): it is refused at some
 * time, and never finds anything of the client's gone.
 *
 * That thread is played by munmap() and mmap(), which the library calls where something goes: there it does what such a
 * thread may do at that very moment. On the host device, which unmaps the board, and replaces a buffer that it closes
 * by inaccessible addresses.
 */
#include <errno.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include "harness.h"

static struct broker_process broker;
static struct puppet a;

#define LARGE (1u << 20) /* bytes: the buffers and the board are, and nothing else that goes */

/* ---- the other thread ---- */

static bool is_played;
static unsigned unmapped, taken;
static int refusal;

/* The first time it gets it. */
static void take_again(void)
{
	int error;

	gpub_return(&lease[1]);
	error = gpub_renew(&lease[1]);
	taken += !error;
	refusal = error ? error : refusal;
}

/* So many bytes have gone. */
static void play(size_t size)
{
	if (!is_played || size < LARGE)
		return;
	is_played = false;
	unmapped++;
	take_again();
	is_played = true;
}

int munmap(void *at, size_t size)
{
	int result = (int)syscall(SYS_munmap, at, size);

	play(size);
	return result;
}

void *mmap(void *at, size_t size, int protection, int flags, int fd, off_t offset)
{
	void *result = (void *)syscall(SYS_mmap, at, size, protection, flags, fd, offset);

	if (protection == PROT_NONE && flags & MAP_FIXED)
		play(size);
	return result;
}

/* ---- steps ---- */

/* Slot 0 goes first; slot 1, which was returned, is taken then, and so cannot. The board is the last of all. */
static int do_disconnect_meanwhile(const struct order *order)
{
	(void)order;
	is_played = true;
	gpub_disconnect(client);
	is_played = false;
	step_value = unmapped;
	client = NULL;
	return taken ? refusal : -EILSEQ;
}

int main(void)
{
	harness_begin("disconnect", 60);
	broker_start(&broker, "host");
	puppet_start(&a, &broker);
	ask(&a, do_create, .name = "x", .size = 2 * LARGE);
	ask(&a, do_create, .name = "y", .size = 2 * LARGE);
	ask(&a, do_acquire, .name = "x");
	ask(&a, do_acquire, .name = "y", .slot = 1);
	ask(&a, do_return, .slot = 1);
	POINT(ask(&a, do_disconnect_meanwhile) == -ESTALE && a.last.value == 2,
	      "what is acquired during a disconnect is held, and in its end refused: %s", a.last.text);
	POINT(SOON(status_counter(&broker, "mappings_closed") == 1) && status_holders(&broker, "y", a.pid) == 1,
	      "invariant 2: what was held is not freed");
	puppet_kill(&a);
	POINT(SOON(!status_holders(&broker, "y", 0)), "until its process is dead");
	broker_end(&broker);
	return harness_end();
}
