/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cuda-fork.h - detects a forked child that cannot use CUDA, and closes the GPU's descriptors in the child.
 * device_cuda_forked() is declared in device.h.
 */
#ifndef GPUB_CUDA_FORK_H
#define GPUB_CUDA_FORK_H

/*
 * Records that CUDA is started in this process. In each child that is forked afterwards, device_cuda_forked() is true.
 */
void cuda_fork_started(void);

/*
 * Declares that this process has not started CUDA otherwise than by this library, so its children need not look for a
 * descriptor that CUDA has opened. That look costs 3 us for each descriptor of the process, in fork(2).
 */
void cuda_fork_trusted(void);

/*
 * Closes all descriptors of NVIDIA devices in this process, a forked child of a process that used CUDA.
 * Async-signal-safe. Never call it in a process that uses CUDA, nor in one that shares its descriptors with the
 * parent (CLONE_FILES).
 */
void cuda_close_descriptors(void);

#endif
