/* SPDX-License-Identifier: Apache-2.0 */
/* broker-kills-hand.c - a hand: one thread that calls the library, with its client, stream and host memory. */
#include "broker-kills.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

uint64_t hand_random(struct hand *hand, uint64_t below)
{
	hand->random ^= hand->random << 13;
	hand->random ^= hand->random >> 7;
	hand->random ^= hand->random << 17;
	return (hand->random >> 11) % below;
}

bool hand_one_in(struct hand *hand, uint64_t count)
{
	return !hand_random(hand, count);
}

void hand_name(struct hand *hand, const char *what, char *name)
{
	snprintf(name, GPUB_NAME_MAX + 1, "h%u/%s%llu", hand->number, what, (unsigned long long)++hand->serial);
}

static uint64_t mix(uint64_t value)
{
	value ^= value >> 31;
	value *= 0x7fb5d329728ea185ull;
	value ^= value >> 27;
	value *= 0x81dadef4bc2dd44dull;
	return value ^ value >> 33;
}

uint64_t hand_stamp(const char *name, uint64_t generation, uint64_t fill)
{
	uint64_t stamp = mix(generation * 0x9e3779b97f4a7c15ull + fill + 1);

	for (; *name; name++)
		stamp = mix(stamp + (unsigned char)*name);
	return stamp;
}

/* ---- the connection ---- */

static int descriptors(void)
{
	DIR *folder = opendir("/proc/self/fd");
	int count = -1; /* the folder's own */

	while (folder && readdir(folder))
		count++;
	if (folder)
		closedir(folder);
	return count;
}

/*
 * Number of mappings of this process that are of a broker's memory or board. *pages: those that are of a timeline's
 * page; the library keeps a page if it has not seen its last signal there.
 */
static unsigned mappings(char *one, size_t room, unsigned *pages)
{
	FILE *file = fopen("/proc/self/maps", "r");
	char line[512];
	unsigned count = 0;

	while (file && fgets(line, sizeof line, file))
		if (strstr(line, "/memfd:gpubroker-timeline")) {
			++*pages;
		} else if (strstr(line, "/memfd:") || strstr(line, "/dev/shm/gpubroker")) {
			snprintf(one, room, "%.200s", line);
			count++;
		}
	if (file)
		fclose(file);
	return count;
}

bool hand_connect(struct hand *hand)
{
	if (!WANT(CONNECT, 0, gpub_connect(hand->client, NULL)))
		return false;
	if (hand->closer && !WANT(LOCAL, 0, gpub_set_flags(*hand->client, GPUB_BACKGROUND_CLOSE)))
		return false;
	return WANT(LOCAL, 0, gpub_stream_create(*hand->client, GPUB_CURRENT, &hand->stream));
}

void hand_disconnect(struct hand *hand)
{
	char one[256] = "";
	unsigned mapped, pages = 0;
	int open;

	hand_sync(hand);
	gpub_stream_destroy(hand->stream);
	hand->stream = NULL;
	CALL(DISCONNECT, (gpub_disconnect(*hand->client), 0));
	*hand->client = NULL;
	open = descriptors();
	mapped = mappings(one, sizeof one, &pages);
	if (!hand->descriptors)
		hand->descriptors = open;
	HOLDS(open <= hand->descriptors, "hand %u: %d descriptors are open after a disconnect, %d before",
	      hand->number, open, hand->descriptors);
	HOLDS(pages <= PAGES_KEPT, "hand %u: %u pages of timelines are left after a disconnect", hand->number, pages);
	if (pages > hand->pages)
		atomic_fetch_add(&kills->pages_kept, pages - hand->pages);
	hand->pages = pages;
	HOLDS(!mapped, "hand %u: %u mappings are left after a disconnect, such as %s", hand->number, mapped, one);
}

/* ---- bytes ---- */

static void pattern(uint8_t *bytes, uint64_t from, uint64_t size, uint64_t stamp)
{
	for (uint64_t i = 0; i < size;) {
		uint64_t word = mix(stamp + ((from + i) >> 3));
		unsigned skip = (from + i) & 7, count = 8 - skip;

		if (count > size - i)
			count = (unsigned)(size - i);
		memcpy(bytes + i, (uint8_t *)&word + skip, count);
		i += count;
	}
}

bool hand_sync(struct hand *hand)
{
	return WANT(COPY, 0, gpub_stream_sync(hand->stream));
}

