/* SPDX-License-Identifier: Apache-2.0 */
/*
 * host-trap.c - see host-trap.h
 *
 * On a GPU such a kernel ends in an error of its own context. Here it ends the process, as other violations do. Owns
 * the handler of SIGSEGV, from the first mapping on. A fault at an address that is not this device's goes to the
 * handler that the program had before, each time: programs use such faults (garbage collectors, Julia, the JVM).
 */
#include "host-trap.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#include "host-state.h"
#include "host-watch.h"

static struct sigaction before; /* the program's */
static atomic_bool installed;

/*
 * The lock is free unless another thread has it for a moment: what faults is a kernel, or a program. In a forked child
 * nobody may unlock it any more, and the device has no memory.
 */
static void report(const void *address)
{
	if (host_forked())
		return;
	pthread_mutex_lock(&host_state.lock);
	host_watch_fault(address);
	pthread_mutex_unlock(&host_state.lock);
}

/*
 * What the kernel does with a signal that has no handler: it ends the process, but a sent signal that is ignored is
 * ignored. An instruction that faulted is tried again after the return; a signal that was sent is raised again, and
 * comes after the return.
 */
static void default_action(int signal, bool sent)
{
	if (sent && before.sa_handler == SIG_IGN)
		return;
	sigaction(signal, &(struct sigaction){ .sa_handler = SIG_DFL }, NULL);
	if (sent)
		raise(signal);
}

static void pass_on(int signal, siginfo_t *info, void *context)
{
	struct sigaction program = before;

	if (program.sa_handler == SIG_DFL || program.sa_handler == SIG_IGN) {
		default_action(signal, info->si_code <= 0);
		return;
	}
	if (program.sa_flags & (int)SA_RESETHAND)
		before.sa_handler = SIG_DFL;
	if (program.sa_flags & SA_SIGINFO)
		program.sa_sigaction(signal, info, context);
	else
		program.sa_handler(signal);
}

/* A signal that a process sent has no address (si_code <= 0). */
static void on_fault(int signal, siginfo_t *info, void *context)
{
	if (info->si_code > 0)
		report(info->si_addr);
	pass_on(signal, info, context);
}

/* With the mask and the flags that the program's handler expects to run with. */
static void install(void)
{
	struct sigaction action = { .sa_sigaction = on_fault, .sa_flags = SA_SIGINFO | SA_ONSTACK };

	sigaction(SIGSEGV, NULL, &before);
	action.sa_mask = before.sa_mask;
	action.sa_flags |= before.sa_flags & (SA_NODEFER | SA_RESTART);
	sigaction(SIGSEGV, &action, &before);
	atomic_store(&installed, true);
}

void host_trap_install(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, install);
}

static void mask(int how)
{
	sigset_t fault;

	if (!atomic_load(&installed))
		return;
	sigemptyset(&fault);
	sigaddset(&fault, SIGSEGV);
	pthread_sigmask(how, &fault, NULL);
}

void host_trap_begin(void)
{
	mask(SIG_UNBLOCK);
}

void host_trap_end(void)
{
	mask(SIG_BLOCK);
}
