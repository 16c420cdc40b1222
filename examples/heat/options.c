/* SPDX-License-Identifier: Apache-2.0 */
/*
 * options.c - the command line and the environment of a worker.
 *
 * Owns the table of options, which feeds the parser and --help alike. It checks everything that can be
 * checked without a broker or a file, and never touches either.
 */
#include <errno.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>

#include "heat.h"

static int take_size(struct options *options, const char *text);
static int take_steps(struct options *options, const char *text);
static int take_mode(struct options *options, const char *text);
static int take_timeout(struct options *options, const char *text);
static int take_mpi(struct options *options, const char *text);
static int take_nccl(struct options *options, const char *text);

/* How an option is taken: a string kept as it is (offset), or a function that reads it. */
static const struct {
	const char *name, *value, *initial, *help;
	int (*take)(struct options *options, const char *text);
	size_t offset;
} table[] = {
	{ "size", "NY[xNX]", "512", "rows and columns of the grid", take_size, 0 },
	{ "steps", "N", "1000", "time steps", take_steps, 0 },
	{ "mode", "M,N", "1,1", "half waves of the initial field, down and across", take_mode, 0 },
	{ "input", "FILE", NULL, "initial field: a grayscale PNG or PGM; gives the size", NULL,
	  offsetof(struct options, input) },
	{ "dump", "FILE", NULL, "write the result as raw little-endian float32, row by row", NULL,
	  offsetof(struct options, dump) },
	{ "png", "FILE", NULL, "write the result as a picture in colour", NULL, offsetof(struct options, png) },
	{ "kernels", "MODULE", "kernels", "the module of kernels, without its ending", NULL,
	  offsetof(struct options, kernels) },
	{ "timeout", "SECONDS", "20", "wait that long for another worker to appear, or another machine", take_timeout,
	  0 },
	{ "mpi", NULL, NULL, "the workers are on several machines: mpirun broker-run --join -- heat --mpi", take_mpi,
	  0 },
	{ "nccl", NULL, NULL, "the same, with the edges between machines by NCCL", take_nccl, 0 },
	{ "help", NULL, NULL, "show this and exit", NULL, 0 },
};

#define TABLE_SIZE (sizeof(table) / sizeof(table[0]))

/* A whole decimal number in low..high up to the character stop; *end is set behind it. */
static int take_number(const char *text, char stop, uint64_t low, uint64_t high, uint64_t *value, const char **end)
{
	unsigned long long number;
	char              *after;

	if (*text < '0' || *text > '9')
		return -1;
	errno = 0;
	number = strtoull(text, &after, 10);
	if (errno || (*after != '\0' && *after != stop) || number < low || number > high)
		return -1;
	*value = number;
	*end = *after ? after + 1 : after;
	if (*after && !**end)
		return -1;
	return 0;
}

static int take_size(struct options *options, const char *text)
{
	uint64_t    ny, nx;
	const char *rest;

	if (take_number(text, 'x', 1, HEAT_SIDE_MAX, &ny, &rest))
		return -1;
	nx = ny;
	if (*rest && take_number(rest, '\0', 1, HEAT_SIDE_MAX, &nx, &rest))
		return -1;
	options->ny = (uint32_t)ny;
	options->nx = (uint32_t)nx;
	return 0;
}

static int take_steps(struct options *options, const char *text)
{
	const char *rest;

	return take_number(text, '\0', 0, 1000000000000ull, &options->steps, &rest);
}

static int take_mode(struct options *options, const char *text)
{
	uint64_t    m, n;
	const char *rest;

	if (take_number(text, ',', 1, HEAT_SIDE_MAX, &m, &rest) || !*rest)
		return -1;
	if (take_number(rest, '\0', 1, HEAT_SIDE_MAX, &n, &rest))
		return -1;
	options->m = (uint32_t)m;
	options->n = (uint32_t)n;
	options->has_mode = true;
	return 0;
}

static int take_timeout(struct options *options, const char *text)
{
	uint64_t    seconds;
	const char *rest;

	if (take_number(text, '\0', 1, 86400, &seconds, &rest))
		return -1;
	options->timeout_s = (unsigned)seconds;
	return 0;
}

static int take_mpi(struct options *options, const char *text)
{
	(void)text;
	options->mpi = true;
	return 0;
}

static int take_nccl(struct options *options, const char *text)
{
	options->nccl = true;
	return take_mpi(options, text);
}

