/* SPDX-License-Identifier: Apache-2.0 */
/* host-trap.h - reports faulting accesses of kernels and of the program to the host device's memory, as violations. */
#ifndef GPUB_HOST_TRAP_H
#define GPUB_HOST_TRAP_H

/*
 * Installs the handler of SIGSEGV at the first call. The handler reports a write to read-only memory, an access
 * before or after a mapping, and an access to a closed mapping, before the process ends. It passes other faults to
 * the program's handler.
 */
void host_trap_install(void);

/*
 * Call them before and after a kernel, in a stream's thread, which blocks all signals. Between the two calls SIGSEGV is
 * not blocked in this thread, if the handler is installed.
 */
void host_trap_begin(void);
void host_trap_end(void);

#endif
