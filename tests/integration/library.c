/* SPDX-License-Identifier: Apache-2.0 */
/*
 * library.c - what the library never does to the process that it is loaded in, nor to the broker's memory: it allocates
 * and frees nothing of the broker's, makes no system call on the fast path, takes no signal, and minds no exit and no
 * dlclose.
 */
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "harness.h"

static struct broker_process broker;
static struct puppet a, b;

static void begin(void)
{
	broker_pool = "0"; /* what is allocated is counted */
	broker_start(&broker, "host");
	puppet_start(&a, &broker);
	ask(&a, do_create, .name = "x");
}

static void end(void)
{
	puppet_end(&a);
	broker_end(&broker);
}

/* ---- descriptors ---- */

/*
 * The program's descriptor 0 is not the library's, though an answer without a descriptor may look as if it had that
 * one.
 */
static int call_with_descriptor_0(const struct order *order)
{
	int null = open("/dev/null", O_RDWR | O_CLOEXEC), error;

	if (null < 0 || dup2(null, STDIN_FILENO) < 0)
		return -errno;
	error = do_create(order);
	if (!error)
		error = do_stat(order);
	if (!error)
		error = do_seal(order);
	if (!error)
		error = do_unlink(order);
	if (!error && fcntl(STDIN_FILENO, F_GETFD) < 0)
		error = -errno;
	if (null != STDIN_FILENO)
		close(null);
	return error;
}

static void test_descriptors(void)
{
	begin();
	POINT(!ask(&a, call_with_descriptor_0, .name = "d"), "calls leave the program's descriptor 0 open");
	end();
}

/* ---- memory ---- */

/* The broker is stopped: whatever memory comes or goes now is not its doing. */
static void test_memory(void)
{
	begin();
	puppet_start(&b, &broker);
	ask(&a, do_acquire, .name = "x");
	ask(&b, do_create, .name = "y");
	ask(&b, do_acquire, .name = "y");
	ask(&a, do_unlink, .name = "x");
	POINT(memory_objects(&broker) == 2, "two buffers have memory");
	broker_pause(&broker);
	POINT(!ask(&a, do_return) && !ask(&a, do_trim), "the last holder of an unlinked buffer closes it");
	tell(&a, do_create, .name = "z", .timeout = -1);
	puppet_kill(&b);
	usleep(100000);
	POINT(!puppet_answered(&a) && memory_objects(&broker) == 2,
	      "invariant 1: while the broker is stopped no close, no death and no create changes what is allocated");
	broker_resume(&broker);
	POINT(!receive(&a) && SOON(status_buffers(&broker, "z", NULL) == 1 && !status_buffers(&broker, "x", NULL)),
	      "the broker then allocates and frees");
	POINT(SOON(memory_objects(&broker) == status_buffers(&broker, NULL, NULL)), "and nobody else did");
	end();
}

/* ---- system calls ---- */

#define TURNS 20000

/* A sanitizer for threads makes system calls of its own, and wants to see each thread end. */
#ifdef __has_feature
#if __has_feature(thread_sanitizer)
#define __SANITIZE_THREAD__
#endif
#endif
#ifdef __SANITIZE_THREAD__
#define OWN_SYSTEM_CALLS true
#else
#define OWN_SYSTEM_CALLS false
#endif

/* The address sanitizer's malloc() has one lock for all threads, whose holder another thread may wait for. */
#ifdef __SANITIZE_ADDRESS__
#define MALLOC_LOCK SYS_futex
#else
#define MALLOC_LOCK SYS_exit
#endif

static _Atomic int broken;   /* 1 + the number of the first system call that was made */
static _Atomic int failures; /* calls of the library that failed */
static _Atomic bool turned;

static void on_system_call(int signal, siginfo_t *info, void *context)
{
	int none = 0;

	(void)signal;
	(void)context;
	atomic_compare_exchange_strong(&broken, &none, info->si_syscall + 1);
}

/*
 * From now on each system call of this thread is SIGSYS, but the one that ends it and the one that ends a handler; and
 * malloc()'s, if allowed.
 */
static int forbid_system_calls(bool malloc_allowed)
{
	struct sock_filter filter[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, malloc_allowed ? MALLOC_LOCK : SYS_exit, 7, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, malloc_allowed ? SYS_mmap : SYS_exit, 6, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, malloc_allowed ? SYS_munmap : SYS_exit, 5, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, malloc_allowed ? SYS_mprotect : SYS_exit, 4, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, malloc_allowed ? SYS_madvise : SYS_exit, 3, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, malloc_allowed ? SYS_brk : SYS_exit, 2, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_exit, 1, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_rt_sigreturn, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP),
	};
	struct sock_fprog program = { sizeof filter / sizeof filter[0], filter };

	return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
}

