/* SPDX-License-Identifier: Apache-2.0 */
/* path-refusal.c - see path-refusal.h */
#include "path-refusal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define GROUPS_MAX 8 /* groups in a message at most */

#define PATH_PART_MAX 108 /* bytes: the size of sockaddr_un.sun_path */

/*
 * PATH_UNREADABLE: stat(2) fails with another error than ENOENT. PATH_WRONG_KIND: the part is not a directory or, if it
 * is the last one, not a socket. PATH_CLOSED: permissions refuse this process.
 */
enum path_fault { PATH_FINE, PATH_MISSING, PATH_UNREADABLE, PATH_WRONG_KIND, PATH_CLOSED };

/* The first part of a path that has a fault. */
struct path_part {
	enum path_fault fault;
	bool            is_last; /* true: the part is the socket; false: a directory that leads to the socket */
	struct stat     st;      /* stat(2) of the part; valid for PATH_WRONG_KIND and PATH_CLOSED */
	char            path[PATH_PART_MAX]; /* the path up to the end of the part */
};

/* Writes this process's effective ids into text, as "uid 1000, groups 1000 27". */
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

/*
 * Whether the permissions of a file refuse this process (EACCES). If real and effective ids are equal, access(2) is
 * used, which works in every sandbox. Otherwise faccessat(2) checks the effective ids, by the system call faccessat2,
 * which older container runtimes fail with EPERM. EPERM does not count as a refusal.
 */
static bool is_closed(const char *path, int mode)
{
	bool same = getuid() == geteuid() && getgid() == getegid();

	return (same ? access(path, mode) : faccessat(AT_FDCWD, path, mode, AT_EACCESS)) && errno == EACCES;
}

static enum path_fault part_fault(struct path_part *part)
{
	if (stat(part->path, &part->st))
		return errno == ENOENT ? PATH_MISSING : PATH_UNREADABLE;
	if (part->is_last ? !S_ISSOCK(part->st.st_mode) : !S_ISDIR(part->st.st_mode))
		return PATH_WRONG_KIND;
	return is_closed(part->path, part->is_last ? W_OK : X_OK) ? PATH_CLOSED : PATH_FINE;
}

/* Finds the first part of `path` that has a fault. Returns the fault, or PATH_FINE and leaves *part unchanged. */
static enum path_fault path_part_find(const char *path, struct path_part *part)
{
	struct path_part found = { .fault = PATH_FINE };
	char *slash = found.path;

	snprintf(found.path, sizeof found.path, "%s", path);
	while (slash && !found.fault) {
		slash = strchr(slash + 1, '/');
		if (slash)
			*slash = 0;
		found.is_last = !slash;
		found.fault = part_fault(&found);
		if (slash && !found.fault)
			*slash = '/';
	}
	if (found.fault)
		*part = found;
	return found.fault;
}

bool path_refusal(const char *path, char *text, size_t size)
{
	struct path_part part;
	char asker[128];

	switch (path_part_find(path, &part)) {
	case PATH_FINE:
		return false;
	case PATH_MISSING:
		snprintf(text, size, "there is no %s", part.path);
		break;
	case PATH_UNREADABLE:
		snprintf(text, size, "%s cannot be searched", part.path);
		break;
	case PATH_WRONG_KIND:
		snprintf(text, size, "%s is no %s", part.path, part.is_last ? "socket" : "directory");
		break;
	case PATH_CLOSED:
		name_asker(asker, sizeof asker);
		snprintf(text, size, "%s is closed to this process (%s): it is uid %u's and group %u's, with mode %04o",
			 part.path, asker, part.st.st_uid, part.st.st_gid, (unsigned)part.st.st_mode & 07777);
		break;
	}
	return true;
}
