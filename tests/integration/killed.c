/* SPDX-License-Identifier: Apache-2.0 */
/*
 * killed.c - killed in a kernel: nothing is freed before the device is done with the dead, and nobody who gets the
 * memory next ever sees what they wrote, or will write.
 *
 * On CUDA the victim dies in a kernel that would write seconds later, and with a child that keeps the GPU's
 * descriptors, though not the socket: there pidfd and hang-up both come too early, and only the driver's list of
 * processes holds the memory (session-end.c). The victim runs under MPS where the environment has a daemon for it
 * (tests/gpu/mps.sh); the others never do. On the host device, whose work ends with its process, injected answers stand
 * for the driver's.
 */
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "client/client.h"
#include "harness.h"

#define SIZE     (4u << 20)
#define LATE_MS  (on_cuda() ? 3000 : 200)
#define LATE     0xdead0000beefull

static struct broker_process broker;
static struct puppet victim, owner, heir;
static char mps[4096];

/* ---- steps ---- */

/* A child of which the library knows nothing keeps all but the socket; answer.value: its pid. */
static int do_leave_child(const struct order *order)
{
	pid_t pid = (pid_t)syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, NULL);

	(void)order;
	if (!pid) {
		close(client->link.sock.fd);
		close(order_sock);
		for (;;)
			pause();
	}
	step_value = (uint64_t)pid;
	return pid < 0 ? -1 : 0;
}

/* 0: every byte of the lease is zero. */
static int do_look(const struct order *order)
{
	static uint64_t copy[SIZE / 8];
	gpub_lease *seen = &lease[order->slot];
	int error;

	memset(copy, 1, sizeof copy);
	error = gpub_copy_on(client, copy, seen->ptr, SIZE, work);
	if (!error)
		error = gpub_stream_sync(work);
	for (size_t i = 0; i < SIZE / 8 && !error; i++)
		if (copy[i])
			return 1;
	return error;
}

/* ---- where each one runs ---- */

static void start_outside(struct puppet *puppet)
{
	setenv("CUDA_MPS_PIPE_DIRECTORY", "/nonexistent", 1);
	puppet_start(puppet, &broker);
	ask(puppet, do_stream);
}

static void start_victim(void)
{
	if (*mps)
		setenv("CUDA_MPS_PIPE_DIRECTORY", mps, 1);
	/* a server whose client was killed in a kernel refuses the next ones for a moment, and each process for good */
	for (int tries = 0; tries < 20; tries++) {
		puppet_start(&victim, &broker);
		if (!ask(&victim, do_stream))
			return;
		puppet_kill(&victim);
		usleep(500000);
	}
	bail_out("the victim does not start: %s", victim.last.text);
}

static bool buffer_made(const char *name)
{
	struct order order = { .run = do_create, .size = SIZE };

	snprintf(order.name, sizeof order.name, "%s", name);
	puppet_tell(&owner, order);
	return !receive(&owner);
}

static bool victim_busy(void)
{
	return !ask(&victim, do_acquire, .name = "u", .rights = GPUB_WRITE) && !ask(&victim, do_write, .value = LATE) &&
	       !ask(&victim, do_late_write, .value = LATE, .timeout = LATE_MS);
}

/* The next client that gets memory of that size finds zeros, now and when the late write would have come. */
static void check_heir(const char *what)
{
	POINT(!ask(&heir, do_create, .name = "next", .size = SIZE) &&
		      !ask(&heir, do_acquire, .name = "next", .rights = GPUB_WRITE) && !ask(&heir, do_look),
	      "invariant 6: %s: the next owner finds zeros", what);
	usleep((useconds_t)(LATE_MS + 500) * 1000);
	POINT(!ask(&heir, do_look), "invariant 2: %s: and no late write lands there", what);
	ask(&heir, do_return);
	ask(&heir, do_unlink, .name = "next");
	ask(&heir, do_trim);
}

