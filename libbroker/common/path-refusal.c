/* SPDX-License-Identifier: Apache-2.0 */
/* path-refusal.c - see path-refusal.h */
#include "path-refusal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#define GROUPS_MAX 8 /* that a message names */

/* "uid 1000, groups 1000 27" */
static void name_asker(char *text, size_t size)
{
	gid_t groups[256];
	int count = getgroups((int)(sizeof groups / sizeof groups[0]), groups);
	size_t used = (size_t)snprintf(text, size, "uid %u, groups %u", geteuid(), getegid());

	for (int i = 0; i < count && i < GROUPS_MAX && used < size; i++)
		if (groups[i] != getegid())
			used += (size_t)snprintf(text + used, size - used, " %u", groups[i]);
	if (count > GROUPS_MAX && used < size)
		snprintf(text + used, size - used, " and more");
}

static bool part_refusal(const char *part, bool is_last, char *text, size_t size)
{
	char asker[128];
	struct stat st;

	if (stat(part, &st)) {
		snprintf(text, size, errno == ENOENT ? "there is no %s" : "%s cannot be searched", part);
		return true;
	}
	if (is_last ? !S_ISSOCK(st.st_mode) : !S_ISDIR(st.st_mode)) {
		snprintf(text, size, "%s is no %s", part, is_last ? "socket" : "directory");
		return true;
	}
	if (!faccessat(AT_FDCWD, part, is_last ? W_OK : X_OK, AT_EACCESS))
		return false;
	name_asker(asker, sizeof asker);
	snprintf(text, size, "%s is closed to this process (%s): it is uid %u's and group %u's, with mode %04o", part, asker,
		 st.st_uid, st.st_gid, (unsigned)st.st_mode & 07777);
	return true;
}

bool path_refusal(const char *path, char *text, size_t size)
{
	char part[sizeof(((struct sockaddr_un *)0)->sun_path)];
	char *slash = part;
	bool refused = false;

	snprintf(part, sizeof part, "%s", path);
	while (slash && !refused) {
		slash = strchr(slash + 1, '/');
		if (slash)
			*slash = 0;
		refused = part_refusal(part, !slash, text, size);
		if (slash)
			*slash = '/';
	}
	return refused;
}
