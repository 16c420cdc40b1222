/* SPDX-License-Identifier: Apache-2.0 */
/*
 * host-gate.h - the gate between those who queue work and those who must wait for all of it.
 *
 * Whoever queues passes the gate. Between host_gate_close() and host_gate_open() nobody can queue.
 */
#ifndef GPUB_HOST_GATE_H
#define GPUB_HOST_GATE_H

#include <stdint.h>

void host_gate_pass(void);
void host_gate_leave(void);

void host_gate_close(void);
void host_gate_open(void);

/* With the gate closed: waits for each task that this process has queued on the device. It stands for the device's context. */
void host_gate_drain(unsigned device);

/* Count the tasks that drain waits for. */
void host_gate_add(unsigned device, uint64_t tasks);
void host_gate_finish(unsigned device);

#endif
