/* SPDX-License-Identifier: Apache-2.0 */
/*
 * layouts.c - a buffer that says what it holds: as it is created, asked about and acquired, also by programs that were
 * built before there were layouts.
 */
#include <errno.h>
#include <stddef.h>
#include <string.h>

#include "refusals.h"

#define OLD_SPEC        offsetof(gpub_spec, layout)
#define OLD_INFO        offsetof(gpub_info, layout)
#define OLD_EXPECTATION offsetof(gpub_expectation, layout)

static int create(const char *name, uint64_t size, const char *layout)
{
	gpub_spec spec = GPUB_SPEC_INIT;
	int error = layout ? gpub_layout_parse(layout, &spec.layout) : 0;

	spec.size = size;
	return error ? error : gpub_create(client, name, &spec);
}

/* What a lease and a stat say alike; "" where they differ. */
static const char *told(const char *name)
{
	static char text[GPUB_LAYOUT_TEXT_MAX];
	gpub_info info = { .struct_size = sizeof info };
	gpub_layout layout;
	gpub_lease l;

	if (gpub_stat(client, name, &info) || gpub_acquire(client, name, GPUB_READ, 0, &l))
		return "";
	if (gpub_lease_layout(&l, &layout) || memcmp(&layout, &info.layout, sizeof layout) ||
	    gpub_layout_text(&layout, text) || gpub_return(&l))
		return "";
	return text;
}

static int do_tell(const struct order *order)
{
	gpub_info info = { .struct_size = sizeof info };
	gpub_layout layout;
	gpub_lease l;

	(void)order;
	REFUSE(gpub_lease_layout(NULL, &layout), -EINVAL);
	ALSO(!create("u", 0, "f32[1024,1024]") && !strcmp(told("u"), "float32[1024,1024]"));
	ALSO(!gpub_stat(client, "u", &info) && info.size == 4 << 20);
	ALSO(!create("plain", 4096, NULL) && !strcmp(told("plain"), "bytes"));
	ALSO(!create("empty", 0, "i8[0]") && !strcmp(told("empty"), "int8[0]"));
	ALSO(!create("larger", 4096, "bf16[7]") && !strcmp(told("larger"), "bfloat16[7]"));
	/* a range that another buffer had */
	ALSO(!gpub_unlink(client, "larger") && !create("larger", 4096, NULL) && !strcmp(told("larger"), "bytes"));
	ALSO(!gpub_acquire(client, "u", GPUB_READ, 0, &l) && !gpub_return(&l));
	REFUSE(gpub_lease_layout(&l, &layout), -ESTALE);
	return verdict();
}

static int do_refuse(const struct order *order)
{
	gpub_spec spec = GPUB_SPEC_INIT;
	gpub_layout layout;

	(void)order;
	REFUSE(create("bad", 100, "f32[26]"), -EINVAL);
	ALSO(strstr(gpub_strerror_last(), "needs 104 bytes"));
	REFUSE(create("bad", 0, NULL), -EINVAL);
	REFUSE(gpub_layout_parse("f32[3", &layout), -EINVAL);
	REFUSE(gpub_layout_parse("f32[3]", NULL), -EINVAL);
	spec.size = 4096;
	memset(&spec.layout, 0xff, sizeof spec.layout);
	REFUSE(gpub_create(client, "bad", &spec), -EINVAL);
	REFUSE(gpub_layout_text(&spec.layout, (char *)&spec), -EINVAL);
	return verdict();
}

static int acquire_as(const char *name, const char *layout, bool any)
{
	gpub_expectation expected = GPUB_EXPECTATION_INIT;
	gpub_lease l;
	int error = gpub_layout_parse(layout, &expected.layout);

	if (any)
		expected.layout.shape[0] = GPUB_ANY_EXTENT;
	if (!error)
		error = gpub_acquire_as(client, name, &expected, GPUB_READ, 0, &l);
	return error ? error : gpub_return(&l);
}

static int do_expect(const struct order *order)
{
	gpub_expectation expected = GPUB_EXPECTATION_INIT;
	gpub_lease l = { .token = 77 };

	(void)order;
	ALSO(!create("e", 0, "f64[512]"));
	/* the first one maps it, the later ones find it mapped */
	for (int i = 0; i < 2; i++) {
		REFUSE(acquire_as("e", "f32[1024]", false), -EMEDIUMTYPE);
		ALSO(!strcmp(gpub_strerror_last(), "'e' is float64[512], float32[1024] was expected"));
	}
	REFUSE(acquire_as("e", "f64[512,1]", false), -EMEDIUMTYPE);
	ALSO(!acquire_as("e", "f64[512]", false) && !acquire_as("e", "f64[1]", true));
	REFUSE(acquire_as("plain", "f64[512]", false), -EMEDIUMTYPE);
	ALSO(!strcmp(gpub_strerror_last(), "'plain' is bytes, float64[512] was expected"));
	expected.layout.lanes = 1;
	expected.layout.ndim = 9;
	REFUSE(gpub_acquire_as(client, "e", &expected, GPUB_READ, 0, &l), -EINVAL);
	ALSO(l.token == 77);
	return verdict();
}

/* Members that the program does not have are neither read nor written. */
static int do_old(const struct order *order)
{
	gpub_expectation expected = { .struct_size = OLD_EXPECTATION, .owner = GPUB_ANY_USER };
	gpub_info info = { .struct_size = OLD_INFO };
	gpub_spec spec = GPUB_SPEC_INIT;
	gpub_layout untouched;
	gpub_lease l;

	(void)order;
	memset(&untouched, 0xee, sizeof untouched);
	spec.struct_size = OLD_SPEC;
	spec.size = 4096;
	spec.layout = info.layout = expected.layout = untouched;
	ALSO(!gpub_create(client, "old", &spec) && !strcmp(told("old"), "bytes"));
	ALSO(!gpub_stat(client, "e", &info) && info.size == 4096 && !strcmp(info.name, "e"));
	ALSO(info.struct_size == OLD_INFO && !memcmp(&info.layout, &untouched, sizeof untouched));
	ALSO(!gpub_acquire_as(client, "e", &expected, GPUB_READ, 0, &l) && !gpub_return(&l));
	spec.struct_size = OLD_SPEC + 8;
	REFUSE(gpub_create(client, "older", &spec), -EINVAL);
	info.struct_size = OLD_INFO - 8;
	REFUSE(gpub_stat(client, "e", &info), -EINVAL);
	return verdict();
}

int main(void)
{
	struct broker_process broker;
	struct puppet a;

	harness_begin("layouts", 60);
	broker_start(&broker, "host");
	puppet_start(&a, &broker);
	ask(&a, do_tell);
	POINT(!a.last.result, "a lease and a stat tell the layout that a buffer was created with (line %d)",
	      a.last.result);
	ask(&a, do_refuse);
	POINT(!a.last.result, "a layout that is none, or does not fit into the buffer, is refused (line %d)",
	      a.last.result);
	ask(&a, do_expect);
	POINT(!a.last.result, "an acquire of another layout than expected is refused, and both are named (line %d)",
	      a.last.result);
	ask(&a, do_old);
	POINT(!a.last.result, "programs that were built before there were layouts go on (line %d)", a.last.result);
	puppet_end(&a);
	broker_end(&broker);
	return harness_end();
}
