/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mps.h - whether CUDA programs started by this process run under NVIDIA's Multi-Process Service (MPS). Looks only at
 * the pipe of the MPS daemon. Owns nothing.
 */
#ifndef GPUB_MPS_H
#define GPUB_MPS_H

#include <stdbool.h>

#define MPS_PATH_MAX 200

/*
 * Whether the directory where CUDA looks for the MPS daemon has a pipe that belongs to root or to this user. Also
 * true if the environment names a directory but is not trusted. If path is not NULL, stores the pipe's path there,
 * also if the pipe does not exist.
 */
bool mps_is_here(char path[MPS_PATH_MAX]);

/*
 * Whether an MPS control daemon may listen at the socket of mps_is_here(). False: connect(2) says that nobody does, the
 * socket does not exist, or its path is too long. True after any other error.
 */
bool mps_answers(void);

#endif
