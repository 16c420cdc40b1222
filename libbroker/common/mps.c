/* SPDX-License-Identifier: Apache-2.0 */
/* mps.c - see mps.h */
#include "mps.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "environment.h"

bool mps_is_here(char path[MPS_PATH_MAX])
{
	const char *directory = environment_get("CUDA_MPS_PIPE_DIRECTORY");
	char control[MPS_PATH_MAX];
	struct stat st;

	snprintf(control, sizeof control, "%s/control", directory ? directory : "/tmp/nvidia-mps");
	if (path)
		strcpy(path, control);
	/* CUDA may trust the variable that this library ignores */
	if (environment_ignored("CUDA_MPS_PIPE_DIRECTORY"))
		return true;
	/* a pipe of another user does not count: any user can create this name in /tmp */
	return !stat(control, &st) && (!st.st_uid || st.st_uid == geteuid());
}

bool mps_answers(void)
{
	struct sockaddr_un sun = { .sun_family = AF_UNIX };
	char path[MPS_PATH_MAX];
	bool refused;
	int sock;

	mps_is_here(path);
	if (strlen(path) >= sizeof sun.sun_path)
		return false;
	strcpy(sun.sun_path, path);
	sock = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	refused = sock >= 0 && connect(sock, (struct sockaddr *)&sun, sizeof sun) &&
		  (errno == ECONNREFUSED || errno == ENOENT);
	if (sock >= 0)
		close(sock);
	return !refused;
}
