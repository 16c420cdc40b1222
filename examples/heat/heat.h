/* SPDX-License-Identifier: Apache-2.0 */
/*
 * heat.h - what the files of the heat example share.
 *
 * heat is one worker of a simulation: rank RANK of SIZE, which broker-run(1) sets in GPUBROKER_RANK and
 * GPUBROKER_SIZE. With --mpi those are the workers of one machine of several, and MPI counts all. The files, in the
 * order in which a run passes through them:
 *
 *   options.c   the command line and the environment
 *   image.c     the initial field from a PNG or PGM file
 *   field.c     the initial field from a formula, the exact solution, the error and its bound
 *   peers.c     the buffers of the workers on this machine: made, found and awaited by name
 *   machines*.c the workers on other machines, by MPI and NCCL: machines.h
 *   links.c     edges to and from those
 *   solver.c    the steps, and the gathering of the result on rank 0
 *   output.c    the result as raw floats and as a picture
 *   progress.c  everything that goes to stderr
 *
 * Functions that return int return 0, or -1 after they have printed an error message on stderr.
 */
#ifndef HEAT_H
#define HEAT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "gpubroker.h"

#define HEAT_R        0.2         /* of the explicit step: stable up to 0.25 */
#define HEAT_SIDE_MAX (1u << 20)  /* rows or columns of a grid, at most */
#define HEAT_RANKS    1024u       /* workers, at most */
#define HEAT_DEVICES  64          /* of one broker, at most */

enum { HEAT_FAILED = 1, HEAT_REFUSED = 2 }; /* exit statuses, beside 0 */

struct options {
	uint32_t    ny, nx; /* rows, columns; 0 until something gave them */
	uint64_t    steps;
	uint32_t    m, n;       /* half waves of the initial field, down and across */
	bool        has_mode;   /* given, not the default */
	const char *input;      /* image with the initial field, or NULL: the formula */
	const char *dump, *png; /* where the result goes, or NULL */
	const char *kernels;    /* the module, as gpub_module_open() takes it */
	unsigned    timeout_s;  /* how long to wait for another worker to show up, or for another machine */
	bool        mpi, nccl;  /* several machines; their edges by NCCL */
	unsigned    rank, size;
	unsigned    device; /* the ordinal to begin with */
};

/* The rows of one rank. */
struct share {
	uint32_t first, rows;
};

/* Leases on one worker's two buffers; client is NULL in one that is not held. */
struct peer {
	gpub_lease buffer[2];
};

/* The ranks on one machine, whose workers can acquire each other's buffers. */
struct machine {
	unsigned first, count;
};

/* A neighbour on another machine; ghost.client is NULL where there is none. */
struct link {
	unsigned   rank;
	uint32_t   row;      /* of this worker, which that one reads */
	gpub_lease ghost;    /* that one's row, for even steps and for odd */
	float     *out, *in; /* pinned, two rows each; NULL with NCCL */
	void      *nccl;     /* its communicator */
};

struct heat {
	struct options options;
	struct machine machine;
	unsigned       machines; /* that the workers are on */
	struct share   own;
	gpub_client   *client;
	void          *edges, *inside; /* streams: the first and the last row of this worker, and all between them */
	void          *probe;   /* another stream, to ask the device whether it still works */
	gpub_module   *module;
	gpub_kernel    kernel_step, kernel_edges;
	struct peer   *peers;   /* one a rank; which of them are held: peers.c */
	struct link    link[2]; /* above, below */
	bool           overlap; /* the neighbours get the edges before the rest is computed: peers_compare() */
	int            devices; /* that this process can use */
	double         seconds; /* that the steps took, on rank 0 */
};

static inline bool heat_near(const struct heat *heat, unsigned rank)
{
	return rank >= heat->machine.first && rank - heat->machine.first < heat->machine.count;
}

/* ---- options.c ---- */
enum options_result { OPTIONS_RUN, OPTIONS_DONE, OPTIONS_REFUSED };

enum options_result options_parse(struct options *options, int argc, char **argv);

/* ---- image.c ---- */

/* Reads a grayscale image into *pixels (rows * columns values in 0..1, for the caller to free). */
int image_read(const char *path, uint32_t *rows, uint32_t *columns, float **pixels);

/* ---- field.c ---- */
struct share field_share(uint32_t rows, unsigned rank, unsigned size);

/* Rows share of the initial field, by the formula, or taken from image (the whole field) if it is not NULL. */
float *field_initial(const struct options *options, struct share share, const float *image);

/*
 * The largest difference to the exact solution after options->steps, over the whole field; NAN if the field has one.
 * Negative, after a message: no memory for the comparison.
 */
double field_error(const struct options *options, const float *field);

/* An upper bound of the rounding errors of so many steps in float. */
double field_bound(const struct options *options);

/* ---- peers.c ---- */

/*
 * The values of timelines. Buffer 0 of a worker: published, with its initial field; then, once the worker has met all
 * that it needs, the number of steps whose edges are done; at last one more, with the inside of the last step. Buffer 1
 * of a machine's first rank: published; all have met; rank 0 has the result.
 */
#define PEER_PUBLISHED  1u
#define PEER_STEP(done) ((uint64_t)(done) + 2)
#define PEER_BEGIN      2u
#define PEER_GATHERED   3u

int peers_publish(struct heat *heat, const float *initial);
int peers_meet(struct heat *heat);
int peer_await(struct heat *heat, unsigned rank, unsigned which, uint64_t value, unsigned timeout_s);

/* 1: that timeline is at least value; 0: not yet, its writer lives or ended well; -1: its writer is dead. */
int peer_reached(const struct heat *heat, unsigned rank, unsigned which, uint64_t value, uint64_t *reached);

/* A machine's first rank only: until buffer 0 of each of its workers is at that value. */
int peers_everybody(struct heat *heat, uint64_t value);
void peers_leave(struct heat *heat);

/* ---- links.c ---- */
int          links_open(struct heat *heat);
void         links_close(struct heat *heat);
bool         links_any(const struct heat *heat);
const float *links_row(const struct heat *heat, const struct link *link, unsigned which);

/* Behind the kernel of the edges of step k: takes out what the other machines are to get. */
int links_queue(struct heat *heat, uint64_t k);

/*
 * Exchanges it. By MPI the edges must be done, and the call returns when the neighbours' have come; by NCCL it queues.
 */
int links_exchange(struct heat *heat, uint64_t k);

/* ---- solver.c ---- */
int solver_run(struct heat *heat);

/* After solver_run(): the whole field on rank 0, NULL elsewhere, once no worker needs this worker's buffers. */
int solver_gather(struct heat *heat, float **field);

/* ---- output.c ---- */

/* Opened before the steps, so that a path that cannot be written is known at once. */
struct output {
	FILE *dump, *png;
};

int output_open(struct output *output, const struct options *options);
int output_write(struct output *output, const struct options *options, const float *field);

/* ---- progress.c ---- */
void heat_name(unsigned rank); /* before anything else here: who speaks */
int heat_fail(const char *format, ...) __attribute__((format(printf, 1, 2)));
void heat_refuse(const char *format, ...) __attribute__((format(printf, 1, 2)));
void progress_show(const struct options *options, uint64_t done, double seconds);
void progress_end(void);
double heat_now(void); /* seconds on a clock that never jumps */
void heat_nap(double seconds);

#endif
