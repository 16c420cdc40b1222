/* SPDX-License-Identifier: Apache-2.0 */
/* manage.c - gpub_chmod, gpub_chown, gpub_drain, and see manage.h: management requests to the broker. Owns nothing. */
#include "manage.h"

#include <errno.h>
#include <string.h>

#include "cache.h"
#include "call.h"
#include "client.h"
#include "clock.h"
#include "common/error.h"
#include "common/name.h"
#include "common/thread.h"

static int check(const struct gpub_client *client, const char *name)
{
	int error = client_check(client);

	return error ? error : name_check(name);
}

static int change(struct gpub_client *client, const char *name, const struct wire_change *wanted)
{
	struct wire_message request, reply;
	int error = check(client, name);
	HOLD_CANCELLATION();

	if (error)
		return error;
	wire_init(&request, WIRE_CHANGE, 0);
	request.change = *wanted;
	strcpy(request.change.name, name);
	return call_broker(client, &request, &reply, NULL, NULL);
}

int gpub_chmod(gpub_client *client, const char *name, uint32_t mode)
{
	struct wire_change wanted = { .what = WIRE_CHANGE_MODE, .mode = mode };

	if (mode & ~0777u)
		return error_set(-EINVAL, "%#o is not a buffer's mode: use read and write bits up to 0777", mode);
	return change(client, name, &wanted);
}

int gpub_chown(gpub_client *client, const char *name, uint32_t owner, uint32_t group)
{
	struct wire_change wanted = { .owner = owner, .group = group };

	wanted.what = (owner != GPUB_KEEP ? WIRE_CHANGE_OWNER : 0u) | (group != GPUB_KEEP ? WIRE_CHANGE_GROUP : 0u);
	if (!wanted.what)
		return error_set(-EINVAL, "neither owner nor group is given: GPUB_KEEP may stand for one of them");
	return change(client, name, &wanted);
}

int gpub_drain(gpub_client *client, const char *name, int timeout_ms)
{
	struct wire_message request, reply;
	struct timespec last;
	int error = check(client, name);
	HOLD_CANCELLATION();

	if (!error && timeout_ms < -1)
		error = error_set(-EINVAL, "a timeout is at least 0, or -1 for no limit");
	/* otherwise the drain would wait for unused mappings of this process */
	if (!error)
		error = cache_close_all(client);
	if (error)
		return error;
	wire_init(&request, WIRE_DRAIN, 0);
	strcpy(request.drain.name, name);
	request.drain.timeout_ms = timeout_ms;
	last = client_deadline((int64_t)timeout_ms + GRACE_MS);
	return call_broker(client, &request, &reply, NULL, timeout_ms < 0 ? NULL : &last);
}

int client_evict(struct gpub_client *client, uint64_t session, int *pidfd)
{
	struct wire_message request, reply;
	int error = client_check(client), fd = -1;
	HOLD_CANCELLATION();

	if (error)
		return error;
	wire_init(&request, WIRE_EVICT, 0);
	request.evict.session = session;
	error = call_broker(client, &request, &reply, &fd, NULL);
	if (error)
		return error;
	if (fd < 0)
		return error_set(-EMFILE, "session %llu is cut off, but no descriptor was left here for its process",
				 (unsigned long long)session);
	*pidfd = fd;
	return 0;
}

int client_snapshot(struct gpub_client *client, int *file, bool *all)
{
	int error = client_check(client);
	struct wire_message request;
	struct wire_view view;
	HOLD_CANCELLATION();

	if (error)
		return error;
	wire_init(&request, WIRE_SNAPSHOT, 0);
	error = call_for_file(client, &request, file, &view);
	if (!error)
		*all = view.all;
	return error;
}
