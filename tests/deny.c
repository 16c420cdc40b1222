/* SPDX-License-Identifier: Apache-2.0 */
/* deny.c - see deny.h */
#include "deny.h"

#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>

#define STEPS_MAX 6 /* instructions of one denial */

/* The instructions jump to the next denial where the call is another one. */
static unsigned denial_add(struct sock_filter *filter, const struct denial *denial)
{
	unsigned argument = (unsigned)(offsetof(struct seccomp_data, args) + 8u * (unsigned)denial->argument);
	const struct sock_filter any[] = {
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)denial->call, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (unsigned)denial->error),
	};
	const struct sock_filter one[] = {
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)denial->call, 0, 4),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, argument),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, denial->value, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (unsigned)denial->error),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
	};
	unsigned count = denial->argument < 0 ? sizeof any / sizeof *any : sizeof one / sizeof *one;

	for (unsigned i = 0; i < count; i++)
		filter[i] = denial->argument < 0 ? any[i] : one[i];
	return count;
}

int deny(const struct denial *denials, unsigned count)
{
	struct sock_filter filter[STEPS_MAX * DENIALS_MAX + 2] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
	};
	struct sock_fprog program = { 1, filter };

	if (count > DENIALS_MAX) {
		errno = E2BIG;
		return -1;
	}
	for (unsigned i = 0; i < count; i++)
		program.len = (unsigned short)(program.len + denial_add(&filter[program.len], &denials[i]));
	filter[program.len++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
	return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) ? -1 : 0;
}
