/* SPDX-License-Identifier: Apache-2.0 */
/*
 * kernels.c - each kernel of the module against plain C, bit for bit, on the device of the broker that started it.
 *
 * Started by kernels.sh under broker-run, on the host device and on CUDA: the expected bytes are made by the same code
 * here, so that both devices agree with each other as well. Prints TAP. The references are written for the
 * eye, one operation a line; volatile keeps the compiler from fusing them.
 */
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "gpubroker.h"
#include "kernels/kernels.h"

#define ROOM (1u << 22) /* bytes of a buffer */

static gpub_client *client;
static gpub_module *module;
static void        *stream;
static gpub_lease   lease[4];
static int          points;

static void must(int result, const char *what)
{
	if (result == 0)
		return;
	printf("Bail out! %s: %s\n", what, gpub_strerror_last());
	exit(1);
}

static void point(bool good, const char *text)
{
	printf("%sok %d - %s\n", good ? "" : "not ", ++points, text);
}

static void put(unsigned to, const void *from, size_t size)
{
	must(gpub_copy_on(client, lease[to].ptr, from, size, stream), "copy to the device");
	must(gpub_stream_sync(stream), "copy to the device");
}

static void get(void *to, unsigned from, size_t size)
{
	must(gpub_copy_on(client, to, lease[from].ptr, size, stream), "copy from the device");
	must(gpub_stream_sync(stream), "copy from the device");
}

static void launch(const char *symbol, const gpub_launch_config *config, void **args)
{
	gpub_kernel kernel;

	must(gpub_module_kernel(module, symbol, &kernel), symbol);
	must(gpub_launch(kernel, config, args), symbol);
	must(gpub_stream_sync(stream), symbol);
}

/* ---- data ---- */

static uint64_t noise_state = 1;

static uint32_t noise(void)
{
	return (uint32_t)(checksum_word(0, noise_state++) >> 32);
}

/* Floats of all sizes, some of them subnormal: a device that flushes those gives other bits. */
static float noise_float(void)
{
	int power = noise() % 8 == 0 ? -140 + (int)(noise() % 20) : (int)(noise() % 6) - 3;

	return ldexpf((float)(int32_t)noise() / 2147483648.0f, power);
}

static float *noise_floats(size_t count)
{
	float *values = malloc(count * sizeof(*values));

	for (size_t i = 0; values && i < count; i++)
		values[i] = noise_float();
	return values;
}

/* ---- heat_step ---- */

static float heat_reference(float u, float north, float south, float west, float east, float r)
{
	volatile float vertical = north + south, horizontal = west + east;
	volatile float sum = vertical + horizontal, four = 4.0f * u;
	volatile float difference = sum - four;
	volatile float change = r * difference;

	return u + change;
}

static float heat_at(const float *now, const float *above, const float *below, uint32_t rows, uint32_t columns,
		     int64_t i, int64_t j)
{
	if (j < 0 || j >= columns)
		return 0;
	if (i < 0)
		return above ? above[j] : 0;
	if (i >= rows)
		return below ? below[j] : 0;
	return now[i * columns + j];
}

static void heat_expect(float *next, const float *now, const float *above, const float *below, uint32_t rows,
			uint32_t columns, float r)
{
	for (int64_t i = 0; i < rows; i++)
		for (int64_t j = 0; j < columns; j++)
			next[i * columns + j] = heat_reference(heat_at(now, above, below, rows, columns, i, j),
							       heat_at(now, above, below, rows, columns, i - 1, j),
							       heat_at(now, above, below, rows, columns, i + 1, j),
							       heat_at(now, above, below, rows, columns, i, j - 1),
							       heat_at(now, above, below, rows, columns, i, j + 1), r);
}

