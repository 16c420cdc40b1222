/* SPDX-License-Identifier: Apache-2.0 */
/*
 * keys.c - a session's key is in one place of its client's memory, and in none behind a disconnect or in a forked
 * child.
 *
 * All that the process can write is searched for it, through /proc/self/mem. What is searched for is kept in another
 * form.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "client/client.h"
#include "harness.h"

#define CHUNK      65536
#define REGION_MAX (1ul << 30) /* larger is a sanitizer's shadow memory, of which nearly all is unused */

static struct broker_process broker;
static uint8_t inverted[WIRE_KEY_SIZE]; /* the key */

static bool is_key(const uint8_t *at)
{
	for (int i = 0; i < WIRE_KEY_SIZE; i++)
		if ((at[i] ^ inverted[i]) != 0xff)
			return false;
	return true;
}

/* In [from, to), which may have parts that cannot be read. */
static unsigned count_in(int memory, unsigned long from, unsigned long to)
{
	static uint8_t chunk[CHUNK];
	unsigned found = 0;
	ssize_t got;

	for (; from < to; from += CHUNK - WIRE_KEY_SIZE) {
		got = pread(memory, chunk, to - from < CHUNK ? to - from : CHUNK, (off_t)from);
		/* a key at a chunk's end is found in the next one, too: there it counts */
		for (ssize_t i = 0; i + WIRE_KEY_SIZE <= got && (i < CHUNK - WIRE_KEY_SIZE || got < CHUNK); i++)
			found += is_key(chunk + i);
	}
	explicit_bzero(chunk, sizeof chunk);
	return found;
}

static unsigned count_keys(void)
{
	FILE *maps = fopen("/proc/self/maps", "re");
	int memory = open("/proc/self/mem", O_RDONLY | O_CLOEXEC);
	unsigned long from, to;
	unsigned found = 0;
	char line[512];

	while (maps && fgets(line, sizeof line, maps))
		if (sscanf(line, "%lx-%lx rw", &from, &to) == 2 && strstr(line, " rw") && to - from <= REGION_MAX)
			found += count_in(memory, from, to);
	if (maps)
		fclose(maps);
	close(memory);
	return found;
}

static int do_note(const struct order *order)
{
	(void)order;
	for (int i = 0; i < WIRE_KEY_SIZE; i++)
		inverted[i] = client->key[i] ^ 0xff;
	return 0;
}

static int do_count(const struct order *order)
{
	(void)order;
	return (int)count_keys();
}

static int do_count_in_child(const struct order *order)
{
	pid_t child = fork();
	int status = 0;

	(void)order;
	if (!child)
		_exit((int)count_keys());
	return waitpid(child, &status, 0) == child && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

int main(void)
{
	struct puppet a;

	harness_begin("keys", 60);
	broker_start(&broker, "host");
	puppet_start(&a, &broker);
	ask(&a, do_create, .name = "x", .size = 4096);
	ask(&a, do_acquire, .name = "x");
	ask(&a, do_return);
	ask(&a, do_note);
	POINT(ask(&a, do_count) == 1, "the key of a session is in one place");
	POINT(!ask(&a, do_count_in_child), "in a forked child it is wiped");
	ask(&a, do_disconnect);
	POINT(!ask(&a, do_count), "behind a disconnect it is wiped");
	puppet_end(&a);
	broker_end(&broker);
	return harness_end();
}
