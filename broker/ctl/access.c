/* SPDX-License-Identifier: Apache-2.0 */
/* access.c - see access.h */
#include "access.h"

#include <grp.h>
#include <pwd.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define MEMBERSHIPS_MAX 1024

/* Returns true if the user database has the user in the group. This process may lack the group if it began earlier. */
static bool is_listed(const struct passwd *user, gid_t group)
{
	gid_t groups[MEMBERSHIPS_MAX];
	int count = MEMBERSHIPS_MAX;

	if (getgrouplist(user->pw_name, user->pw_gid, groups, &count) < 0)
		return false;
	for (int i = 0; i < count; i++)
		if (groups[i] == group)
			return true;
	return false;
}

/* Returns the letters of access bits as chmod(1) takes them: "x" for 1, "rw" for 6. */
static const char *letters(unsigned bits)
{
	static const char *const names[] = { "", "x", "w", "wx", "r", "rx", "rw", "rwx" };

	return names[bits & 7];
}

/*
 * Writes the group's name to `name`, or its number if it has no name, or so many members that its entry does not fit
 * into room.
 */
static void name_group(gid_t gid, char name[40])
{
	struct group entry, *group = NULL;
	char room[16384];

	if (!getgrgid_r(gid, &entry, room, sizeof room, &group) && group)
		snprintf(name, 40, "%.32s", group->gr_name);
	else
		snprintf(name, 40, "%u", gid);
}

/* Writes to text what the user can do about a file that the file's group may use. Returns text. */
static const char *by_group(const struct stat *st, char text[ACCESS_TEXT_MAX])
{
	const struct passwd *user = getpwuid(geteuid());
	char name[40] = "USER", group_name[40];
	bool listed = user && is_listed(user, st->st_gid);

	if (user)
		snprintf(name, sizeof name, "%.32s", user->pw_name);
	name_group(st->st_gid, group_name);
	if (listed)
		snprintf(text, ACCESS_TEXT_MAX,
			 "%s is in the group %s, which may use it, but was put there after this process's session "
			 "began: log in anew, or try newgrp %s",
			 name, group_name, group_name);
	else
		snprintf(text, ACCESS_TEXT_MAX, "the group %s may use it: usermod -aG %s %s, and log in anew",
			 group_name, group_name, name);
	return text;
}

const char *access_remedy(const char *path, const struct stat *st, unsigned bits, char text[ACCESS_TEXT_MAX])
{
	const struct passwd *owner;

	if (st->st_uid == geteuid()) {
		snprintf(text, ACCESS_TEXT_MAX, "it is this user's own: chmod u+%s %s", letters(bits), path);
		return text;
	}
	/* joining root's group is no remedy */
	if (st->st_gid && (st->st_mode >> 3 & bits) == bits)
		return by_group(st, text);
	owner = getpwuid(st->st_uid);
	snprintf(text, ACCESS_TEXT_MAX,
		 "no group may use it: run as %.32s, or have that user open it to a group: chgrp GROUP %s; chmod g+%s "
		 "%s",
		 owner ? owner->pw_name : "its owner", path, letters(bits), path);
	return text;
}
