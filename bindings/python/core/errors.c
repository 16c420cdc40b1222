/* SPDX-License-Identifier: Apache-2.0 */
/* errors.c - see errors.h */
#include "errors.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Bytes of a message: the library's are shorter, and a Python word has at most twice the letters of its C word. */
#define TEXT_MAX 1024

/* ---- Python's words ---- */

static const struct {
	const char *c, *python;
} words[] = {
	{ "GPUB_READ", "'r'" },
	{ "GPUB_WRITE", "'w'" },
	{ "GPUB_DEDICATED", "dedicated=True" },
	{ "GPUB_EPHEMERAL", "ephemeral=True" },
	{ "GPUB_TIMELINE", "timeline=True" },
	{ "GPUB_SAME_ADDRESS", "same_address=True" },
	{ "GPUB_REPLACE", "replace=True" },
	{ "GPUB_PERSIST", "persist=True" },
	{ "GPUB_MINE", "owner=" },
	{ "GPUB_KEEP", "-1" },
	{ "GPUB_TICKET_ONCE", "once=True" },
	{ "gpub_disconnect", "close" },
	{ "gpub_return_on", "release(stream=...)" },
	{ "gpub_signal_on", "signal" },
	{ "gpub_ticket_issue", "ticket" },
};

/* A function's name without its prefix, if the table has none. NULL: the word is the same in Python. */
static const char *word_find(const char *word, size_t length)
{
	for (size_t i = 0; i < sizeof words / sizeof *words; i++)
		if (strlen(words[i].c) == length && !memcmp(words[i].c, word, length))
			return words[i].python;
	return NULL;
}

static size_t word_length(const char *word)
{
	return strspn(word, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_");
}

/* Writes the word at text, and returns how long that is there. */
static size_t word_write(FILE *to, const char *text)
{
	size_t length = word_length(text), prefix = !strncmp(text, "gpub_", 5) ? 5 : 0;
	const char *python = word_find(text, length);

	if (python)
		fputs(python, to);
	else
		fwrite(text + prefix, 1, length - prefix, to);
	return length;
}

/*
 * A name or a file's, as "'u'", stays as it is. Returns its length; 0: none begins there. An apostrophe stands behind a
 * word.
 */
static size_t quoted_write(FILE *to, const char *text, bool behind_word)
{
	const char *end = *text == '\'' && !behind_word ? strchr(text + 1, '\'') : NULL;

	return end ? fwrite(text, 1, (size_t)(end + 1 - text), to) : 0;
}

/*
 * A time in milliseconds, as in "within 300 ms", in seconds, which all times of Python's are. Returns how long it is
 * there; 0: none is.
 */
static size_t time_write(FILE *to, const char *text)
{
	static const char before[] = " within ";
	char *end;
	long ms;

	if (strncmp(text, before, sizeof before - 1))
		return 0;
	ms = strtol(text + sizeof before - 1, &end, 10);
	if (strncmp(end, " ms", 3))
		return 0;
	fprintf(to, "%s%g s", before, (double)ms / 1000);
	return (size_t)(end + 3 - text);
}

static void python_words(const char *message, char text[TEXT_MAX])
{
	FILE *to = fmemopen(text, TEXT_MAX, "w");
	bool behind_word = false;

	text[0] = text[TEXT_MAX - 1] = 0;
	for (size_t length; to && *message; message += length) {
		length = time_write(to, message);
		if (!length)
			length = quoted_write(to, message, behind_word);
		behind_word = !length && word_length(message);
		if (behind_word)
			length = word_write(to, message);
		if (!length)
			length = fwrite(message, 1, 1, to);
		if (!length)
			break; /* it is full */
	}
	if (to)
		fclose(to);
}

/* ---- exceptions ---- */

/* Takes the text over. */
static PyObject *raise_with(int error, PyObject *text)
{
	PyObject *arguments = text ? Py_BuildValue("(iN)", -error, text) : NULL;

	if (arguments)
		PyErr_SetObject(PyExc_OSError, arguments);
	Py_XDECREF(arguments);
	return NULL;
}

PyObject *raise_os_of(const char *label, int error)
{
	const char *message = gpub_strerror_last();
	char text[TEXT_MAX];

	if (PyErr_Occurred())
		return NULL;
	python_words(message, text);
	if (!label || strstr(message, label))
		return raise_with(error, PyUnicode_DecodeFSDefault(text));
	return raise_os_text(error, "%s: %s", label, text);
}

PyObject *raise_os_named(const char *name, int error)
{
	char label[GPUB_NAME_MAX + 3];

	if (!name)
		return raise_os(error);
	snprintf(label, sizeof label, "'%s'", name);
	return raise_os_of(label, error);
}

PyObject *raise_os(int error)
{
	return raise_os_of(NULL, error);
}

PyObject *raise_os_text(int error, const char *format, ...)
{
	PyObject *text;
	va_list values;

	va_start(values, format);
	text = PyUnicode_FromFormatV(format, values);
	va_end(values);
	return raise_with(error, text);
}

PyObject *raise_value(void)
{
	char text[TEXT_MAX];

	python_words(gpub_strerror_last(), text);
	PyErr_SetString(PyExc_ValueError, text);
	return NULL;
}
