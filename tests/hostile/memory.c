/* SPDX-License-Identifier: Apache-2.0 */
/*
 * memory.c - attacks on device memory: mappings that are kept when they are said to be closed, memory of one's own that
 * is freed, truncated or searched.
 */
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "attacks.h"
#include "device/host-object.h"

/* ---- another user's memory, after CLOSED ---- */

/* Writes to it all the time from here on, until it is killed. */
_Noreturn static void write_for_ever(uint8_t *bytes)
{
	attack_done();
	atomic_store(&stage->ready, true);
	for (uint8_t byte = 1;; byte++) {
		memset(bytes, byte, GIVEN_SIZE);
		usleep(1000);
	}
}

static uint8_t *map_given(struct speaker *s, struct wire_grant *grant)
{
	uint8_t *bytes;

	join(s);
	WANT(!speaker_acquire(s, GIVEN, BOTH, grant));
	bytes = speaker_map(s, grant);
	WANT(bytes);
	return bytes;
}

static void say_closed_and_keep(void)
{
	struct wire_grant grant;
	struct speaker s;
	uint8_t *bytes = map_given(&s, &grant);

	for (int i = 0; i < 3; i++)
		WANT(!speaker_closed(&s, grant.mapping));
	want_served(&s);
	write_for_ever(bytes);
}

static void say_quiesced_and_keep(void)
{
	struct wire_grant grant;
	struct speaker s;
	uint8_t *bytes = map_given(&s, &grant);

	for (int i = 0; i < 3; i++)
		WANT(!speaker_quiesced(&s, grant.mapping, grant.serial));
	want_served(&s);
	write_for_ever(bytes);
}

/* A session that answers nothing to the notice. */
static void keep(void)
{
	struct wire_grant grant;
	struct speaker s;

	write_for_ever(map_given(&s, &grant));
}

static void leave_and_keep(void)
{
	struct wire_message leave = speaker_message(WIRE_LEAVE, ""), answer;
	struct wire_grant grant;
	struct speaker s;
	uint8_t *bytes = map_given(&s, &grant);

	WANT(!speaker_closed(&s, grant.mapping));
	WANT(!speaker_ask(&s, &leave, &answer, NULL) && answer.type == WIRE_LEFT);
	speaker_end(&s);
	write_for_ever(bytes);
}

static void hang_up_and_keep(void)
{
	struct wire_grant grant;
	struct speaker s;
	uint8_t *bytes = map_given(&s, &grant);

	speaker_end(&s);
	write_for_ever(bytes);
}

/* Another process of the attacker's has said so, too, and is dead. */
static void another_holds_and_dies(void (*meanwhile)(struct speaker *s), struct speaker *s)
{
	struct wire_grant grant;
	struct speaker own;
	int told[2];
	pid_t pid;

	WANT(!pipe(told));
	pid = fork();
	if (!pid) {
		join(&own);
		WANT(!speaker_acquire(&own, GIVEN, BOTH, &grant));
		WANT(!speaker_closed(&own, grant.mapping));
		want_served(&own);
		WANT(write(told[1], "!", 1) == 1);
		for (;;)
			pause();
	}
	close(told[1]);
	WANT(read(told[0], &grant, 1) == 1);
	meanwhile(s);
	kill(pid, SIGKILL);
	WANT(waitpid(pid, NULL, 0) == pid);
	close(told[0]);
}

static void close_twenty(struct speaker *s)
{
	struct wire_grant more;

	for (int i = 0; i < 20; i++) {
		WANT(!speaker_acquire(s, GIVEN, BOTH, &more));
		WANT(!speaker_closed(s, more.mapping));
	}
	want_served(s);
}

/*
 * Of its many mappings one orphaned mapping is kept for this session alone: it ends neither with them nor with another
 * session's.
 */
static void close_many_and_keep(void)
{
	struct wire_grant grant;
	struct speaker s;
	uint8_t *bytes = map_given(&s, &grant);

	WANT(!speaker_closed(&s, grant.mapping));
	another_holds_and_dies(close_twenty, &s);
	write_for_ever(bytes);
}

/* The same, with nothing said before that other process said it. */
static void close_behind_another(void)
{
	struct wire_grant grant;
	struct speaker s;
	uint8_t *bytes;

	join(&s);
	another_holds_and_dies(close_twenty, &s);
	WANT(!speaker_acquire(&s, GIVEN, BOTH, &grant));
	bytes = speaker_map(&s, &grant);
	WANT(bytes && !speaker_closed(&s, grant.mapping));
	want_served(&s);
	write_for_ever(bytes);
}

