/* SPDX-License-Identifier: Apache-2.0 */
/* joiner.c - see joiner.h */
#include "joiner.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "broker/core/signals.h"
#include "broker/status/leftovers.h"
#include "children.h"
#include "common/error.h"
#include "common/now.h"
#include "common/socket.h"

#define PAUSE_MS 20

/*
 * Connects to the socket "join" in the directory. Returns 1 and sets *sock; or 0 if nobody listens there, as in the
 * directory of a job that was killed.
 */
static int try_connect(const char *directory, void *sock)
{
	struct sockaddr_un sun = { .sun_family = AF_UNIX };

	snprintf(sun.sun_path, sizeof sun.sun_path, "%s/join", directory);
	*(int *)sock = socket_connect(&sun);
	return *(int *)sock >= 0;
}

/* Connects to the broker-run of local rank 0. Tries for job->patience seconds, because it may start later. */
static int leader_connect(const struct join_job *job)
{
	const struct timespec pause = { .tv_nsec = PAUSE_MS * 1000000 };
	uint64_t deadline = now_ns(CLOCK_MONOTONIC) + job->patience * UINT64_C(1000000000);
	int sock;

	while (now_ns(CLOCK_MONOTONIC) < deadline) {
		if (leftovers_directory_each(job->name, try_connect, &sock))
			return sock;
		nanosleep(&pause, NULL);
	}
	return error_set(-ETIMEDOUT,
			 "the broker-run of this machine's first process (local rank 0) did not start within %u s: "
			 "does every process of the job start broker-run --join?",
			 job->patience);
}

static int leader_ask(int sock, const struct join_job *job, struct join_answer *answer)
{
	struct join_request request = { .magic = JOIN_MAGIC, .rank = job->rank, .size = job->size };
	ssize_t size;

	snprintf(request.version, sizeof request.version, "%s", PACKAGE_VERSION);
	if (send(sock, &request, sizeof request, MSG_NOSIGNAL) != sizeof request)
		size = 0;
	else
		size = recv(sock, answer, sizeof *answer, 0);
	if (size != sizeof *answer || answer->magic != JOIN_MAGIC || answer->used > JOIN_TEXT_MAX ||
	    (answer->used && answer->text[answer->used - 1]))
		return error_set(-ECONNRESET, "the broker-run of this machine's first process (local rank 0) died, or "
					      "failed: it says why");
	if (answer->error)
		return error_set(answer->error, "%.400s", answer->used ? answer->text : "refused");
	return 0;
}

int joiner_run(const struct join_job *job, char **command)
{
	static struct join_answer answer;
	sigset_t mask;
	int error, sock;

	sigprocmask(SIG_SETMASK, NULL, &mask);
	signals_hold_back(&mask);
	sock = leader_connect(job);
	if (sock < 0)
		return sock;
	error = leader_ask(sock, job, &answer);
	close(sock);
	if (error)
		return error;
	children_environment_put(answer.text, answer.used);
	signals_let_in(&mask);
	execvp(*command, command);
	error = errno == ENOENT ? 127 : 126;
	error_set(-errno, "cannot run %.200s: %m", *command);
	return error;
}
