/* SPDX-License-Identifier: Apache-2.0 */
/* host-trap.h - reports of work, or of a program, that touches memory in a way that it may not. */
#ifndef GPUB_HOST_TRAP_H
#define GPUB_HOST_TRAP_H

/*
 * From the first call on, an access that faults is reported before it ends the process: a write to memory that is
 * mapped read-only, an access in front of a mapping or behind its end, and one to a mapping that was closed. Every
 * other fault is the program's.
 */
void host_trap_install(void);

/* Around a kernel: lets the handler run in this thread, which blocks all signals. */
void host_trap_begin(void);
void host_trap_end(void);

#endif
