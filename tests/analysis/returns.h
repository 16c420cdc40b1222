/* SPDX-License-Identifier: Apache-2.0 */
/*
 * returns.h - what an analyzer that sees one file at a time cannot know: error_set() returns the negative errno that it
 * was given, so that "return error_set(...)" is a failure and the outputs of that function are not looked at.
 *
 * static.sh puts it before each file; nothing is built with it. Not for error.c, which defines the function.
 */
#ifndef GPUB_ANALYSIS_RETURNS_H
#define GPUB_ANALYSIS_RETURNS_H

#include "common/error.h"

#define error_set(code, ...)                                                                                           \
	({                                                                                                             \
		int returns_code = (code);                                                                             \
		error_set(returns_code, __VA_ARGS__);                                                                  \
		if (returns_code >= 0)                                                                                 \
			__builtin_unreachable();                                                                       \
		returns_code;                                                                                          \
	})

#endif