/* Copies between the lease's memory and the host's. */
static bool copy(struct hand *hand, const gpub_lease *lease, void *to, const void *from, uint64_t size)
{
	if (WANT(COPY, 0, gpub_copy_on(*hand->client, to, from, size, hand->stream)) && hand_sync(hand))
		return true;
	note_failure("that was of %llu bytes of the lease %p of %llu bytes, with rights %u", (unsigned long long)size,
		     lease->ptr, (unsigned long long)lease->size, lease->rights);
	return false;
}

bool hand_write(struct hand *hand, const gpub_lease *lease, uint64_t from, uint64_t size, uint64_t stamp)
{
	pattern(hand->host, from, size, stamp);
	return copy(hand, lease, (uint8_t *)lease->ptr + from, hand->host, size);
}

static bool wrong(struct hand *hand, uint64_t at, const char *name)
{
	atomic_fetch_add(&kills->wrong, 1);
	note_failure("byte %llu of %s is %#x, not %#x", (unsigned long long)at, name, hand->host[at],
		     hand->wanted[at]);
	return false;
}

bool hand_check(struct hand *hand, const gpub_lease *lease, uint64_t written, uint64_t stamp, const char *name)
{
	if (!copy(hand, lease, hand->host, lease->ptr, lease->size))
		return false;
	atomic_fetch_add(&kills->bytes, lease->size);
	pattern(hand->wanted, 0, written, stamp);
	memset(hand->wanted + written, 0, lease->size - written);
	if (!memcmp(hand->host, hand->wanted, lease->size))
		return true;
	for (uint64_t i = 0;; i++)
		if (hand->host[i] != hand->wanted[i])
			return wrong(hand, i, name);
}

bool hand_check_either(struct hand *hand, const gpub_lease *lease, uint64_t stamp, const char *name)
{
	if (!copy(hand, lease, hand->host, lease->ptr, lease->size))
		return false;
	atomic_fetch_add(&kills->bytes, lease->size);
	pattern(hand->wanted, 0, lease->size, stamp);
	for (uint64_t i = 0; i < lease->size; i++)
		if (hand->host[i] != hand->wanted[i] && hand->host[i])
			return wrong(hand, i, name);
	return true;
}

bool hand_return(struct hand *hand, gpub_lease *lease)
{
	return hand_one_in(hand, 3) ? WANT(RETURN, 0, gpub_return(lease))
				    : WANT(RETURN, 0, gpub_return_on(lease, hand->stream));
}

bool hand_trim(struct hand *hand)
{
	return WANT(TRIM, 0, gpub_trim(*hand->client));
}

/* ---- names that are not there ---- */

bool hand_misses(struct hand *hand, const char *name)
{
	gpub_info info = { .struct_size = sizeof info };
	gpub_lease lease;

	switch (hand_random(hand, 8)) {
	case 0:
		return WANT(UNLINK, -ENOENT, gpub_unlink(*hand->client, name));
	case 1:
		return WANT(STAT, -ENOENT, gpub_stat(*hand->client, name, &info));
	case 2:
		return WANT(DRAIN, -ENOENT, gpub_drain(*hand->client, name, -1));
	case 3:
		return WANT(ACQUIRE_WAIT, -ETIMEDOUT, gpub_acquire(*hand->client, name, GPUB_READ, 3, &lease));
	case 4:
		return WANT(NEWER, -ETIMEDOUT, gpub_wait_newer(*hand->client, name, 0, 3, &info));
	case 5:
		return WANT(SEAL, -ENOENT, gpub_seal(*hand->client, name));
	case 6:
		return WANT(RENAME, -ENOENT, gpub_rename(*hand->client, name, "nowhere", 0));
	default:
		return WANT(ACQUIRE, -ENOENT, gpub_acquire(*hand->client, name, GPUB_READ, 0, &lease));
	}
}

static int interrupt(void *context)
{
	++*(unsigned *)context;
	return 1;
}

bool hand_interrupted(struct hand *hand)
{
	char name[GPUB_NAME_MAX + 1];
	unsigned calls = 0;
	gpub_lease lease;
	bool good;

	hand_name(hand, "never", name);
	gpub_set_interrupt(interrupt, &calls);
	good = WANT(ACQUIRE_WAIT, -EINTR, gpub_acquire(*hand->client, name, GPUB_READ, -1, &lease));
	gpub_set_interrupt(NULL, NULL);
	return good && HOLDS(calls == 1, "a check was called %u times", calls);
}