static bool given_is_kept_for_the_attacker(void)
{
	return given_outlives_its_name() && given_goes_with(stage->pid[0]);
}

/* ---- its own memory ---- */

#define OWN      "attacker/own"
#define OWN_SIZE (2u << 20)

static uint8_t *map_own(struct speaker *s, struct wire_grant *grant)
{
	uint8_t *bytes;

	join(s);
	WANT(!speaker_create(s, OWN, OWN_SIZE, 0600, 0));
	WANT(!speaker_acquire(s, OWN, BOTH, grant));
	bytes = speaker_map(s, grant);
	WANT(bytes);
	return bytes;
}

/* It trusts itself. What it goes on writing to is nobody else's memory, now or later. */
static void write_own_after_free(void)
{
	struct wire_grant grant;
	struct speaker s;
	uint8_t *bytes = map_own(&s, &grant);
	uint64_t end = now_us() + 300000;

	WANT(!speaker_closed(&s, grant.mapping));
	WANT(!speaker_named(&s, WIRE_UNLINK, OWN));
	for (uint8_t byte = 1; now_us() < end; byte++) {
		memset(bytes, byte, OWN_SIZE);
		usleep(500);
	}
	speaker_end(&s);
}

/* The host device's memory is a file for every process that knows its name. */
static void resize_own(void)
{
	static const off_t sizes[] = { 0, 1, OWN_SIZE / 2, 4 * OWN_SIZE };
	struct device_handle handle;
	char name[HOST_NAME_SIZE];

	for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
		struct wire_grant grant;
		struct speaker s;
		uint8_t *bytes = map_own(&s, &grant);

		WANT(!speaker_unseal(&s, &grant, &handle));
		WANT(host_object_name(&handle, name) == !tested_export()->by_descriptor);
		WANT(tested_export()->by_descriptor ? ftruncate(s.memory_fd, sizes[i]) && errno == EPERM :
						      !truncate(name, sizes[i]));
		munmap(bytes, OWN_SIZE);
		WANT(!speaker_closed(&s, grant.mapping));
		WANT(!speaker_named(&s, WIRE_UNLINK, OWN));
		speaker_end(&s);
	}
}

/* ---- the host device's directory ---- */

static void pry_into_directory(void)
{
	char path[96], file[160];

	snprintf(path, sizeof path, "/dev/shm/gpubroker.%s.mem", arena_broker.instance);
	snprintf(file, sizeof file, "%s/00000000000000000000000000000000", path);
	WANT(!opendir(path) && errno == EACCES);
	WANT(open(file, O_RDWR | O_CREAT | O_CLOEXEC, 0600) < 0);
	WANT(rename(path, "/dev/shm/elsewhere") && rmdir(path) && chmod(path, 0777));
	WANT(symlink("/etc/passwd", file));
}

#define MAPPED(name, holds, function)                                                              \
	{                                                                                          \
		name, holds, .prepare = make_given, .run = function,                               \
		.during = given_is_kept_for_the_attacker, .flags = NEEDS_USERS                     \
	}

const struct attack memory[] = {
	MAPPED("says closed and keeps the mapping", "invariant 2: another user's CLOSED frees nothing before its death",
	       say_closed_and_keep),
	MAPPED("says idle and keeps the mapping", "invariant 2: nor does its QUIESCED", say_quiesced_and_keep),
	MAPPED("ignores the notice", "invariant 2: nor its silence", keep),
	MAPPED("leaves and keeps the mapping", "invariant 2: nor does its leaving", leave_and_keep),
	MAPPED("hangs up and keeps the mapping", "invariant 9: nor its hanging up", hang_up_and_keep),
	MAPPED("closes many and keeps the mapping", "nor the end of many mappings of it", close_many_and_keep),
	MAPPED("closes behind another", "nor the death of another process that had it", close_behind_another),
	{ "writes its memory after the free", "invariant 6: what others get later is zeros all the same",
	  .run = write_own_after_free, .flags = HURTS_ITSELF },
	{ "resizes its memory", "the broker goes on, and frees it", .run = resize_own, .flags = HURTS_ITSELF },
	{ "pries into the memory's directory", "its names are not shown, and nothing is put there or moved",
	  .run = pry_into_directory, .flags = NEEDS_USERS },
	{ 0 },
};
