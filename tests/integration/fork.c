/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fork.c - what a child may do with its parent's client (nothing), and what it keeps from being freed (with atfork
 * handlers nothing, without them everything until it is gone). And what a child of fork() may do where the system
 * ignores what madvise(2) is told about forks.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "client/client.h"
#include "harness.h"
#include "kernels/kernels.h"
#include "tests/deny.h"

static struct broker_process broker;
static struct puppet a, b;
static gpub_module *module;
static gpub_kernel kernel;
static step *connects = do_connect; /* how the client "a" connects */
static const char *where = "";

/* ---- three ways to make a child ---- */

static pid_t raw_clone(void)
{
	return (pid_t)syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, NULL);
}

typedef pid_t forker(void);

static forker *const forkers[] = { fork, _Fork, raw_clone };
static const char *const forker_names[] = { "fork()", "_Fork()", "clone without handlers" };

#define FORKERS 3

/* ---- the client in a child ---- */

/* One bit for each function that did not say ECHILD. */
static int misuse_client(void)
{
	gpub_spec spec = GPUB_SPEC_INIT;
	gpub_info info = { .struct_size = sizeof info };
	gpub_lease other;
	int bad = 0, count;

	spec.size = 4096;
	bad |= (gpub_create(client, "child", &spec) != -ECHILD) << 0;
	bad |= (gpub_unlink(client, "x") != -ECHILD) << 1;
	bad |= (gpub_stat(client, "x", &info) != -ECHILD) << 2;
	bad |= (gpub_acquire(client, "x", GPUB_READ, 0, &other) != -ECHILD) << 3;
	bad |= (gpub_trim(client) != -ECHILD) << 4;
	bad |= (gpub_set_flags(client, 0) != -ECHILD) << 5;
	bad |= (gpub_device_count(client, &count) != -ECHILD) << 6;
	bad |= (gpub_set_device(client, 0) != -ECHILD) << 7;
	return bad;
}

static int misuse_lease(void)
{
	gpub_lease *held = &lease[0];
	uint64_t value;
	int bad = 0;

	bad |= (gpub_renew(&lease[1]) != -ECHILD) << 8;
	bad |= (gpub_return(held) != -ECHILD) << 9;
	bad |= (gpub_return_on(held, work) != -ECHILD) << 10;
	bad |= (gpub_signal_on(held, 1, work) != -ECHILD) << 11;
	bad |= (gpub_wait_on(held, 1, work) != -ECHILD) << 12;
	bad |= (gpub_timeline(held, &value) != -ECHILD) << 13;
	return bad;
}

static int misuse_device(void)
{
	gpub_launch_config config = single_grid(work);
	uint64_t word = 0, *pointer = &word;
	void *args[] = { &pointer, &word, &word }, *other;
	gpub_module *another;
	gpub_kernel found;
	size_t size;
	int bad = 0;

	bad |= (gpub_stream_create(client, 0, &other) != -ECHILD) << 14;
	bad |= (gpub_stream_sync(work) != -ECHILD) << 15;
	bad |= (gpub_copy_on(client, &word, &word, 8, work) != -ECHILD) << 16;
	bad |= (gpub_module_open(&another, client, "kernels") != -ECHILD) << 17;
	bad |= (gpub_module_kernel(module, "fill", &found) != -ECHILD) << 18;
	bad |= (gpub_module_managed(module, "kernels_managed_counter", &other, &size) != -ECHILD) << 19;
	bad |= (gpub_launch(kernel, &config, args) != -ECHILD) << 20;
	bad |= (gpub_module_close(module) != -ECHILD) << 21;
	gpub_stream_destroy(work);
	return bad;
}

/* A violation of the host device's rules would be SIGABRT. */
static _Noreturn void misuse(int report)
{
	int bad;

	alarm(10);
	bad = misuse_client();
	bad |= misuse_lease();
	bad |= misuse_device();
	gpub_disconnect(client);
	_exit(write(report, &bad, sizeof bad) == sizeof bad ? 0 : 1);
}

/* 0: every function said ECHILD. order->flags chooses how the child is made. */
static int misuse_in_child(const struct order *order)
{
	int report[2], bad = -1, status;
	pid_t pid;

	if (pipe2(report, O_CLOEXEC))
		return -1;
	pid = forkers[order->flags]();
	if (!pid)
		misuse(report[1]);
	close(report[1]);
	if (read(report[0], &bad, sizeof bad) != sizeof bad)
		bad = 1 << 30;
	close(report[0]);
	if (waitpid(pid, &status, 0) != pid || status)
		bad |= 1 << 29;
	return bad;
}

static int open_module(const struct order *order)
{
	int error = gpub_module_open(&module, client, "kernels");

	(void)order;
	return error ? error : gpub_module_kernel(module, "late_write", &kernel);
}

/*
 * A system that does not do what madvise(2) is told about forks. Without seccomp filters the same test runs without
 * what they do.
 */
