/* SPDX-License-Identifier: Apache-2.0 */
/*
 * heat.c - a worker of the heat simulation: the order of its steps, and the closing report.
 *
 * A small simulation of several processes: each worker holds its rows of the grid in two buffers that the broker owns,
 * and reads its neighbours' edge rows directly from theirs. Each uses the device that broker-run's --map gives it, or
 * the next one that the broker serves.
 *
 * A worker that fails prints why and ends at once, without gpub_disconnect(). The broker takes it for dead and ends its
 * timelines, so the other workers stop instead of waiting for its rows.
 */
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "heat.h"
#include "machines.h"

#define EDGES_PRIORITY (-1) /* a neighbour waits for them: before the blocks of the inside that are not running yet */

/* Gives options the size of the image, or refuses a size that differs. */
static int start_image(struct options *options, float **image)
{
	uint32_t ny, nx;

	*image = NULL;
	if (!options->input)
		return 0;
	if (image_read(options->input, &ny, &nx, image))
		return -1;
	if (options->ny && (options->ny != ny || options->nx != nx)) {
		heat_refuse("--size %ux%u differs from %s, which is %ux%u (rows x columns); leave --size out",
			    options->ny, options->nx, options->input, ny, nx);
		return -1;
	}
	options->ny = ny;
	options->nx = nx;
	return 0;
}

static int start_check(const struct options *options)
{
	if (options->ny >= options->size)
		return 0;
	heat_refuse("a grid of %u rows cannot be spread over %u workers; take a larger --size or fewer workers",
		    options->ny, options->size);
	return -1;
}

/* Ordinals may have gaps: devices that this process sees and the broker does not serve. */
static int choose_device(struct heat *heat)
{
	int device = (int)(heat->options.device % (unsigned)heat->devices), error;

	do
		error = gpub_set_device(heat->client, device++);
	while (error == -ENODEV && device < HEAT_DEVICES);
	return error ? heat_fail("cannot use device %d: %s", device - 1, gpub_strerror_last()) : 0;
}

static int start_client(struct heat *heat)
{
	if (gpub_connect(&heat->client, NULL))
		return heat_fail("cannot reach the broker: %s", gpub_strerror_last());
	if (gpub_device_count(heat->client, &heat->devices))
		return heat_fail("cannot count the devices: %s", gpub_strerror_last());
	if (choose_device(heat))
		return -1;
	if (gpub_stream_create_priority(heat->client, GPUB_CURRENT, EDGES_PRIORITY, &heat->edges) ||
	    gpub_stream_create(heat->client, GPUB_CURRENT, &heat->inside) ||
	    gpub_stream_create(heat->client, GPUB_CURRENT, &heat->probe))
		return heat_fail("cannot make a stream: %s", gpub_strerror_last());
	return 0;
}

static int start_kernels(struct heat *heat)
{
	if (gpub_module_open(&heat->module, heat->client, heat->options.kernels) ||
	    gpub_module_kernel(heat->module, "heat_step", &heat->kernel_step) ||
	    gpub_module_kernel(heat->module, "heat_edges", &heat->kernel_edges))
		return heat_fail("cannot load the kernels: %s", gpub_strerror_last());
	return 0;
}

/* Which rows are this worker's, and whose buffers can be acquired. */
static int start_place(struct heat *heat)
{
	heat->machines = 1;
	heat->machine = (struct machine){ 0, heat->options.size };
	if (heat->options.mpi && machines_place(heat))
		return -1;
	heat->own = field_share(heat->options.ny, heat->options.rank, heat->options.size);
	return 0;
}

/*
 * Meets the others before any step that may fail on this rank alone: from then on all hold their leases, and timelines
 * show the end of any worker. (A worker that ends before leaves no name behind, and the others wait for --timeout.)
 */
