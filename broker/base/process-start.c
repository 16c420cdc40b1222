/* SPDX-License-Identifier: Apache-2.0 */
/* process-start.c - see process-start.h */
#include "process-start.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

uint64_t process_start(uint64_t pid, char *state)
{
	char path[40], text[1024], *field;
	unsigned long long start;
	ssize_t got = 0;
	int fd;

	snprintf(path, sizeof path, "/proc/%llu/stat", (unsigned long long)pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd >= 0) {
		got = read(fd, text, sizeof text - 1);
		close(fd);
	}
	text[got > 0 ? got : 0] = 0;
	/* the command's name, in parentheses, may contain any byte; the fields after it never contain a ')' */
	field = strrchr(text, ')');
	if (!field || sscanf(field + 2, "%*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %*d "
					"%*d %llu",
			     &start) != 1)
		return 0;
	if (state)
		*state = field[2];
	return start;
}
