/* SPDX-License-Identifier: Apache-2.0 */
/*
 * host-gate.h - the gate, a read-write lock that keeps work from being queued while a call waits for all queued work.
 *
 * A thread that queues work holds the gate shared, from host_gate_pass() to host_gate_leave(). A call that waits for
 * all work holds the gate exclusively, from host_gate_close() to host_gate_open().
 */
#ifndef GPUB_HOST_GATE_H
#define GPUB_HOST_GATE_H

#include <stdint.h>

void host_gate_pass(void);
void host_gate_leave(void);

void host_gate_close(void);
void host_gate_open(void);

/* Waits until all tasks that this process has queued on the device have ended. The caller has closed the gate. */
void host_gate_drain(unsigned device);

/* For host_gate_drain(): count `tasks` tasks that were queued on the device, and one task of it that has ended. */
void host_gate_add(unsigned device, uint64_t tasks);
void host_gate_finish(unsigned device);

#endif
