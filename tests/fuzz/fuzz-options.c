/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fuzz-options.c - texts that people give: command lines of heat and of broker-run, sizes, names, addresses, devices.
 *
 * The input: a byte that says which of them, then its words, each with a zero behind it. What is taken must be in the
 * range that the manual gives.
 */
#include "fuzz.h"

#include <errno.h>
#include <getopt.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "broker/run/options.h"
#include "broker/run/spec.h"
#include "common/error.h"
#include "common/size.h"
#include "common/socket.h"
#include "device/device.h"
#include "device/select.h"
#include "examples/heat/heat.h"

#define WORDS_MAX 32

/* ---- what the rest of the programs would give ---- */

static unsigned speaker, said;
static FILE *quiet;

void heat_name(unsigned rank)
{
	speaker = rank;
}

void heat_refuse(const char *format, ...)
{
	char text[1024];
	va_list list;

	va_start(list, format);
	vsnprintf(text, sizeof text, format, list);
	va_end(list);
	said++;
}

int run_spec_read(struct declared_buffers *buffers, const char *path)
{
	(void)buffers;
	return error_set(-EINVAL, "%.100s: no file is read here", path);
}

/* ---- command lines ---- */

/* getopt(3) would go on in the middle of the last command line's word. */
static void getopt_forget(void)
{
	char *none[] = { (char *)"fuzz", NULL };

	optind = 0;
	getopt(1, none, "");
}

static void heat_try(int argc, char **argv)
{
	struct options options;
	enum options_result result;

	said = 0;
	getopt_forget();
	result = options_parse(&options, argc, argv);
	FUZZ_HOLDS((result == OPTIONS_REFUSED) == (said == 1), "heat says %u error messages and gives %d", said,
		   result);
	if (result != OPTIONS_RUN)
		return;
	FUZZ_HOLDS(options.rank < options.size && options.size <= HEAT_RANKS && speaker == options.rank,
		   "heat takes rank %u of %u", options.rank, options.size);
	FUZZ_HOLDS(options.ny <= HEAT_SIDE_MAX && options.nx <= HEAT_SIDE_MAX && options.m && options.n &&
			   options.timeout_s && (options.input || (options.m <= options.ny && options.n <= options.nx)),
		   "heat takes a grid of %ux%u with %u,%u half waves", options.ny, options.nx, options.m, options.n);
}

static void heat_environment(char **words)
{
	setenv("GPUBROKER_RANK", words[0] ? words[0] : "0", 1);
	setenv("GPUBROKER_SIZE", words[0] && words[1] ? words[1] : "4", 1);
}

static void run_try(int argc, char **argv)
{
	struct run_options options;
	int result;

	getopt_forget();
	result = run_options_parse(&options, argc, argv);
	if (result < 0)
		fuzz_check_message();
	FUZZ_HOLDS(result <= 1 && (result || *options.command), "broker-run gives %d", result);
	if (result)
		return;
	FUZZ_HOLDS(options.workers && options.workers <= RUN_WORKERS_MAX && !instance_check(options.broker.instance) &&
			   !device_check(options.broker.device),
		   "broker-run takes %u workers, '%s', '%s'", options.workers, options.broker.instance,
		   options.broker.device);
	for (unsigned i = 0; i < options.buffers.count; i++)
		FUZZ_HOLDS(!name_check(options.buffers.list[i].name) && options.buffers.list[i].amount.size &&
				   options.buffers.list[i].amount.device < DEVICE_MAX,
			   "broker-run takes the buffer '%s'", options.buffers.list[i].name);
	declared_free(&options.buffers);
}

/* ---- one text ---- */

static void size_try(const char *text)
{
	char shown[SIZE_TEXT_MAX];
	uint64_t size = 0;

	if (size_parse(text, &size))
		fuzz_check_message();
	else
		FUZZ_HOLDS(size && size <= 1ull << 62, "the size '%s' is taken", text);
	FUZZ_HOLDS(strlen(size_format(size, shown)) < sizeof shown - 1, "the size %s is cut", shown);
}

static void name_try(const char *text)
{
	static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
	char every[sizeof letters + 4];
	size_t length = strlen(text);
	bool good;

	snprintf(every, sizeof every, "%s._/-", letters);
	good = length && length < NAME_SIZE && *text != '/' && strspn(text, every) == length;
	FUZZ_HOLDS(!name_check(text) == good, "the name '%s' is taken, or not", text);
	snprintf(every, sizeof every, "%s_-", letters);
	good = length && length < INSTANCE_SIZE && strspn(text, every) == length;
	FUZZ_HOLDS(!instance_check(text) == good, "the instance '%s' is taken, or not", text);
}

static void address_try(const char *text)
{
	struct sockaddr_un sun;

	if (socket_address(text, &sun))
		fuzz_check_message();
	else
		FUZZ_HOLDS(!strcmp(text + 5, sun.sun_path), "the address '%s' becomes %s", text, sun.sun_path);
}

/* ---- */

/* Words that end in zeros; the last one may lack it. */
static int words_split(char *text, size_t size, char **words)
{
	int count = 0;

	for (size_t at = 0; at < size && count < WORDS_MAX; at += strlen(text + at) + 1)
		words[count++] = text + at;
	words[count] = NULL;
	return count;
}

static void words_try(uint8_t which, int count, char **words)
{
	char *argv[WORDS_MAX + 2] = { (char *)"fuzz" };

	memcpy(argv + 1, words, (size_t)(count + 1) * sizeof *words);
	switch (which % 4) {
	case 0:
		heat_environment((char *[]){ NULL });
		heat_try(count + 1, argv);
		break;
	case 1:
		heat_environment(words);
		heat_try(1, (char *[]){ (char *)"fuzz", NULL });
		break;
	case 2:
		run_try(count + 1, argv);
		break;
	default:
		for (int i = 0; i < count; i++) {
			size_try(words[i]);
			name_try(words[i]);
			address_try(words[i]);
			if (device_check(words[i]))
				fuzz_check_message();
		}
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *words[WORDS_MAX + 1], *text;

	if (!size)
		return 0;
	/* --help is printed: nobody reads it here */
	if (!quiet)
		quiet = freopen("/dev/null", "w", stdout);
	text = malloc(size);
	memcpy(text, data + 1, size - 1);
	text[size - 1] = 0;
	words_try(data[0], words_split(text, size - 1, words), words);
	free(text);
	return 0;
}
