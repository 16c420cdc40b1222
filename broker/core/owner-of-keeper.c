/* SPDX-License-Identifier: Apache-2.0 */
/* owner-of-keeper.c - see owner-of-keeper.h */
#include "owner-of-keeper.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "broker/keeper/line.h"
#include "keep.h"

static uint64_t key(void)
{
	return keep_key(KEPT_OWNER, KEPT_ONLY);
}

static int open_place(struct owner_link *link)
{
	link->ended = link->line->sock;
	return 0;
}

static void close_place(struct owner_link *link)
{
	link->ended = -1;
}

static void kill_owner(struct owner_link *link)
{
	(void)line_kill(link->line);
}

/* Waits until the owner has ended, and stores how. */
static void wait_for_end(struct owner_link *link)
{
	struct pollfd readable = { .fd = link->line->sock, .events = POLLIN };
	int status = -1, error;

	while ((error = line_owner_ended(link->line, &status)) == -EAGAIN)
		poll(&readable, 1, -1);
	link->crashed = error || status;
	link->killed = !error && WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
	link->runs = false;
}

static int begin(struct owner_link *link)
{
	int owners, error;

	if (link->runs) {
		kill_owner(link);
		wait_for_end(link);
	}
	owners = owner_link_open(link);
	if (owners < 0)
		return owners;
	error = line_put(link->line, key(), link->sock);
	if (!error)
		error = line_begin(link->line, owners);
	close(owners);
	if (!error) {
		link->runs = true;
		return 0;
	}
	close(link->sock);
	link->sock = -1;
	return error;
}

static bool has_ended(const struct owner_link *link)
{
	return poll(&(struct pollfd){ .fd = link->line->sock, .events = POLLIN }, 1, 0) == 1;
}

static void end(struct owner_link *link)
{
	if (link->sock < 0)
		return;
	(void)line_flush_wait(link->line);
	if (has_ended(link))
		owner_link_drop(link);
	else
		owner_link_close(link);
	(void)line_drop(link->line, key());
	wait_for_end(link);
}

const struct owner_place owner_of_keeper = { open_place, begin, kill_owner, end, close_place };
