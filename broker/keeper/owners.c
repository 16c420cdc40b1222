/* SPDX-License-Identifier: Apache-2.0 */
/* owners.c - see owners.h */
#include "owners.h"

#include <errno.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "broker/owner/forked.h"
#include "broker/owner/serve.h"
#include "common/error.h"

bool owners_run(const struct owners *owners)
{
	return owners->child.pid > 0;
}

static void on_end(void *context, int status)
{
	struct owners *owners = context;

	owners->status = status;
	owners->untold = true;
	owners->ended(owners->context);
}

/* Forks the owner. Returns 0, or a negative errno with the error message set. */
static int begin(struct owners *owners, int sock)
{
	pid_t keeper = getpid(), pid = child_fork(NULL);
	int error;

	if (!pid) {
		owners->leave(owners->context);
		forked_owner(sock, keeper);
	}
	if (pid < 0)
		return error_set(-errno, "the process that owns the devices cannot be forked: %m");
	error = child_watch(&owners->child, owners->base, pid, on_end, owners);
	if (error) {
		kill(pid, SIGKILL);
		waitpid(pid, NULL, 0);
	}
	return error;
}

void owners_begin(struct owners *owners, int sock)
{
	int error = begin(owners, sock);

	owners->number++;
	owners->untold = error;
	if (error) {
		owners->status = -1;
		owner_refuse(sock, error);
	}
	close(sock);
}

void owners_pack(const struct owners *owners, struct handover *handover)
{
	handover_add(handover, HANDOVER_OWNER, (uint64_t)owners->child.pid, -1);
	handover_add(handover, HANDOVER_OWNERS, owners->number, -1);
	handover_add(handover, HANDOVER_OWNER_STATUS, (uint64_t)(uint32_t)owners->status, -1);
}

int owners_resume(struct owners *owners, const struct handover *from)
{
	pid_t pid = (pid_t)handover_value(from, HANDOVER_OWNER);

	owners->number = (unsigned)handover_value(from, HANDOVER_OWNERS);
	owners->status = (int)handover_value(from, HANDOVER_OWNER_STATUS);
	return pid ? child_watch(&owners->child, owners->base, pid, on_end, owners) : 0;
}

void owners_kill(const struct owners *owners)
{
	if (owners_run(owners))
		kill(owners->child.pid, SIGKILL);
}
