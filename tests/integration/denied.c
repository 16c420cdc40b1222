/* SPDX-License-Identifier: Apache-2.0 */
/*
 * denied.c - runs a command in a system that denies some calls, as container runtimes and emulators do: a tool of
 * sandbox.sh.
 *
 *     denied KIND ... -- COMMAND [ARGUMENT ...]
 *
 * Without a command it ends with 0 where this system has seccomp filters, else with 125.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "tests/deny.h"

#ifndef SYS_faccessat2
#define SYS_faccessat2 439
#endif
#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77
#endif

static const struct {
	const char   *kind;
	struct denial denial;
} kinds[] = {
	{ "faccessat2", { SYS_faccessat2, -1, 0, EPERM } }, /* container runtimes that know no call of Linux 5.8 */
	{ "wipeonfork", { SYS_madvise, 2, MADV_WIPEONFORK, EINVAL } }, /* gVisor */
	{ "pidfd_open", { SYS_pidfd_open, -1, 0, ENOSYS } },           /* Linux before 5.3 */
	{ "peerpidfd", { SYS_getsockopt, 2, SO_PEERPIDFD, ENOPROTOOPT } }, /* Linux before 6.5 */
};

static const struct denial *denial_find(const char *kind)
{
	for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
		if (!strcmp(kind, kinds[i].kind))
			return &kinds[i].denial;
	return NULL;
}

int main(int argc, char **argv)
{
	struct denial denials[DENIALS_MAX];
	unsigned count = 0;
	int i = 1;

	for (; i < argc && strcmp(argv[i], "--"); i++) {
		const struct denial *denial = denial_find(argv[i]);

		if (!denial || count == DENIALS_MAX)
			return fprintf(stderr, "denied: '%s' is no kind of denial\n", argv[i]), 124;
		denials[count++] = *denial;
	}
	if (deny(denials, count)) {
		perror("denied: seccomp");
		return 125;
	}
	if (++i >= argc)
		return 0;
	execvp(argv[i], argv + i);
	perror(argv[i]);
	return 127;
}
