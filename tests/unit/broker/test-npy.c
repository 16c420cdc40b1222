/* SPDX-License-Identifier: Apache-2.0 */
/* test-npy.c - headers of .npy files: which are read and as what, which are refused and why, and that what is made is read again. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "broker/ctl/npy.h"
#include "common/error.h"
#include "common/layout.h"

/* ---- the prefix ---- */

static int prefix(const char *bytes, size_t *begin, size_t *size)
{
	uint8_t whole[NPY_PREFIX];

	memcpy(whole, bytes, sizeof whole);
	return npy_prefix_read(whole, begin, size);
}

static void test_prefixes(void **state)
{
	size_t begin = 7, size = 7;

	(void)state;
	assert_int_equal(prefix(NPY_MAGIC "\1\0\x76\1zz", &begin, &size), 0);
	assert_true(begin == 10 && size == 0x176);
	assert_int_equal(prefix(NPY_MAGIC "\2\0\x74\1\0\0", &begin, &size), 0);
	assert_true(begin == 12 && size == 0x174);
	assert_int_equal(prefix(NPY_MAGIC "\3\0\xff\xff\0\0", &begin, &size), 0);
	assert_true(begin == 12 && size == 0xffff);
}

static void prefix_refused(const char *bytes, const char *why)
{
	size_t begin = 7, size = 7;

	assert_int_equal(prefix(bytes, &begin, &size), -EINVAL);
	assert_non_null(strstr(error_text(), why));
	assert_true(begin == 7 && size == 7);
}

static void test_refused_prefixes(void **state)
{
	(void)state;
	prefix_refused("\x93NUMPX\1\0\x76\0zz", "does not begin as");
	prefix_refused(NPY_MAGIC "\0\0\x76\0zz", "NumPy's 0.0");
	prefix_refused(NPY_MAGIC "\4\0\x76\0zz", "NumPy's 4.0");
	prefix_refused(NPY_MAGIC "\1\1\x76\0zz", "NumPy's 1.1");
	prefix_refused(NPY_MAGIC "\2\0\0\0\1\0", "has 65536 bytes");
	prefix_refused(NPY_MAGIC "\2\0\xff\xff\xff\xff", "has 4294967295 bytes");
}

/* ---- the header ---- */

static void expect(const char *header, const char *layout)
{
	char text[GPUB_LAYOUT_TEXT_MAX];
	gpub_layout found;

	if (npy_header_read(header, strlen(header), &found))
		fail_msg("%s: %s", header, error_text());
	assert_string_equal(layout_text(&found, text), layout);
}

static void test_headers(void **state)
{
	(void)state;
	expect("{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }   \n", "float32[3,4]");
	expect("{'descr':'<f4','fortran_order':False,'shape':(3,4)}", "float32[3,4]");
	expect("{ \"shape\" : ( 3L , ) , 'fortran_order' : False , \"descr\" : \"<i8\" } \r\n\t", "int64[3]");
	expect("{'descr': '|b1', 'fortran_order': False, 'shape': (), }\n", "bool[]");
	expect("{'descr': '|u1', 'fortran_order': False, 'shape': (0, 5), }\n", "uint8[0,5]");
	expect("{'descr': '<i1', 'fortran_order': False, 'shape': (1,), }\n", "int8[1]");
	expect("{'descr': '>i1', 'fortran_order': False, 'shape': (1,), }\n", "int8[1]");
	expect("{'descr': '<f2', 'fortran_order': False, 'shape': (1,), }\n", "float16[1]");
	expect("{'descr': '<f8', 'fortran_order': False, 'shape': (1,), }\n", "float64[1]");
	expect("{'descr': '<c8', 'fortran_order': False, 'shape': (1,), }\n", "complex64[1]");
	expect("{'descr': '<c16', 'fortran_order': False, 'shape': (1,), }\n", "complex128[1]");
	expect("{'descr': '<u8', 'fortran_order': False, 'shape': (1, 2, 3, 4, 5, 6, 7, 8), }\n", "uint64[1,2,3,4,5,6,7,8]");
}

static void refused(const char *header, const char *why)
{
	size_t size = strlen(header);
	char *exact = malloc(size + 1); /* a read past its end is found by valgrind and ASan */
	gpub_layout layout = { .lanes = 7 };

	assert_non_null(exact);
	memcpy(exact, header, size);
	assert_int_equal(npy_header_read(exact, size, &layout), -EINVAL);
	if (!strstr(error_text(), why))
		fail_msg("%s: %s", header, error_text());
	assert_int_equal(layout.lanes, 7);
	free(exact);
}

#define REST  ", 'fortran_order': False, 'shape': (3,), }"
#define SHAPE "{'descr': '<f4', 'fortran_order': False, 'shape': "

static void test_refused_arrays(void **state)
{
	(void)state;
	refused("{'descr': '<f4', 'fortran_order': True, 'shape': (3, 4), }", "ascontiguousarray");
	refused("{'descr': '>f4'" REST, "big-endian");
	refused("{'descr': '|f4'" REST, "of the type '|f4'");
	refused("{'descr': '<f16'" REST, "of the type '<f16'");
	refused("{'descr': '<c4'" REST, "of the type '<c4'");
	refused("{'descr': '<U2'" REST, "of the type '<U2'");
	refused("{'descr': '|O'" REST, "of the type '|O'");
	refused("{'descr': '<V2'" REST, "of the type '<V2'");
	refused("{'descr': 'f4'" REST, "of the type 'f4'");
	refused("{'descr': '<'" REST, "of the type '<'");
	refused("{'descr': ''" REST, "of the type ''");
	refused("{'descr': [('a', '<i4')]" REST, "records");
	refused(SHAPE "(1, 2, 3, 4, 5, 6, 7, 8, 9), }", "more than 8 dimensions");
	refused(SHAPE "(4611686018427387904,), }", "larger than 2^62");
	refused(SHAPE "(4294967296, 4294967296), }", "larger than 2^62");
}