/* One turn with "x", which is mapped; batch: as gpub_acquire_many() does it. Returns how many calls failed. */
static int turn_once(bool batch, int timeout)
{
	static const char *const names[] = { "x", "x" };
	gpub_lease mine[2];
	int failed = 0;

	if (batch) {
		failed += gpub_acquire_many(client, names, 2, GPUB_READ, timeout, mine) != 0;
		failed += gpub_return(&mine[1]) != 0;
	} else {
		failed += gpub_acquire(client, "x", GPUB_READ | GPUB_WRITE, timeout, &mine[0]) != 0;
		failed += gpub_return(&mine[0]) != 0;
		failed += gpub_renew(&mine[0]) != 0;
	}
	return failed + (gpub_return(&mine[0]) != 0);
}

/* order->size: in batches. order->flags: one system call more, to see that the filter tells. */
static void *turn(void *argument)
{
	const struct order *order = argument;

	if (forbid_system_calls(order->size))
		atomic_store(&failures, -1);
	for (int i = 0; i < TURNS && !atomic_load(&failures); i++)
		failures += turn_once(order->size, i % 2 ? -1 : 0);
	if (order->flags)
		syscall(SYS_getppid);
	atomic_store(&turned, true);
	syscall(SYS_exit, 0); /* what pthread_exit() does before that is system calls, too */
	return NULL;
}

/* step_value: 1 + the first system call. */
static int without_system_calls(const struct order *order)
{
	struct sigaction action = { .sa_sigaction = on_system_call, .sa_flags = SA_SIGINFO };
	pthread_t thread;

	atomic_store(&broken, 0);
	atomic_store(&failures, 0);
	atomic_store(&turned, false);
	sigaction(SIGSYS, &action, NULL);
	if (pthread_create(&thread, NULL, turn, (void *)order))
		return -EAGAIN;
	pthread_detach(thread);
	while (!atomic_load(&turned))
		usleep(1000);
	step_value = (uint64_t)atomic_load(&broken);
	return atomic_load(&failures);
}

static void test_system_calls(void)
{
	if (OWN_SYSTEM_CALLS) {
		POINT(true, "invariant 7: no system call # SKIP a sanitizer makes some");
		return;
	}
	begin();
	ask(&a, do_acquire, .name = "x");
	ask(&a, do_acquire, .name = "x", .slot = 2, .rights = GPUB_READ);
	POINT(!ask(&a, without_system_calls) && !a.last.value,
	      "invariant 7: %d times acquire, return and renew of a mapped buffer without a system call", TURNS);
	if (a.last.value)
		printf("# the first was number %d\n", (int)a.last.value - 1);
	POINT(!ask(&a, without_system_calls, .size = 1) && !a.last.value,
	      "invariant 7: %d times acquire_many of a mapped buffer without a system call but malloc()'s", TURNS);
	if (a.last.value)
		printf("# the first was number %d\n", (int)a.last.value - 1);
	POINT(!ask(&a, without_system_calls, .flags = 1) && (int)a.last.value == SYS_getppid + 1,
	      "one would be noticed");
	end();
}

/* ---- signals ---- */

/* All that can be blocked: not SIGKILL, not SIGSTOP, not the two that the C library keeps. */
#define BLOCKABLE (~(1ull << (SIGKILL - 1) | 1ull << (SIGSTOP - 1) | 1ull << 31 | 1ull << 32))

static unsigned long long blocked_in(const char *tid)
{
	unsigned long long mask = 0;
	char path[300], line[200];
	FILE *file;

	snprintf(path, sizeof path, "/proc/self/task/%s/status", tid);
	file = fopen(path, "r");
	while (file && fgets(line, sizeof line, file))
		if (sscanf(line, "SigBlk: %llx", &mask) == 1)
			break;
	if (file)
		fclose(file);
	return mask;
}

