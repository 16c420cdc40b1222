/* SPDX-License-Identifier: Apache-2.0 */
/* uuid-text.c - see uuid-text.h */
#include "uuid-text.h"

#include <stdio.h>

const char *uuid_format(const uint8_t uuid[16], char text[UUID_TEXT_SIZE])
{
	char *at = text;

	for (int i = 0; i < 16; i++)
		at += sprintf(at, i == 4 || i == 6 || i == 8 || i == 10 ? "-%02x" : "%02x", uuid[i]);
	return text;
}
