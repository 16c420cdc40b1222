/* SPDX-License-Identifier: Apache-2.0 */
/* test-alive.c - the proof that a broker's loop runs no more (keeper/alive.h), with processes that end in many ways. */
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "broker/keeper/alive.h"
#include "common/thread.h"
#include "keeper-harness.h"

static struct alive alive;
static pthread_mutex_t *mutex;
static unsigned deaths;
static pid_t holder;
static int go[2]; /* by which the holder is told to end */

static void on_death(void *context)
{
	assert_ptr_equal(context, &deaths);
	deaths++;
}

static int setup(void **state)
{
	if (harness_setup(state))
		return 1;
	deaths = 0;
	mutex = mmap(NULL, sizeof *mutex, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	return mutex == MAP_FAILED || alive_init(&alive, base, mutex, on_death, &deaths);
}

static int teardown(void **state)
{
	alive_deinit(&alive);
	alive_deinit(&alive); /* once more does nothing */
	munmap(mutex, sizeof *mutex);
	return harness_teardown(state);
}

/* Holds the mutex until it may end. */
static _Noreturn void hold(void (*end)(void))
{
	char byte;

	close(go[1]);
	CHECK(!alive_hold(mutex));
	shared->word[0] = 1;
	CHECK(!read(go[0], &byte, 1));
	end();
	_exit(0);
}

/* Forks a process that holds the mutex, and waits until it does. */
static void begin(void (*end)(void))
{
	shared->word[0] = 0;
	assert_int_equal(pipe(go), 0);
	holder = fork();
	if (!holder)
		hold(end);
	close(go[0]);
	assert_true(SOON(shared->word[0]));
}

static void reap(void)
{
	assert_int_equal(waitpid(holder, NULL, 0), holder);
}

static void by_signal(void)
{
	raise(SIGKILL);
}

static void by_exit(void)
{
	_exit(0);
}

/* Its memory is another one then. */
static void by_exec(void)
{
	execl("/bin/true", "true", NULL);
}

static void *exit_of_thread(void *context)
{
	(void)context;
	_exit(0);
}

/* A thread ends the process, while the one that holds the mutex waits. */
static void by_thread(void)
{
	pthread_t thread;

	thread_start(&thread, exit_of_thread, NULL);
	pause();
}

static void by_unlock(void)
{
	pthread_mutex_unlock(mutex);
}

static void test_the_holders_end_is_told_however_it_ends(void **state)
{
	static void (*const ends[])(void) = { by_signal, by_exit, by_exec, by_thread, by_unlock };

	(void)state;
	for (unsigned i = 0; i < 50; i++) {
		begin(ends[i % 5]);
		assert_int_equal(alive_watch(&alive), 0);
		harness_pass();
		assert_int_equal(deaths, i);
		close(go[1]);
		assert_true(SOON(deaths == i + 1));
		assert_false(alive.watching);
		reap();
	}
}

/* The thread of a loop that has ended writes nothing more, although another thread of its process goes on. */
static void *thread_that_stays(void *context)
{
	while (!shared->word[1])
		pause();
	return context;
}

static void by_end_of_the_thread(void)
{
	pthread_t thread;

	thread_start(&thread, thread_that_stays, NULL);
	pthread_exit(NULL);
}

static void test_a_thread_that_stays_does_not_delay_it(void **state)
{
	(void)state;
	begin(by_end_of_the_thread);
	assert_int_equal(alive_watch(&alive), 0);
	close(go[1]);
	assert_true(SOON(deaths == 1));
	assert_int_equal(waitpid(holder, NULL, WNOHANG), 0);
	kill(holder, SIGKILL);
	reap();
}

/* The next one holds the mutex after one that nobody had watched. */
static void test_a_holder_that_was_not_watched(void **state)
{
	(void)state;
	begin(by_signal);
	close(go[1]);
	reap();
	begin(by_signal);
	assert_int_equal(alive_watch(&alive), 0);
	close(go[1]);
	assert_true(SOON(deaths == 1));
	reap();
}

static void test_a_watch_that_is_ended_tells_nothing(void **state)
{
	(void)state;
	for (unsigned i = 0; i < 20; i++) {
		begin(by_signal);
		assert_int_equal(alive_watch(&alive), 0);
		close(go[1]);
		reap();
		alive_unwatch(&alive);
		harness_pass();
		assert_int_equal(deaths, 0);
	}
}

#define ON(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		ON(test_the_holders_end_is_told_however_it_ends),
		ON(test_a_thread_that_stays_does_not_delay_it),
		ON(test_a_holder_that_was_not_watched),
		ON(test_a_watch_that_is_ended_tells_nothing),
	};

	return cmocka_run_group_tests_name("alive", tests, NULL, NULL);
}
