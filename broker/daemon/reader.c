/* SPDX-License-Identifier: Apache-2.0 */
/* reader.c - see reader.h */
#include "reader.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "common/thread.h"
#include "configuration.h"
#include "options.h"

static void *reader_main(void *argument)
{
	struct reader *reader = argument;
	uint64_t one = 1;

	if (brokerd_options_load(reader->options, &reader->config))
		memcpy(reader->text, error_text(), sizeof reader->text);
	/* cannot fail, because the eventfd's counter is 0 before */
	if (write(reader->finished, &one, sizeof one) < 0)
		abort();
	return NULL;
}

static void on_finished(evutil_socket_t fd, short what, void *argument)
{
	struct reader *reader = argument;
	struct brokerd_config *config;
	uint64_t count;

	(void)what;
	if (read(fd, &count, sizeof count) < 0)
		return;
	pthread_join(reader->thread, NULL);
	config = reader->config;
	reader->config = NULL;
	reader->reading = false;
	reader->hook(reader->context, config, reader->text);
}

int reader_open(struct reader *reader, struct event_base *base, const struct brokerd_options *options,
		receiver_hook *hook, void *context)
{
	*reader = (struct reader){ .options = options, .hook = hook, .context = context };
	reader->finished = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (reader->finished < 0)
		return error_set(-errno, "no eventfd for the reading of the configuration: %m");
	reader->event = event_new(base, reader->finished, EV_READ | EV_PERSIST, on_finished, reader);
	if (reader->event && !event_add(reader->event, NULL))
		return 0;
	if (reader->event)
		event_free(reader->event);
	reader->event = NULL;
	close(reader->finished);
	return error_set(-ENOMEM, "out of memory");
}

int reader_start(struct reader *reader)
{
	int error = thread_start(&reader->thread, reader_main, reader);

	reader->reading = !error;
	return error;
}

/*
 * Waits for the reading thread to end, at most a second. Returns false if the thread still reads, and then detaches it.
 */
static bool reader_end(struct reader *reader)
{
	struct timespec deadline;

	clock_gettime(CLOCK_REALTIME, &deadline);
	deadline.tv_sec++;
	if (!pthread_timedjoin_np(reader->thread, NULL, &deadline))
		return true;
	pthread_detach(reader->thread);
	return false;
}

void reader_close(struct reader *reader)
{
	if (!reader->event)
		return;
	event_free(reader->event);
	reader->event = NULL;
	/* a thread that still reads may yet write to config, text and finished, so they stay */
	if (reader->reading && !reader_end(reader))
		return;
	reader->reading = false;
	brokerd_config_free(reader->config);
	close(reader->finished);
}