/* How many other threads do not block all signals; step_value: how many there are. Negative: this one blocks some. */
static int threads_with_signals(const struct order *order)
{
	DIR *tasks = opendir("/proc/self/task");
	const struct dirent *task;
	int bad = 0;

	(void)order;
	while (tasks && (task = readdir(tasks))) {
		if (task->d_name[0] == '.')
			continue;
		if (atoi(task->d_name) == getpid()) {
			if (blocked_in(task->d_name))
				bad = -1000;
			continue;
		}
		step_value++;
		bad += (blocked_in(task->d_name) & BLOCKABLE) != BLOCKABLE;
	}
	if (tasks)
		closedir(tasks);
	return bad;
}

static void test_signals(void)
{
	begin();
	ask(&a, do_stream);
	ask(&a, do_flags, .flags = GPUB_BACKGROUND_CLOSE);
	ask(&a, do_acquire, .name = "x");
	ask(&a, do_return_on);
	ask(&a, do_sync);
	POINT(!ask(&a, threads_with_signals),
	      "invariant 11: every thread of the library has all signals blocked, and the caller's has none");
	POINT(a.last.value >= 3, "service, closer and stream: %d threads", (int)a.last.value);
	end();
}

/* ---- exit ---- */

static void *open_and_close(void *unused)
{
	gpub_spec spec = GPUB_SPEC_INIT;
	gpub_lease mine;

	spec.size = 4096;
	for (;;) {
		gpub_create(client, "short", &spec);
		if (!gpub_acquire(client, "short", GPUB_WRITE, 0, &mine))
			gpub_return_on(&mine, work);
		gpub_unlink(client, "short");
		gpub_trim(client);
	}
	return unused;
}

/* Exits, as main() does that returns, in the middle of what another thread does. Never answers. */
static int exit_meanwhile(const struct order *order)
{
	pthread_t thread;

	alarm(10);
	if (pthread_create(&thread, NULL, open_and_close, NULL))
		_exit(1);
	usleep((useconds_t)order->value);
	exit(0);
}

static bool ended(pid_t pid, int *status)
{
	return waitpid(pid, status, WNOHANG) == pid;
}

#define EXITS 20

static void test_exit(void)
{
	int clean = 0;

	begin();
	for (unsigned i = 0; i < EXITS; i++) {
		int status = -1;

		puppet_start(&b, &broker);
		ask(&b, do_stream);
		tell(&b, exit_meanwhile, .value = i * 700);
		if (!SOON(ended(b.pid, &status)))
			kill(b.pid, SIGKILL);
		close(b.sock);
		clean += !status;
	}
	POINT(clean == EXITS, "invariant 11: exit(0) while another thread opens and closes is clean, %d times of %d",
	      clean, EXITS);
	POINT(SOON(status_buffers(&broker, NULL, NULL) <= 2 && !status_holders(&broker, NULL, 0)),
	      "invariant 10: nothing is held by those that went");
	end();
}

/* ---- dlclose ---- */

/* Connects through a library of its own, lets go of it, and goes on. */
static int load_and_unload(const struct order *order)
{
	char path[4096];
	const char *build = getenv("top_builddir");
	gpub_client *mine;
	gpub_info info = { .struct_size = sizeof info };
	int (*connect_)(gpub_client **, const char *), (*stat_)(gpub_client *, const char *, gpub_info *), error;
	void (*disconnect_)(gpub_client *);
	void *library, *again;

	(void)order;
	snprintf(path, sizeof path, "%s/libbroker/.libs/libgpubroker.so", build ? build : ".");
	library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (!library)
		return 1;
	*(void **)&connect_ = dlsym(library, "gpub_connect");
	*(void **)&stat_ = dlsym(library, "gpub_stat");
	*(void **)&disconnect_ = dlsym(library, "gpub_disconnect");
	if ((void *)connect_ == (void *)gpub_connect || connect_(&mine, NULL))
		return 2;
	if (dlclose(library))
		return 3;
	again = dlopen(path, RTLD_NOW | RTLD_NOLOAD);
	if (!again || dlsym(again, "gpub_stat") != *(void **)&stat_)
		return 4;
	error = stat_(mine, "x", &info);
	disconnect_(mine);
	return error;
}

static void test_dlclose(void)
{
	begin();
	puppet_start_unconnected(&b, &broker);
	POINT(!ask(&b, load_and_unload), "invariant 11: a library that was closed stays, with the connections in it");
	if (b.last.result)
		printf("# %d\n", b.last.result);
	puppet_kill(&b);
	end();
}

int main(void)
{
	harness_begin("library", 60);
	test_descriptors();
	test_memory();
	test_system_calls();
	test_signals();
	test_exit();
	test_dlclose();
	return harness_end();
}
