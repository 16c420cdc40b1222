/* SPDX-License-Identifier: Apache-2.0 */
/* without-cuda.c - stands in for each test of the cuda device in a build without it: skipped, by its name. */
#include <stdio.h>

int main(void)
{
	puts("1..0 # SKIP built without CUDA");
	return 0;
}
