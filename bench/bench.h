/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bench.h - samples of two sides taken in one run, and the JSON line that compares them.
 *
 * OURS is the product as a user calls it, PEER the floor or the other way to do the same. A program warms up, takes
 * samples of both sides in turn, and ends with one line a comparison:
 *
 *     {"name":..,"n":..,"p50":..,"p90":..,"p99":..,"unit":..,"peer":..,"ratio":..,"machine":..}
 *
 * p50, p90, p99 are of OURS; peer is the median of PEER (null: it has no peer), ratio p50 / peer. Samples lie in memory
 * that forked processes share with who began, so that any thread or process of the run may take them. Whatever fails
 * here ends the program with an error message: a benchmark that goes on has measured something else.
 */
#ifndef GPUB_BENCH_H
#define GPUB_BENCH_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/types.h>

enum bench_side { BENCH_OURS, BENCH_PEER };

#define BENCH_SAMPLES 65536 /* of a side; later ones are not taken */

struct bench_samples;

struct bench {
	const char           *name, *unit;
	struct bench_samples *samples; /* of both sides */
};

void bench_begin(struct bench *bench, const char *name, const char *unit);
void bench_sample(struct bench *bench, enum bench_side side, double value);

/* A round of both sides; those below 0 warm up, and are not taken. */
void bench_round(struct bench *bench, int round, double peer, double ours);

/* Prints the line, and gives the samples back. */
void bench_end(struct bench *bench);

/* CLOCK_MONOTONIC. */
uint64_t bench_now_ns(void);

/* Processor time of another process, in ns. The kernel counts it when the process stops running. */
double bench_worked_ns(pid_t pid);

/* Keeps the calling thread on one of the processors that this process may use, counted from 0 and around. */
void bench_pin(int cpu);

/* ---- a broker of the program's own ---- */

struct bench_broker {
	pid_t pid;
	pid_t serving; /* the process that serves; pid of a release before, which had no other one */
	int   in; /* its worker ends when this is closed */
	char  address[128];
};

/* Has the lines say which device it is: "host" or "cuda". */
void bench_device(const char *kind);

/*
 * Starts broker-run ($top_builddir/broker/broker-run) on that device, "host" or "cuda", puts its address where
 * gpub_connect(NULL) finds it, and has the lines say which device it was. First of all: it forks.
 */
void bench_broker_start(struct bench_broker *broker, const char *device);
void bench_broker_stop(struct bench_broker *broker);

/* Returns the child of a process that has the name, as /proc/PID/comm has it; 0: there is none. */
pid_t bench_child(pid_t parent, const char *name);

/* The same with more options of broker-run, as many as there are before a NULL; and whether it knows one. */
void bench_broker_start_with(struct bench_broker *broker, const char *device, const char *const *options);
bool bench_broker_has(const char *option);

/* ---- what cannot go on ---- */

#define bench_fail(...) (fprintf(stderr, __VA_ARGS__), fputc('\n', stderr), exit(1))

/* For a call of the library that has to work. */
#define bench_must(call) ((call) ? bench_fail("%s: %s", #call, gpub_strerror_last()) : (void)0)

#endif
