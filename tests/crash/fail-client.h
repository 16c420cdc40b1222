/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fail-client.h - a client that uses all of the library while one of its calls, or one of its broker's, fails.
 *
 * It bears with every refusal that is a negative errno with an error message, and holds nothing against the library
 * that the failure explains. Then it does all again: what failed once must have left no trace. No puppet: a program's
 * main().
 */
#ifndef GPUB_TESTS_CRASH_FAIL_CLIENT_H
#define GPUB_TESTS_CRASH_FAIL_CLIENT_H

/* EXIT_SUCCESS, or EXIT_FAILURE with what was wrong on stderr. */
int fail_client(void);

#endif