/* Buffer 0: next, 1: now, 2: the rows above and below. */
static bool heat_agrees(uint32_t rows, uint32_t columns, bool has_above, bool has_below, bool tiny_grid)
{
	size_t             cells = (size_t)rows * columns;
	float             *now = noise_floats(cells), *edges = noise_floats(2 * (size_t)columns), r = 0.2f;
	float             *expected = malloc(cells * sizeof(float)), *found = malloc(cells * sizeof(float));
	float             *above = has_above ? lease[2].ptr : NULL;
	float             *below = has_below ? (float *)lease[2].ptr + columns : NULL;
	gpub_launch_config config = tiny_grid ? single_grid(stream) : heat_grid(rows, columns, stream);
	void              *args[] = { &lease[0].ptr, &lease[1].ptr, &above, &below, &rows, &columns, &r };
	bool               same;

	put(1, now, cells * sizeof(float));
	put(2, edges, 2 * columns * sizeof(float));
	launch("heat_step", &config, args);
	get(found, 0, cells * sizeof(float));
	heat_expect(expected, now, has_above ? edges : NULL, has_below ? edges + columns : NULL, rows, columns, r);
	same = !memcmp(expected, found, cells * sizeof(float));
	free(now);
	free(edges);
	free(expected);
	free(found);
	return same;
}

/* heat_edges writes the first row and the last, and nothing between them. */
static bool edges_agree(uint32_t rows, uint32_t columns, bool has_neighbours)
{
	size_t             cells = (size_t)rows * columns, row = columns * sizeof(float);
	float             *now = noise_floats(cells), *outside = noise_floats(2 * (size_t)columns), r = 0.2f;
	float             *expected = malloc(cells * sizeof(float)), *found = noise_floats(cells);
	float             *above = has_neighbours ? lease[2].ptr : NULL;
	float             *below = has_neighbours ? (float *)lease[2].ptr + columns : NULL;
	gpub_launch_config config = heat_grid(2, columns, stream);
	void              *args[] = { &lease[0].ptr, &lease[1].ptr, &above, &below, &rows, &columns, &r };
	bool               same;

	heat_expect(expected, now, has_neighbours ? outside : NULL, has_neighbours ? outside + columns : NULL, rows,
		    columns, r);
	if (rows > 2)
		memcpy(expected + columns, found + columns, (rows - 2) * row);
	put(0, found, cells * sizeof(float));
	put(1, now, cells * sizeof(float));
	put(2, outside, 2 * row);
	launch("heat_edges", &config, args);
	get(found, 0, cells * sizeof(float));
	same = !memcmp(expected, found, cells * sizeof(float));
	free(now);
	free(outside);
	free(expected);
	free(found);
	return same;
}

static void test_heat(void)
{
	static const uint32_t sides[][2] = { { 1, 1 },   { 1, 7 },    { 7, 1 },    { 2, 2 },    { 8, 128 },
					     { 9, 129 }, { 37, 53 },  { 16, 300 }, { 257, 31 }, { 600, 700 } };
	bool                  good = true;

	for (size_t i = 0; i < sizeof(sides) / sizeof(sides[0]); i++)
		for (int edges = 0; edges < 4; edges++)
			good = heat_agrees(sides[i][0], sides[i][1], edges & 1, edges & 2, false) && good;
	point(good, "heat_step gives the bits of plain C, with and without neighbours");
	point(heat_agrees(37, 53, true, true, true), "heat_step is right on a grid of one thread");
	good = true;
	for (size_t i = 0; i < sizeof(sides) / sizeof(sides[0]); i++)
		for (int neighbours = 0; neighbours < 2; neighbours++)
			good = edges_agree(sides[i][0], sides[i][1], neighbours) && good;
	point(good,
	      "heat_edges gives the bits of heat_step in the first row and the last, and leaves the others alone");
}

/* ---- arrays ---- */

static void test_axpy(void)
{
	uint64_t           count = 100003;
	float *x = noise_floats(count), *y = noise_floats(count), *found = malloc(count * sizeof(float)), a = 0.7f;
	gpub_launch_config config = linear_grid(count, stream);
	void              *args[] = { &lease[0].ptr, &lease[1].ptr, &a, &count };

	put(0, y, count * sizeof(float));
	put(1, x, count * sizeof(float));
	launch("axpy", &config, args);
	get(found, 0, count * sizeof(float));
	for (uint64_t i = 0; i < count; i++) {
		volatile float product = a * x[i];

		y[i] = product + y[i];
	}
	point(!memcmp(y, found, count * sizeof(float)), "axpy gives the bits of plain C");
	free(x);
	free(y);
	free(found);
}

