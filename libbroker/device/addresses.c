/* SPDX-License-Identifier: Apache-2.0 */
/* addresses.c - see addresses.h */
#include "addresses.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "common/error.h"

#define NAME_COLUMN 73  /* offset of the name in a line of /proc/self/maps; a shorter line has no name */
#define NAME_SHOWN  80  /* bytes of a name in a message at most; of a longer name, its end is shown */
#define LINE_SIZE   (NAME_COLUMN + PATH_MAX + 16) /* bytes of the longest line, with " (deleted)" and the newline */

/* A mapping of this process. */
struct found {
	uint64_t begin, end; /* the first address of the mapping, and the first address after it */
	char     name[96];   /* what is mapped there, for error messages */
};

/* Parses a line of /proc/PID/maps (proc(5)). False: the line has another form. */
static bool line_read(const char *line, struct found *found)
{
	size_t length = strcspn(line, "\n"), from = NAME_COLUMN;

	if (sscanf(line, "%" SCNx64 "-%" SCNx64, &found->begin, &found->end) != 2)
		return false;
	if (length > NAME_COLUMN + NAME_SHOWN)
		from = length - NAME_SHOWN;
	if (length > NAME_COLUMN)
		snprintf(found->name, sizeof found->name, "'%s%.*s'", from > NAME_COLUMN ? "..." : "",
			 (int)(length - from), line + from);
	else
		snprintf(found->name, sizeof found->name, "memory without a name");
	return true;
}

/* Finds the first mapping of this process that overlaps [begin, end). False: no mapping does, or /proc is missing. */
static bool find_overlapping(uint64_t begin, uint64_t end, struct found *found)
{
	FILE *maps = fopen("/proc/self/maps", "re");
	char  line[LINE_SIZE];
	bool  overlaps = false;

	while (maps && !overlaps && fgets(line, sizeof line, maps))
		overlaps = line_read(line, found) && found->begin < end && found->end > begin;
	if (maps)
		fclose(maps);
	return overlaps;
}

int addresses_taken(const void *base, uint64_t size)
{
	uint64_t     begin = (uintptr_t)base;
	struct found found;

	if (!find_overlapping(begin, begin + size, &found))
		return error_set(-EADDRINUSE,
				 "the buffer's addresses %#" PRIx64 " to %#" PRIx64
				 " cannot be had in this process, although nothing lies there: its address space ends "
				 "before them, a limit (ulimit -v) forbids them, or the driver gives others",
				 begin, begin + size);
	return error_set(-EADDRINUSE,
			 "the buffer's addresses %#" PRIx64 " to %#" PRIx64
			 " are taken in this process by %s at %#" PRIx64 " to %#" PRIx64
			 ": acquire the buffer before that is mapped",
			 begin, begin + size, found.name, found.begin, found.end);
}

/*
 * Makes a mapping without access at the addresses, and removes the mapping at once. Kernels before 4.17 ignore
 * MAP_FIXED_NOREPLACE and map at other addresses (mmap(2)).
 */
int addresses_check(const void *base, uint64_t size)
{
	void *probe = mmap((void *)(uintptr_t)base, size, PROT_NONE,
			   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);

	if (probe != MAP_FAILED)
		munmap(probe, size);
	return probe == base ? 0 : addresses_taken(base, size);
}