static void test_damaged_headers(void **state)
{
	static const char whole[] = SHAPE "(3, 4), }";
	char part[sizeof whole];

	(void)state;
	for (size_t size = 0; size < sizeof whole - 1; size++) {
		memcpy(part, whole, size);
		part[size] = 0;
		refused(part, "its header is damaged");
	}
	refused(SHAPE "(3, 4), } x", "alone");
	refused(SHAPE "(3, 4)", "does not end");
	refused(SHAPE "(3, 4) }}", "alone");
	refused(SHAPE "3, }", "no tuple");
	refused(SHAPE "(3 4), }", "does not end");
	refused(SHAPE "(-3,), }", "no number");
	refused(SHAPE "(,), }", "no number");
	refused(SHAPE "(18446744073709551616,), }", "no number");
	refused("{'descr': '<f4', 'fortran_order': 0, 'shape': (3,), }", "neither True nor False");
	refused("{'descr': 3" REST, "no string");
	refused("{'descr': '<f\\x34'" REST, "no string");
	refused("{'descr': '<f4', 'descr': '<f4'" REST, "twice");
	refused("{'descr': '<f4', 'more': 1" REST, "'more' is unknown");
	refused("{'descr': '<f4', 'fortran_order': False}", "alone");
	refused("{}", "alone");
	refused("[]", "no dictionary");
	refused("", "no dictionary");
}

/* A zero is no blank, although strchr() finds it. */
static void test_a_zero_is_a_character(void **state)
{
	static const char header[] = SHAPE "(3, 4), }\0";
	gpub_layout layout;

	(void)state;
	assert_int_equal(npy_header_read(header, sizeof header - 1, &layout), -EINVAL);
	assert_int_equal(npy_header_read("\0{}", 3, &layout), -EINVAL);
}

/* ---- to make one ---- */

static void again(const char *text, const char *read)
{
	char made[NPY_MADE_MAX], found_text[GPUB_LAYOUT_TEXT_MAX];
	size_t size, begin, header;
	gpub_layout layout, found;

	assert_int_equal(layout_parse(text, &layout), 0);
	assert_int_equal(npy_make(&layout, made, &size), 0);
	assert_true(size % 64 == 0 && made[size - 1] == '\n');
	assert_int_equal(prefix(made, &begin, &header), 0);
	assert_true(begin + header == size);
	assert_int_equal(npy_header_read(made + begin, header, &found), 0);
	assert_string_equal(layout_text(&found, found_text), read);
	assert_true(layout_bytes(&layout) == layout_bytes(&found));
}

static void test_made_ones_are_read(void **state)
{
	static const char *const texts[] = { "bool[3]", "int8[3]", "int16[3]", "int32[3]", "int64[3]", "uint8[3]", "uint16[3]", "uint32[3]",
					     "uint64[3]", "float16[3]", "float32[3]", "float64[3]", "complex64[3]", "complex128[3]",
					     "float32[]", "float32[0]", "float32[1,2,3,4,5,6,7,8]", "uint8[4611686018427387903]" };

	(void)state;
	for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
		again(texts[i], texts[i]);
	again("f32x4[100]", "float32[100,4]");
}

static void test_longest(void **state)
{
	gpub_layout layout = { .code = GPUB_COMPLEX, .bits = 128, .lanes = 1024, .ndim = GPUB_DIMS_MAX };
	char made[NPY_MADE_MAX];
	size_t size;

	(void)state;
	for (unsigned i = 0; i < GPUB_DIMS_MAX; i++)
		layout.shape[i] = UINT64_MAX;
	assert_int_equal(npy_make(&layout, made, &size), 0);
	assert_true(size <= sizeof made);
}

static void test_what_cannot_be_made(void **state)
{
	static const char *const texts[] = { "bf16[3]", "f8e4m3[3]", "f4e2m1[3]" };
	char made[NPY_MADE_MAX];
	gpub_layout layout = { 0 };
	size_t size = 7;

	(void)state;
	assert_int_equal(npy_make(&layout, made, &size), -EINVAL);
	assert_non_null(strstr(error_text(), "no layout"));
	for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
		assert_int_equal(layout_parse(texts[i], &layout), 0);
		assert_int_equal(npy_make(&layout, made, &size), -EINVAL);
		assert_non_null(strstr(error_text(), "no such type"));
	}
	assert_true(size == 7);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_prefixes),         cmocka_unit_test(test_refused_prefixes),
		cmocka_unit_test(test_headers),          cmocka_unit_test(test_refused_arrays),
		cmocka_unit_test(test_damaged_headers),  cmocka_unit_test(test_a_zero_is_a_character),
		cmocka_unit_test(test_made_ones_are_read), cmocka_unit_test(test_longest),
		cmocka_unit_test(test_what_cannot_be_made),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