/* Also that the word behind the last one stays. */
static void test_fill(void)
{
	uint64_t           count = 70001, wrong = 0;
	uint32_t           before = 0x11111111, value = 0xdeadbeef, *found = calloc(count + 1, sizeof(*found));
	gpub_launch_config config = linear_grid(count + 1, stream);
	void              *args[] = { &lease[0].ptr, &before, &count };

	count++;
	launch("fill", &config, args);
	count--;
	args[1] = &value;
	launch("fill", &config, args);
	get(found, 0, (count + 1) * sizeof(*found));
	for (uint64_t i = 0; i < count; i++)
		wrong += found[i] != value;
	point(wrong == 0 && found[count] == before, "fill fills its words and no more");
	free(found);
}

/* Words 0 to count - 1 as stamps of that round; what stamp_check finds in count + 1 words. */
static void stamp_both(uint64_t round, uint64_t count, uint64_t verdict[4])
{
	uint64_t           more = count + 1;
	gpub_launch_config config = linear_grid(count, stream);
	void              *write[] = { &lease[0].ptr, &round, &count };
	void              *check[] = { &lease[1].ptr, &lease[0].ptr, &round, &more };

	memset(verdict, 0, 4 * sizeof(*verdict));
	put(1, verdict, 4 * sizeof(*verdict));
	launch("stamp", &config, write);
	launch("stamp_check", &config, check);
	get(verdict, 1, 4 * sizeof(*verdict));
}

static void test_stamp(void)
{
	uint64_t  count = 70001, round = 3, behind = stamp_word(round, count), wrong = 0, verdict[4];
	uint64_t *found = malloc((count + 1) * sizeof(*found));

	memset(found, 0x5a, (count + 1) * sizeof(*found));
	found[count] = behind;
	put(0, found, (count + 1) * sizeof(*found));
	stamp_both(round, count, verdict);
	get(found, 0, (count + 1) * sizeof(*found));
	for (uint64_t i = 0; i <= count; i++)
		wrong += found[i] != (round << 32 | i);
	point(wrong == 0, "stamp writes round and index, and no more words than it is told");
	point(!verdict[0] && !verdict[1], "stamp_check finds nothing where every word is its round's");
	stamp_both(round + 1, count, verdict);
	point(verdict[0] == 1 && verdict[1] == round + 1 && verdict[2] == count && verdict[3] == behind,
	      "stamp_check finds the one word of an older round, and says which");
	free(found);
}

static uint64_t checksum_expect(const uint8_t *data, uint64_t size)
{
	uint64_t sum = 0;

	for (uint64_t i = 0; i < size; i += 8) {
		uint64_t word = 0;

		for (uint64_t j = i; j < size && j < i + 8; j++)
			word |= (uint64_t)data[j] << (8 * (j - i));
		sum += checksum_word(word, i / 8);
	}
	return sum;
}

static bool checksum_agrees(const uint8_t *data, uint64_t size)
{
	uint64_t           zero = 0, found;
	gpub_launch_config config = linear_grid(size / 8 + 1, stream);
	void              *args[] = { &lease[1].ptr, &lease[0].ptr, &size };

	put(1, &zero, sizeof(zero));
	launch("checksum", &config, args);
	get(&found, 1, sizeof(found));
	return found == checksum_expect(data, size);
}

static void test_checksum(void)
{
	uint8_t *data = malloc(ROOM);
	bool     good = true;

	for (size_t i = 0; i < ROOM; i++)
		data[i] = (uint8_t)noise();
	put(0, data, ROOM);
	for (uint64_t size = 0; size < 34; size++)
		good = checksum_agrees(data, size) && good;
	good = checksum_agrees(data, ROOM - 3) && checksum_agrees(data, ROOM) && good;
	point(good, "checksum gives the sum of plain C for every length");
	data[12345] ^= 1;
	point(!checksum_agrees(data, ROOM), "checksum notices one bit");
	free(data);
}

