/* SPDX-License-Identifier: Apache-2.0 */
/*
 * say.h - what the lifetime examples share: how a worker begins and ends, and its output.
 *
 * Each example prints a line for each step that it tries, "[RANK] what was tried: what happened", and ends with its
 * verdict. must() wraps steps that the example needs to go on; expect() and check() wrap what it shows. A worker whose
 * must() fails ends at once, without gpub_disconnect(): the others see that it died.
 *
 * Owns the worker's connection, stream and module. May be used from several threads; never calls CUDA.
 */
#ifndef LIFETIME_SAY_H
#define LIFETIME_SAY_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "gpubroker.h"

#define PATIENCE_MS 20000 /* no step of an example takes longer, even where many share a processor */
#define NAME_ROOM   96

struct worker {
	unsigned     rank, size; /* from broker-run; 0 of 1 without it */
	gpub_client *client;
	void        *stream;
	gpub_module *module; /* "kernels"; NULL once it was closed */
};

/* Connects to the broker, makes a stream, loads the kernels. The first worker prints the question. */
void worker_begin(struct worker *worker, const char *question);

/* Gives back what worker_begin() took, prints the verdict, and is what main() returns: 0 or 1. */
int worker_end(struct worker *worker);

/* One line. */
__attribute__((format(printf, 1, 2))) void say(const char *format, ...);

/* A part of the example that the others rest on: ends the program unless result is 0. */
void must(int result, const char *what);

/* A step that must return wanted, 0 or a negative errno. Prints the result and counts it. */
void expect(int result, int wanted, const char *what);

/* A condition that must hold. Prints it and counts it. */
__attribute__((format(printf, 2, 3))) void check(bool good, const char *format, ...);

/* A buffer of that name, on the current device, held for reading and writing. The buffer ends with this process. */
gpub_lease make_buffer(struct worker *worker, const char *name, uint64_t size, unsigned flags);

/* Polls a timeline until it has reached value. Ends the program if its writer died, or after a timeout. */
void await_value(const gpub_lease *lease, uint64_t value, const char *whose);

/* Polls a buffer until so many sessions map it. False after a timeout. */
bool await_grants(gpub_client *client, const char *name, unsigned grants);

/* The 8-byte word at ptr in a leased buffer, fetched in stream order. */
uint64_t fetch_word(struct worker *worker, const void *ptr);

double now_seconds(void);
void   nap_ms(unsigned milliseconds);

#endif
