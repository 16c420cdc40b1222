/* SPDX-License-Identifier: Apache-2.0 */
/*
 * host-capture.h - a model of stream capture on the host device, which a program cannot have there.
 *
 * As after cudaStreamBeginCapture(), launches, copies and host_capture_write() on the stream are recorded and do not
 * run. The device's stream_write, stream_wait and stream_sync give -EBUSY, and the capture stays valid. Calls of other
 * threads do it no harm. The default stream cannot be captured. While a blocking stream is captured, the default stream
 * of its device is refused as well.
 */
#ifndef GPUB_TESTS_HOST_CAPTURE_H
#define GPUB_TESTS_HOST_CAPTURE_H

#include <stdint.h>

struct host_graph;

int  host_capture_begin(void *stream);
int  host_capture_begin_blocking(void *stream);
int  host_capture_write(void *stream, uint64_t *word, uint64_t value); /* runs at every replay */
int  host_capture_end(void *stream, struct host_graph **graph);
void host_graph_destroy(struct host_graph *graph);

/*
 * Both behave as user code that does not ask first. On a captured stream host_capture_sync(), which is
 * cudaStreamSynchronize(), and on the default stream during a blocking capture both give -EBUSY and invalidate the
 * capture: its end gives -ECANCELED.
 */
int host_capture_sync(void *stream);
int host_graph_launch(struct host_graph *graph, void *stream);

#endif