static int connect_advised(const struct order *order, int wipe_error)
{
	const struct denial denials[] = { { SYS_madvise, 2, MADV_DONTFORK, 0 },
					  { SYS_madvise, 2, MADV_WIPEONFORK, wipe_error } };

	deny(denials, 2);
	return do_connect(order);
}

/* As qemu-user does. */
static int connect_ignored(const struct order *order)
{
	return connect_advised(order, 0);
}

/* As gVisor does, which does not know the advice. */
static int connect_refused(const struct order *order)
{
	return connect_advised(order, EINVAL);
}

/* Held in slot 0, returned in slot 1, a stream, a module. */
static void begin(void)
{
	broker_pool = "0"; /* that memory comes back is to be seen */
	broker_start(&broker, "host");
	puppet_start_unconnected(&a, &broker);
	if (ask(&a, connects))
		bail_out("a client cannot connect: %s", a.last.text);
	puppet_start(&b, &broker);
	ask(&a, do_stream);
	ask(&a, open_module);
	ask(&a, do_create, .name = "x", .flags = GPUB_TIMELINE);
	ask(&a, do_acquire, .name = "x");
	ask(&a, do_acquire, .name = "x", .slot = 1);
	ask(&a, do_return, .slot = 1);
}

static void test_misuse(unsigned way)
{
	begin();
	POINT(!ask(&a, misuse_in_child, .flags = way), "%s%s: every function says ECHILD in the child", where,
	      forker_names[way]);
	if (a.last.result)
		printf("# functions that did not, as bits: %#x\n", (unsigned)a.last.result);
	POINT(!ask(&a, do_late_write, .value = 4) && !ask(&a, do_sync) && !ask(&a, do_read) && a.last.value == 4 &&
		      !ask(&a, do_renew, .slot = 1) && !ask(&a, do_return) && !ask(&a, do_stat, .name = "x") &&
		      !ask(&a, do_create, .name = "child") && !ask(&a, do_trim),
	      "%s%s: the parent goes on as before", where, forker_names[way]);
	puppet_end(&a);
	puppet_end(&b);
	broker_end(&broker);
}

/* ---- a child cannot have a client of its own, unless it executes ---- */

static int connect_in_child(const struct order *order)
{
	gpub_client *mine = NULL;
	int status, error;
	pid_t pid = fork();

	(void)order;
	if (!pid) {
		alarm(10);
		error = gpub_connect(&mine, NULL);
		_exit(error == -ENOTSUP && !mine ? 0 : 1);
	}
	return waitpid(pid, &status, 0) != pid || status;
}

/* The library forks nothing and minds no child that only executes. */
static int fork_and_execute(const struct order *order)
{
	(void)order;
	return system("true");
}

static void test_children(void)
{
	begin();
	POINT(!ask(&a, connect_in_child), "the device was started before the fork: a child's connect is ENOTSUP");
	POINT(!ask(&a, fork_and_execute) && !ask(&a, do_stat, .name = "x"), "a child that executes is no matter");
	puppet_end(&a);
	puppet_end(&b);
	broker_end(&broker);
}

/* ---- keys ---- */

/* Turned over byte for byte, so that looking for the key leaves no copy of it. */
static uint8_t turned_key[WIRE_KEY_SIZE];

static bool region_has_key(int mem, uint64_t from, uint64_t to)
{
	static uint8_t chunk[1 << 16];
	bool found = false;
	ssize_t got;

	for (uint64_t at = from; at + WIRE_KEY_SIZE <= to && !found; at += sizeof chunk - WIRE_KEY_SIZE) {
		size_t size = to - at < sizeof chunk ? to - at : sizeof chunk;

		got = pread(mem, chunk, size, (off_t)at);
		for (ssize_t i = 0; i < got; i++)
			chunk[i] ^= 0xff;
		found = got > 0 && memmem(chunk, (size_t)got, turned_key, sizeof turned_key);
		/* the chunk is in a region that is looked through, too */
		explicit_bzero(chunk, sizeof chunk);
	}
	return found;
}

/* How many writable private regions of this process have the key in them; 99: none could be looked at. */
static int key_copies(void)
{
	FILE *maps = fopen("/proc/self/maps", "r");
	int mem = open("/proc/self/mem", O_RDONLY | O_CLOEXEC), copies = 0, regions = 0;
	unsigned long long from, to;
	char line[512], rights[5];

	while (maps && mem >= 0 && fgets(line, sizeof line, maps)) {
		if (sscanf(line, "%llx-%llx %4s", &from, &to, rights) != 3 || strcmp(rights, "rw-p"))
			continue;
		if (to - from > 1ull << 30) /* a sanitizer's shadow */
			continue;
		regions++;
		copies += region_has_key(mem, from, to);
	}
	if (maps)
		fclose(maps);
	close(mem);
	return regions ? copies : 99;
}

