/* SPDX-License-Identifier: Apache-2.0 */
/*
 * host-trap.c - see host-trap.h
 *
 * On a GPU, a kernel whose access faults ends with an error of its context. On the host device the access ends the
 * process, as other violations do. Owns the handler of SIGSEGV from the first mapping on. A fault at any other address
 * is always passed on to the handler that the program had before, because some programs use faults (garbage collectors,
 * Julia, the JVM).
 */
#include "host-trap.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#include "host-state.h"
#include "host-watch.h"

static struct sigaction before; /* the program's own action for SIGSEGV */
static atomic_bool installed;

/*
 * Reports the fault at `address` if it is a violation, which ends the process. The thread does not hold
 * host_state.lock: only kernels and the program fault, outside of the library's calls. Does nothing in a forked child,
 * where the device has no memory, and the lock may stay locked for ever.
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
 * Does what the kernel does with a SIGSEGV that has no handler: ends the process, except that a signal that was sent
 * is ignored if the action is SIG_IGN. The process ends after the return: a faulting instruction runs and faults
 * again, and a signal that was sent is raised again.
 */
static void default_action(int signal, bool sent)
{
	if (sent && before.sa_handler == SIG_IGN)
		return;
	sigaction(signal, &(struct sigaction){ .sa_handler = SIG_DFL }, NULL);
	if (sent)
		raise(signal);
}

/* Does what the program's own action for the signal says, for example calls the program's handler. */
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

/* The handler of SIGSEGV. A signal that a process has sent (si_code <= 0) has no fault address. */
static void on_fault(int signal, siginfo_t *info, void *context)
{
	if (info->si_code > 0)
		report(info->si_addr);
	pass_on(signal, info, context);
}

/*
 * Installs the handler, with the signal mask and the flags of the program's action, because the program's handler may
 * need them.
 */
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

/* Blocks or unblocks SIGSEGV in this thread, if the handler is installed. */
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