static bool freed(void)
{
	return !status_buffers(&broker, "u", NULL);
}

/* ---- the deaths ---- */

static void killed_in_a_kernel(void)
{
	start_victim();
	POINT(buffer_made("u") && victim_busy(), "a client works on a buffer");
	ask(&owner, do_unlink, .name = "u");
	kill(victim.pid, SIGKILL);
	POINT(SOON(freed()), "invariant 10: it is killed in its kernel, and the memory comes back");
	puppet_kill(&victim);
	check_heir("killed in a kernel");
}

static void killed_with_a_child(void)
{
	pid_t child;

	start_victim();
	POINT(buffer_made("u") && victim_busy() && !ask(&victim, do_leave_child), "a client works and has a child");
	child = (pid_t)victim.last.value;
	ask(&owner, do_unlink, .name = "u");
	kill(victim.pid, SIGKILL);
	POINT(SOON(status_session(&broker, victim.pid, "dying")),
	      "invariant 9: pidfd and hang-up came, and the driver still has the process");
	usleep(500000);
	status_stable(&broker, &owner);
	POINT(!freed() && status_session(&broker, victim.pid, "dying"), "invariant 9: so nothing is freed");
	kill(child, SIGKILL);
	POINT(SOON(freed()), "invariant 10: when the child is gone the memory comes back");
	puppet_kill(&victim);
	check_heir("killed with a child");
}

/*
 * A broker whose device answers so when it is asked for the dead; a client of it dies with a buffer that is unlinked.
 */
static void kill_where_device_says(const char *fault)
{
	setenv("GPUB_HOST_FAIL", fault, 1);
	broker_start(&broker, "host:1");
	unsetenv("GPUB_HOST_FAIL");
	start_outside(&owner);
	start_victim();
	POINT(buffer_made("u") && victim_busy(), "a client works on a buffer");
	ask(&owner, do_unlink, .name = "u");
	kill(victim.pid, SIGKILL);
}

/* Its answers are injected: fifty times "not yet". */
static void not_yet(void)
{
	if (on_cuda()) {
		point_skip("invariant 9: the device is asked until it is done with the dead");
		return;
	}
	kill_where_device_says("gone:50:EBUSY");
	POINT(SOON(status_session(&broker, victim.pid, "dying")) && !freed(),
	      "invariant 9: the device is not done with it, and the memory waits");
	POINT(SOON(freed()), "invariant 9: the device is asked until it is done with the dead");
	puppet_kill(&victim);
	puppet_end(&owner);
	broker_end(&broker);
}

/* Nobody can tell: the memory is kept, and the status says so. */
static void nobody_can_tell(void)
{
	if (on_cuda()) {
		point_skip("invariant 2: where nobody can tell, the memory is kept");
		return;
	}
	kill_where_device_says("gone:1:EOPNOTSUPP");
	POINT(SOON(status_session(&broker, victim.pid, "unproven")) && !freed() &&
		      SOON(broker_said(&broker, "stays allocated")),
	      "invariant 2: where nobody can tell, the memory is kept, and both log and status say so");
	puppet_kill(&victim);
	puppet_end(&owner);
	kill(broker.pid, SIGTERM);
	POINT(SOON(broker_said(&broker, "nobody can tell")), "and the broker's end waits, and says for which process");
	broker_wait(&broker, SIGTERM);
}

int main(void)
{
	const char *given = getenv("CUDA_MPS_PIPE_DIRECTORY");

	harness_begin("killed", 120);
	snprintf(mps, sizeof mps, "%s", given ? given : "");
	broker_start(&broker, "host:1");
	start_outside(&owner);
	start_outside(&heir);
	for (int i = 0; i < 3; i++)
		killed_in_a_kernel();
	if (on_cuda())
		killed_with_a_child();
	puppet_end(&owner);
	puppet_end(&heir);
	broker_end(&broker);
	not_yet();
	nobody_can_tell();
	return harness_end();
}
