/* SPDX-License-Identifier: Apache-2.0 */
/* failing.c - see failing.h */
#include "failing.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>

#include <event2/event.h>

#define NONE (-1)
#define ALL  (-2)

/*
 * Number of calls of this thread that still succeed before the one that fails; NONE: no call fails; ALL: each fails.
 * Other threads, such as the owner's, call when they like.
 */
static _Thread_local long left = NONE;
static _Thread_local bool failed;

/* The linker's names: __real_X is X itself, and a call of X goes to __wrap_X. */
void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *old, size_t size);
void *__real_reallocarray(void *old, size_t count, size_t size);
void *__real_sodium_malloc(size_t size);
struct event *__real_event_new(struct event_base *base, evutil_socket_t fd, short what, event_callback_fn done,
			       void *context);
int __real_event_add(struct event *event, const struct timeval *timeout);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *old, size_t size);
void *__wrap_reallocarray(void *old, size_t count, size_t size);
void *__wrap_sodium_malloc(size_t size);
struct event *__wrap_event_new(struct event_base *base, evutil_socket_t fd, short what, event_callback_fn done,
			       void *context);
int __wrap_event_add(struct event *event, const struct timeval *timeout);

void fail_after(unsigned calls)
{
	failed = false;
	left = (long)calls;
}

void fail_all(void)
{
	failed = false;
	left = ALL;
}

bool fail_ended(void)
{
	left = NONE;
	return failed;
}

static bool fails(void)
{
	if (left == NONE || (left != ALL && left-- > 0))
		return false;
	if (left != ALL)
		left = NONE;
	failed = true;
	errno = ENOMEM;
	return true;
}

void *__wrap_malloc(size_t size)
{
	return fails() ? NULL : __real_malloc(size);
}

void *__wrap_calloc(size_t count, size_t size)
{
	return fails() ? NULL : __real_calloc(count, size);
}

void *__wrap_realloc(void *old, size_t size)
{
	return fails() ? NULL : __real_realloc(old, size);
}

void *__wrap_reallocarray(void *old, size_t count, size_t size)
{
	return fails() ? NULL : __real_reallocarray(old, count, size);
}

void *__wrap_sodium_malloc(size_t size)
{
	return fails() ? NULL : __real_sodium_malloc(size);
}

struct event *__wrap_event_new(struct event_base *base, evutil_socket_t fd, short what, event_callback_fn done,
			       void *context)
{
	return fails() ? NULL : __real_event_new(base, fd, what, done, context);
}

int __wrap_event_add(struct event *event, const struct timeval *timeout)
{
	return fails() ? -1 : __real_event_add(event, timeout);
}