static void options_help(void)
{
	char left[40];

	puts("Usage: heat [OPTION]...\n"
	     "One worker of a heat simulation whose grid is spread over all of them; start it with, for example,\n"
	     "  broker-run -n 4 -- heat --size 1024 --steps 2000 --png heat.png\n");
	for (size_t i = 0; i < TABLE_SIZE; i++) {
		snprintf(left, sizeof(left), "--%s%s%s", table[i].name, table[i].value ? " " : "",
			 table[i].value ? table[i].value : "");
		printf("  %-20s %s", left, table[i].help);
		printf(table[i].initial ? " (default %s)\n" : "\n", table[i].initial);
	}
	puts("\n"
	     "The environment gives GPUBROKER (the broker's socket), GPUBROKER_RANK and GPUBROKER_SIZE, and with\n"
	     "GPUBROKER_DEVICE the device to begin with; broker-run sets them. Without rank and size this is the only\n"
	     "worker. Exit status: 0 right, 1 failed or wrong, 2 refused.");
}

static int options_environment(struct options *options)
{
	const char *rank = getenv("GPUBROKER_RANK"), *size = getenv("GPUBROKER_SIZE"),
		   *device = getenv("GPUBROKER_DEVICE"), *rest;
	uint64_t    value = 0, count = 1, ordinal;

	if (!rank != !size || (size && take_number(size, '\0', 1, HEAT_RANKS, &count, &rest)) ||
	    (rank && take_number(rank, '\0', 0, count - 1, &value, &rest))) {
		heat_refuse("GPUBROKER_RANK and GPUBROKER_SIZE must be a rank and a number of workers from 1 to %u, or "
			    "both absent; start heat with broker-run",
			    HEAT_RANKS);
		return -1;
	}
	ordinal = value;
	if (device && take_number(device, '\0', 0, HEAT_DEVICES - 1, &ordinal, &rest)) {
		heat_refuse("GPUBROKER_DEVICE is '%.40s', which is no device's number", device);
		return -1;
	}
	options->rank = (unsigned)value;
	options->device = (unsigned)ordinal;
	options->size = (unsigned)count;
	heat_name(options->rank);
	return 0;
}

static int options_take(struct options *options, size_t i, const char *text)
{
	if (!table[i].take) {
		if (!*text) {
			heat_refuse("--%s: the name is empty", table[i].name);
			return -1;
		}
		memcpy((char *)options + table[i].offset, &text, sizeof(text));
	} else if (table[i].take(options, text)) {
		heat_refuse("--%s %s: not of the form %s, or out of range; see heat --help", table[i].name, text,
			    table[i].value);
		return -1;
	}
	return 0;
}

static void options_defaults(struct options *options)
{
	*options = (struct options){ .steps = 1000, .m = 1, .n = 1, .kernels = "kernels", .timeout_s = 20 };
}

/* Checks of several options together. */
static int options_check(struct options *options)
{
	if (options->input && options->has_mode) {
		heat_refuse("--input and --mode both give the initial field; give one of them");
		return -1;
	}
	if (!options->input && !options->ny)
		options->ny = options->nx = 512;
	if (!options->input && (options->m > options->ny || options->n > options->nx)) {
		heat_refuse("--mode %u,%u has more half waves than the grid of %ux%u has points; give at most that "
			    "many",
			    options->m, options->n, options->ny, options->nx);
		return -1;
	}
	return 0;
}

static void options_getopt_table(struct option *list)
{
	memset(list, 0, (TABLE_SIZE + 1) * sizeof(*list));
	for (size_t i = 0; i < TABLE_SIZE; i++)
		list[i] = (struct option){ table[i].name, table[i].value ? required_argument : no_argument, NULL,
					   (int)(256 + i) };
}

enum options_result options_parse(struct options *options, int argc, char **argv)
{
	struct option list[TABLE_SIZE + 1];
	int           found;

	options_defaults(options);
	options_getopt_table(list);
	if (options_environment(options))
		return OPTIONS_REFUSED;
	opterr = 0;
	while ((found = getopt_long(argc, argv, ":", list, NULL)) != -1) {
		if (found == ':' || found == '?') {
			heat_refuse("%s: %s; see heat --help", argv[optind - 1],
				    found == ':' ? "this option needs a value" : "no such option");
			return OPTIONS_REFUSED;
		}
		if (!table[found - 256].value && !table[found - 256].take) {
			if (options->rank == 0)
				options_help();
			return OPTIONS_DONE;
		}
		if (options_take(options, (size_t)found - 256, optarg))
			return OPTIONS_REFUSED;
	}
	if (optind < argc) {
		heat_refuse("%s: heat takes options only; see heat --help", argv[optind]);
		return OPTIONS_REFUSED;
	}
	return options_check(options) ? OPTIONS_REFUSED : OPTIONS_RUN;
}
