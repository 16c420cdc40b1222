/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mps.h - whether CUDA programs that start here run under NVIDIA's Multi-Process Service. Checks only for the daemon's
 * pipe. Owns nothing.
 */
#ifndef GPUB_MPS_H
#define GPUB_MPS_H

#include <stdbool.h>

#define MPS_PATH_MAX 200

/*
 * Whether the directory where CUDA looks for the daemon has a pipe of root or of this user. *path (path may be NULL):
 * the pipe's path, also if there is none. True also if the environment names a directory and is not trusted.
 */
bool mps_is_here(char path[MPS_PATH_MAX]);

/* Somebody listens at that pipe. */
bool mps_answers(void);

#endif
