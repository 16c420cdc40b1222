/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cuda-fork.h - what a forked child must know of CUDA, and close. device_cuda_forked() is declared in device.h.
 */
#ifndef GPUB_CUDA_FORK_H
#define GPUB_CUDA_FORK_H

/* CUDA is started in this process, so that no child of it, however made, may call it. */
void cuda_fork_started(void);

/*
 * Closes every descriptor of an NVIDIA device in this process. For a child made by fork, whose parent used
 * CUDA; async-signal-safe. Never call it in a process that uses CUDA itself, nor after vfork with CLONE_FILES.
 */
void cuda_close_descriptors(void);

#endif
