/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mps.h - whether CUDA programs that start here run under NVIDIA's Multi-Process Service. Looks for the daemon's pipe alone, and
 * asks nobody. Owns nothing.
 */
#ifndef GPUB_MPS_H
#define GPUB_MPS_H

#include <stdbool.h>

#define MPS_PATH_MAX 200

/*
 * Where the environment has CUDA look for the daemon, there is a pipe of root or of this user. path: where, also if there is
 * none; may be NULL. True as well where the environment names a place and cannot be trusted.
 */
bool mps_is_here(char path[MPS_PATH_MAX]);

#endif