static void test_pack(void)
{
	uint64_t  rows = 61, columns = 17, stride = 40, size = rows * stride * sizeof(uint32_t);
	uint32_t *strided = malloc(size), *found = malloc(size), *packed = malloc(size);
	void     *pack[] = { &lease[1].ptr, &lease[0].ptr, &rows, &columns, &stride };
	void     *unpack[] = { &lease[2].ptr, &lease[1].ptr, &rows, &columns, &stride };
	uint64_t  wrong = 0, count = rows * columns;

	gpub_launch_config config = linear_grid(count, stream);

	for (uint64_t i = 0; i < rows * stride; i++)
		strided[i] = noise();
	put(0, strided, size);
	launch("pack_rows", &config, pack);
	get(packed, 1, count * sizeof(uint32_t));
	for (uint64_t i = 0; i < count; i++)
		wrong += packed[i] != strided[i / columns * stride + i % columns];
	point(wrong == 0, "pack_rows gathers the rows");

	memset(found, 0x5a, size);
	put(2, found, size);
	launch("unpack_rows", &config, unpack);
	get(found, 2, size);
	for (uint64_t i = 0; i < rows * stride; i++)
		wrong += found[i] != (i % stride < columns ? strided[i] : 0x5a5a5a5a);
	point(wrong == 0, "unpack_rows spreads them again and leaves the gaps");
	free(strided);
	free(found);
	free(packed);
}

/* ---- lifetime ---- */

static double seconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static void test_late_write(void)
{
	uint64_t           value = 0x0123456789abcdef, milliseconds = 120, found = 0;
	uint64_t          *last = (uint64_t *)((char *)lease[3].ptr + ROOM) - 1;
	gpub_launch_config config = single_grid(stream);
	void              *args[] = { &last, &value, &milliseconds };
	double             began = seconds(), took;

	launch("late_write", &config, args);
	took = seconds() - began;
	must(gpub_copy_on(client, &found, last, sizeof(found), stream), "copy from the device");
	must(gpub_stream_sync(stream), "copy from the device");
	point(found == value, "late_write writes");
	point(took > 0.11 && took < 5, "late_write is late");
}

static void test_managed(void)
{
	uint64_t           amount = 3, *counter = NULL;
	size_t             size = 0;
	gpub_launch_config config = single_grid(stream);
	void              *args[] = { &amount };

	must(gpub_module_managed(module, "kernels_managed_counter", (void **)&counter, &size), "the managed variable");
	for (int i = 0; i < 5; i++)
		launch("managed_increment", &config, args);
	point(size == sizeof(*counter) && *counter == 15, "managed_increment adds to the managed variable");
}

static void set_up(void)
{
	gpub_spec spec = GPUB_SPEC_INIT;
	char      name[16];

	must(gpub_connect(&client, NULL), "connect");
	must(gpub_stream_create(client, GPUB_CURRENT, &stream), "make a stream");
	must(gpub_module_open(&module, client, "kernels"), "load the kernels");
	spec.size = ROOM;
	spec.device = GPUB_CURRENT;
	for (unsigned i = 0; i < 4; i++) {
		snprintf(name, sizeof(name), "kernels/%u", i);
		must(gpub_create(client, name, &spec), name);
		must(gpub_acquire(client, name, GPUB_READ | GPUB_WRITE, 0, &lease[i]), name);
		must(gpub_unlink(client, name), name);
	}
}

int main(void)
{
	setvbuf(stdout, NULL, _IOLBF, 0);
	set_up();
	test_heat();
	test_axpy();
	test_fill();
	test_checksum();
	test_pack();
	test_stamp();
	test_late_write();
	test_managed();
	printf("1..%d\n", points);
	for (unsigned i = 0; i < 4; i++)
		gpub_return(&lease[i]);
	gpub_stream_destroy(stream);
	must(gpub_module_close(module), "close the module");
	gpub_disconnect(client);
	return 0;
}
