/* SPDX-License-Identifier: Apache-2.0 */
/*
 * host-trap.c - see host-trap.h
 *
 * On a GPU such a kernel ends in an error of its own context. Here it ends the process, as other violations do. Owns the handler of
 * SIGSEGV, from the first mapping that needs it on. What is not at an address of this device goes to the handler that was there before.
 */
#include "host-trap.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#include "host-fault.h"
#include "host-region.h"
#include "host-state.h"

static struct sigaction before;
static atomic_bool installed;

/* The lock is free unless another thread has it for a moment: what faults is a kernel, or a program. */
static void report(const void *address)
{
	const struct host_region *region;

	pthread_mutex_lock(&host_state.lock);
	region = host_region_find(address);
	if (region && region->kind == HOST_MAPPING && !region->writable)
		host_violation("a write to byte %llu of memory that is mapped read-only (%p on device %u): acquire it with GPUB_WRITE",
			       (unsigned long long)((const uint8_t *)address - region->base), (void *)region->base, region->device);
	if (region && region->kind == HOST_UNMAPPED)
		host_violation("a use of %p, which was unmapped: its work was not done", address);
	pthread_mutex_unlock(&host_state.lock);
}

/* The instruction is tried again after the return, and then meets the handler of before. */
static void on_fault(int signal, siginfo_t *info, void *context)
{
	(void)context;
	report(info->si_addr);
	sigaction(signal, &before, NULL);
}

static void install(void)
{
	struct sigaction action = { .sa_sigaction = on_fault, .sa_flags = SA_SIGINFO | SA_ONSTACK };

	sigemptyset(&action.sa_mask);
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
