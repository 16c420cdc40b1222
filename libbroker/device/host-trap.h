/* SPDX-License-Identifier: Apache-2.0 */
/* host-trap.h - reports of work that touches memory in a way that it may not. */
#ifndef GPUB_HOST_TRAP_H
#define GPUB_HOST_TRAP_H

/* From the first call on, a write to memory that is mapped read-only, or a use of unmapped memory, is reported before it ends the process. */
void host_trap_install(void);

/* Around a kernel: lets the handler run in this thread, which blocks all signals. */
void host_trap_begin(void);
void host_trap_end(void);

#endif