/* The copies in a child; step_value: in this process itself. */
static int keys_in_child(const struct order *order)
{
	int status;
	pid_t pid;

	(void)order;
	for (int i = 0; i < WIRE_KEY_SIZE; i++)
		turned_key[i] = client->key[i] ^ 0xff;
	step_value = (uint64_t)key_copies();
	pid = fork();
	if (!pid)
		_exit(key_copies());
	return waitpid(pid, &status, 0) == pid && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void test_keys(void)
{
	begin();
	POINT(!ask(&a, keys_in_child), "the session's key is nowhere in a forked child's memory");
	POINT(a.last.value >= 1 && a.last.value < 99, "in the parent's it is found");
	printf("# %llu times\n", (unsigned long long)a.last.value);
	puppet_end(&a);
	puppet_end(&b);
	broker_end(&broker);
}

/* ---- the parent is killed, the child lives on ---- */

/* step_value: the pid of a child that only waits. */
static int leave_child(const struct order *order)
{
	pid_t pid = forkers[order->flags]();

	if (!pid) {
		/* the harness's own socket would keep it waiting for the parent's end */
		close(order_sock);
		alarm(60); /* it may outlive a test that fails */
		for (;;)
			pause();
	}
	step_value = (uint64_t)pid;
	return pid < 0;
}

static bool gone(void)
{
	return !status_buffers(&broker, "x", NULL) && !memory_objects(&broker);
}

/* Leaves "x" unlinked, held by a killed client whose child lives; the child's pid. */
static pid_t kill_parent(unsigned way)
{
	pid_t child;

	begin();
	if (ask(&a, leave_child, .flags = way))
		bail_out("no child: %s", forker_names[way]);
	child = (pid_t)a.last.value;
	ask(&b, do_unlink, .name = "x");
	kill(a.pid, SIGKILL);
	return child;
}

static void test_child_with_handlers(void)
{
	pid_t child = kill_parent(0);

	POINT(SOON(gone()), "invariant 9: after fork() the memory comes back though the child lives");
	POINT(!kill(child, 0), "and it does live");
	kill(child, SIGKILL);
	puppet_kill(&a);
	puppet_end(&b);
	broker_end(&broker);
}

static void test_child_without_handlers(unsigned way)
{
	pid_t parent, child = kill_parent(way);

	parent = a.pid;
	puppet_kill(&a); /* reaped, so that nothing hangs on a zombie */
	POINT(SOON(status_session(&broker, parent, "orphaned")), "%s: the broker sees that the parent is dead",
	      forker_names[way]);
	status_stable(&broker, &b);
	POINT(status_holders(&broker, "x", parent) == 1 && memory_objects(&broker) == 1,
	      "invariant 9: %s: nothing is freed as long as the child has socket and descriptors", forker_names[way]);
	kill(child, SIGKILL);
	POINT(SOON(gone()), "%s: it is freed when the child is gone", forker_names[way]);
	puppet_end(&b);
	broker_end(&broker);
}

/* ---- the other half: hung up, but alive ---- */

/*
 * Lets go of every descriptor, as a program may that closes all it does not know. On CUDA of the sessions' sockets
 * alone: what the driver does without its own is not ours to test.
 */
static int close_all(const struct order *order)
{
	(void)order;
	for (int fd = 4; on_cuda() && fd < 1024; fd++) {
		int type = 0;
		socklen_t size = sizeof type;

		if (!getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &size) && type == SOCK_SEQPACKET)
			close(fd);
	}
	if (!on_cuda())
		close_range(4, ~0u, 0);
	return 0;
}

static void test_hung_up_alive(void)
{
	pid_t pid;

	broker_start(&broker, "host");
	puppet_start(&a, &broker);
	puppet_start(&b, &broker);
	pid = a.pid;
	ask(&a, do_create, .name = "x");
	ask(&a, do_acquire, .name = "x");
	ask(&a, close_all);
	/* the library's thread sits in a receive, which keeps the socket: a notice gets it out */
	ask(&b, do_unlink, .name = "x");
	POINT(SOON(status_session(&broker, pid, "lost")), "the broker sees that a client's socket is gone");
	status_stable(&broker, &b);
	POINT(status_holders(&broker, "x", pid) == 1, "invariant 9: a hang-up alone frees nothing");
	puppet_kill(&a);
	POINT(SOON(gone()), "death does");
	puppet_end(&b);
	broker_end(&broker);
}

int main(void)
{
	harness_begin("fork", 60);
	for (unsigned way = 0; way < FORKERS; way++)
		test_misuse(way);
	test_children();
	test_keys();
	test_child_with_handlers();
	for (unsigned way = 1; way < FORKERS; way++)
		test_child_without_handlers(way);
	test_hung_up_alive();
	connects = connect_ignored;
	where = "madvise(2) is ignored: ";
	test_misuse(0);
	connects = connect_refused;
	where = "madvise(2) knows no MADV_WIPEONFORK: ";
	test_misuse(0);
	return harness_end();
}
