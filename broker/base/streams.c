/* SPDX-License-Identifier: Apache-2.0 */
/* streams.c - see streams.h */
#include "streams.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "common/error.h"

int streams_fill(void)
{
	for (int stream = STDIN_FILENO; stream <= STDERR_FILENO; stream++) {
		/* the opposite of the stream's direction, so that using the stream fails */
		int flags = stream == STDIN_FILENO ? O_WRONLY : O_RDONLY;

		if (fcntl(stream, F_GETFD) >= 0 || errno != EBADF)
			continue;
		/* lower descriptors are open, so open(2) returns `stream` */
		if (open("/dev/null", flags) < 0)
			return error_set(-errno,
					 "descriptor %d is closed, and /dev/null cannot be opened in its place: %m; "
					 "open it for the program, or provide /dev/null",
					 stream);
	}
	return 0;
}

int streams_flush(void)
{
	if (fflush(stdout) || ferror(stdout))
		return error_set(-EIO, "the output cannot be written: %m");
	return 0;
}