static int start(struct heat *heat, float *image, struct output *output)
{
	float *initial;
	int    result;

	heat->peers = calloc(heat->options.size, sizeof(*heat->peers));
	if (!heat->peers)
		return heat_fail("no memory for %u workers", heat->options.size);
	if (start_client(heat) || start_place(heat))
		return -1;
	initial = field_initial(&heat->options, heat->own, image);
	free(image);
	result = !initial || peers_publish(heat, initial) || peers_meet(heat) || links_open(heat);
	free(initial);
	if (result || (heat->options.rank == 0 && output_open(output, &heat->options)))
		return -1;
	return start_kernels(heat);
}

static void finish(struct heat *heat)
{
	links_close(heat);
	peers_leave(heat);
	gpub_stream_destroy(heat->edges);
	gpub_stream_destroy(heat->inside);
	gpub_stream_destroy(heat->probe);
	gpub_module_close(heat->module);
	gpub_disconnect(heat->client);
	free(heat->peers);
	if (heat->options.mpi)
		machines_end();
}

static void report_run(const struct heat *heat, bool host)
{
	const struct options *options = &heat->options;
	double                cells = (double)options->ny * options->nx, steps = (double)options->steps;
	unsigned              workers = heat->machine.count, devices = (unsigned)heat->devices;

	printf("grid:          %u x %u\n", options->ny, options->nx);
	printf("steps:         %llu\n", (unsigned long long)options->steps);
	printf("workers:       %u\n", options->size);
	if (options->mpi)
		printf("machines:      %u (%s)\n", heat->machines, options->nccl ? "NCCL" : "MPI");
	printf("devices:       %u (%s)%s\n", workers < devices ? workers : devices, host ? "host" : "cuda",
	       options->mpi ? " on the first machine" : "");
	if (options->steps) {
		printf("time per step: %.2f us\n", 1e6 * heat->seconds / steps);
		printf("cell updates:  %.4g per second\n", cells * steps / heat->seconds);
	}
}

/* Where the field began as a mode the exact result is known; an image has none. */
static int report_error(const struct options *options, const float *field)
{
	double error, bound = field_bound(options);

	if (options->input) {
		printf("initial field: %s\n", options->input);
		return 0;
	}
	error = field_error(options, field);
	if (error < 0)
		return -1;
	printf("largest error: %.3g against the closed form of mode %u,%u (rounding allows %.3g)\n", error, options->m,
	       options->n, bound);
	if (!(error <= bound))
		return heat_fail("the result is wrong: its largest error %.3g is above %.3g", error, bound);
	return 0;
}

/* Rank 0, after the other workers may end: none waits while files are written. */
static int report(const struct heat *heat, bool host, const float *field, struct output *output)
{
	const struct options *options = &heat->options;
	int                   result;

	report_run(heat, host);
	result = report_error(options, field);
	if (output_write(output, options, field))
		return -1;
	if (options->dump)
		printf("dump:          %s\n", options->dump);
	if (options->png)
		printf("picture:       %s\n", options->png);
	if (fflush(stdout))
		return heat_fail("cannot write the report to standard output");
	return result;
}

/* No exit handlers: a stream may be parked in a wait, and nothing is to run behind the failure. */
static _Noreturn void heat_die(bool mpi)
{
	fflush(NULL);
	if (mpi)
		machines_abort();
	_exit(HEAT_FAILED);
}

int main(int argc, char **argv)
{
	struct heat   heat = { 0 };
	struct output output;
	float        *image, *field;
	bool          host;
	int           result;

	switch (options_parse(&heat.options, argc, argv)) {
	case OPTIONS_DONE:
		return 0;
	case OPTIONS_REFUSED:
		return HEAT_REFUSED;
	case OPTIONS_RUN:
		break;
	}
	if (start_image(&heat.options, &image) || (heat.options.nccl && nccl_check()) ||
	    (heat.options.mpi && machines_start(&heat.options)) || start_check(&heat.options)) {
		free(image);
		return HEAT_REFUSED;
	}
	if (start(&heat, image, &output) || solver_run(&heat) || solver_gather(&heat, &field))
		heat_die(heat.options.mpi);
	host = heat.peers[heat.options.rank].buffer[0].device == GPUB_HOST;
	finish(&heat);
	result = field ? report(&heat, host, field, &output) : 0;
	free(field);
	return result ? HEAT_FAILED : 0;
}
