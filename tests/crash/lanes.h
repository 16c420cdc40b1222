/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lanes.h - one TAP program run as several processes side by side, for tests that mostly wait.
 *
 * Each lane is a TAP program of its own, with its own brokers; their points are printed as one program's when all have
 * ended. Owns the lanes' processes and what they printed. A lane ends with the program.
 */
#ifndef GPUB_TESTS_CRASH_LANES_H
#define GPUB_TESTS_CRASH_LANES_H

/* Runs lane(0) to lane(count - 1), each of which returns what its main() would. 0: all were good. */
int lanes_run(unsigned count, int (*lane)(unsigned number));

/* Prints the plan of all that ran. */
void lanes_plan(void);

#endif
