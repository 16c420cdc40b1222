/* SPDX-License-Identifier: Apache-2.0 */
/* facts-order.c - the facts of stream order: writes and waits, captures, and contexts, in one process. */
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/wait.h>

#include "facts.h"
#include "common/error.h"

/* ---- group: stream writes and waits, in one process ---- */

static void order_write(cudaStream_t stream, uint64_t *word)
{
	uint64_t early;
	double   start = now(), took;

	word_store(word, 0);
	NEED(launch_spin(stream, 200 * MILLISECONDS));
	NEED(device_cuda->stream_write(stream, word, 7));
	pause_ms(50);
	early = word_load(word);
	NEED(cudaStreamSynchronize(stream));
	took = now() - start;
	point(early == 0 && word_load(word) == 7 && took > 0.15,
	      "a stream write is ordered behind the kernel before it", "%llu after 50 ms, %llu after %.3f s",
	      (unsigned long long)early, (unsigned long long)word_load(word), took);
}

/* Whether a wait for value passes while the word holds what it holds; leaves the stream free. */
static bool wait_passes(cudaStream_t stream, const uint64_t *wait_word, uint64_t *word, uint64_t value)
{
	bool passes;

	NEED(device_cuda->stream_wait(stream, wait_word, value));
	pause_ms(100);
	passes = cudaStreamQuery(stream) == cudaSuccess;
	word_store(word, value);
	NEED(cudaStreamSynchronize(stream));
	return passes;
}

static void order_signed(cudaStream_t stream, uint64_t *word)
{
	bool most, all_ones;

	word_store(word, INT64_MAX);
	most = wait_passes(stream, word, word, GPUB_TIMELINE_MAX);
	word_store(word, UINT64_MAX);
	all_ones = wait_passes(stream, word, word, 1);
	point(most && !all_ones, "a GEQ wait compares signed and cyclic: INT64_MAX releases every wait",
	      "INT64_MAX %s, UINT64_MAX %s", most ? "passes" : "hangs", all_ones ? "passes" : "hangs");
}

static void order_readonly(cudaStream_t stream)
{
	uint64_t *readonly, *word = page_make(&readonly);
	int       rc = device_cuda->page_register(readonly, PAGE, false);
	bool      early, late;

	NEED(rc);
	early = wait_passes(stream, readonly, word, 5);
	word_store(word, 6);
	late = wait_passes(stream, readonly, word, 6);
	point(!early && late, "a page mapped and registered read-only can be waited on",
	      "before the value %s, after it %s", early ? "passes" : "waits", late ? "passes" : "waits");
}

static cudaGraphExec_t graph_of_write(cudaStream_t stream, uint64_t *word, uint64_t value)
{
	cudaGraph_t     graph;
	cudaGraphExec_t exec;

	NEED(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
	NEED(cuda.StreamWriteValue64(stream, cuda_address(word), value, CU_STREAM_WRITE_VALUE_DEFAULT));
	NEED(cudaStreamEndCapture(stream, &graph));
	NEED(cudaGraphInstantiate(&exec, graph, 0));
	return exec;
}

static void order_captured(cudaStream_t stream, uint64_t *word)
{
	uint64_t        called, replayed[2];
	cudaGraphExec_t exec;

	word_store(word, 0);
	exec = graph_of_write(stream, word, 9);
	NEED(cudaStreamSynchronize(stream));
	called = word_load(word);
	for (int i = 0; i < 2; i++) {
		word_store(word, 0);
		NEED(cudaGraphLaunch(exec, stream));
		NEED(cudaStreamSynchronize(stream));
		replayed[i] = word_load(word);
	}
	point(called == 0 && replayed[0] == 9 && replayed[1] == 9,
	      "a captured stream write runs at every replay, not at the call", "call %d, replays %d, %d", (int)called,
	      (int)replayed[0], (int)replayed[1]);
}

/* ---- a graph that waits and signals, replayed with greater values ---- */

typedef CUresult node_params_get(CUgraphNode node, CUDA_BATCH_MEM_OP_NODE_PARAMS *params);
typedef CUresult node_params_set(CUgraphExec exec, CUgraphNode node, const CUDA_BATCH_MEM_OP_NODE_PARAMS *params);

static node_params_get *graph_get;
static node_params_set *graph_set;

static void graph_functions_find(void)
{
	void *driver = dlopen("libcuda.so.1", RTLD_NOW);

	need(driver, "the driver");
	graph_get = (node_params_get *)dlsym(driver, "cuGraphBatchMemOpNodeGetParams");
	graph_set = (node_params_set *)dlsym(driver, "cuGraphExecBatchMemOpNodeSetParams");
	need(graph_get && graph_set, "cuGraph*BatchMemOpNode*Params");
}

/* Waits for 1 in word[0], writes 1 into word[1]: two nodes. */
static cudaGraphExec_t graph_of_both(cudaStream_t stream, uint64_t *word, cudaGraphNode_t nodes[2])
{
	cudaGraph_t     graph;
	cudaGraphExec_t exec;
	size_t          count = 2;

	NEED(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
	NEED(cuda.StreamWaitValue64(stream, cuda_address(&word[0]), 1, CU_STREAM_WAIT_VALUE_GEQ));
	NEED(cuda.StreamWriteValue64(stream, cuda_address(&word[1]), 1, CU_STREAM_WRITE_VALUE_DEFAULT));
	NEED(cudaStreamEndCapture(stream, &graph));
	NEED(cudaGraphGetNodes(graph, nodes, &count));
	need(count == 2, "a node for each operation");
	NEED(cudaGraphInstantiate(&exec, graph, 0));
	return exec;
}

/* The value of a node's operation at the next launch. */
static void graph_value(cudaGraphExec_t exec, cudaGraphNode_t node, uint64_t value)
{
	CUDA_BATCH_MEM_OP_NODE_PARAMS params;
	CUstreamBatchMemOpParams      operation;

	NEED(graph_get(node, &params));
	need(params.count == 1, "one operation a node");
	operation = params.paramArray[0];
	operation.waitValue.value64 = value; /* in the same place as writeValue's */
	params.paramArray = &operation;
	NEED(graph_set(exec, node, &params));
}

static void order_replayed(cudaStream_t stream, uint64_t *word)
{
	cudaGraphNode_t nodes[2];
	cudaGraphExec_t exec = graph_of_both(stream, word, nodes);
	bool            stale, waits;
	double          start, each;

	word_store(&word[0], 1);
	word_store(&word[1], 0);
	for (int i = 0; i < 2; i++) {
		NEED(cudaGraphLaunch(exec, stream));
		NEED(cudaStreamSynchronize(stream));
	}
	stale = word_load(&word[1]) == 1;
	graph_value(exec, nodes[0], 2);
	graph_value(exec, nodes[1], 2);
	NEED(cudaGraphLaunch(exec, stream));
	pause_ms(50);
	waits = cudaStreamQuery(stream) == cudaErrorNotReady && word_load(&word[1]) == 1;
	word_store(&word[0], 2);
	NEED(cudaStreamSynchronize(stream));
	waits = waits && word_load(&word[1]) == 2;
	word_store(&word[0], 1000);
	start = now();
	for (int i = 0; i < 1000; i++) {
		graph_value(exec, nodes[0], 1000);
		graph_value(exec, nodes[1], 1000);
		NEED(cudaGraphLaunch(exec, stream));
	}
	each = (now() - start) / 1000;
	NEED(cudaStreamSynchronize(stream));
	point(stale && waits,
	      "a captured wait and write have the values of the capture, until they get others between two replays",
	      "replayed %s; then %s; two new values and a launch %.1f us", stale ? "with the same" : "with others",
	      waits ? "waits for the greater one and writes it" : "does not", each * 1e6);
}

static void order_refused(cudaStream_t stream, uint64_t *word)
{
	struct capture capture;
	int            own, sync, legacy;
	bool           own_valid, legacy_valid;

	word_store(word, 0);
	NEED(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
	NEED(launch_spin(stream, 1));
	own = device_cuda->stream_write(stream, word, 1);
	sync = device_cuda->stream_sync(stream);
	own_valid = capture_end(stream);
	capture_start(&capture, cudaStreamDefault); /* blocking: the legacy stream depends on it */
	legacy = device_cuda->stream_write(NULL, word, 1);
	legacy_valid = capture_finish(&capture);
	point(own == -EBUSY && sync == -EBUSY && legacy == -EBUSY && own_valid && legacy_valid && word_load(word) == 0,
	      "our write on a capturing stream is refused and the capture goes on",
	      "own %d, sync %d, legacy %d; %s, %s", own, sync, legacy, own_valid ? "valid" : "invalidated",
	      legacy_valid ? "valid" : "invalidated");
}

static int device_calls_memory(void)
{
	struct device_handle handle;
	uint64_t            *page = page_make(NULL);
	void                *ptr;
	int                  rc = device_cuda->allocate(0, GRANULE, EXPORT_IPC, &ptr);

	rc = rc ? rc : device_cuda->zero(0, ptr, GRANULE);
	rc = rc ? rc : device_cuda->export_handle(0, ptr, &handle, &(int){ 0 });
	rc = rc ? rc : device_cuda->release(0, ptr);
	rc = rc ? rc : device_cuda->page_register(page, PAGE, true);
	return rc ? rc : device_cuda->page_unregister(page);
}

static int device_calls_module(void *stream)
{
	const char        *path = getenv("GPUB_FACTS_FATBIN");
	gpub_launch_config config = GPUB_LAUNCH_INIT;
	uint64_t           duration = 20 * MILLISECONDS, *word = NULL, value = 0;
	void              *loaded, *kernel, *arguments[] = { &duration, &word, &value };
	int                rc = device_cuda->module_load(path ? path : FACTS_FATBIN, &loaded);

	config.device = 0;
	config.stream = stream;
	rc = rc ? rc : device_cuda->module_kernel(loaded, "facts_spin", &kernel);
	rc = rc ? rc : device_cuda->module_launch(kernel, &config, arguments);
	return rc ? rc : device_cuda->module_unload(loaded);
}

static int device_calls_stream(void)
{
	static uint32_t from, to;
	void           *stream;
	int             rc = device_cuda->stream_create(0, 0, &stream);

	if (rc)
		return rc;
	rc = device_calls_module(stream);
	rc = rc ? rc : device_cuda->copy(stream, &to, &from, sizeof(to));
	rc = rc ? rc : device_cuda->stream_sync(stream);
	device_cuda->stream_destroy(stream);
	return rc;
}

static void order_device_calls(void)
{
	struct capture capture;
	int            memory, stream;
	bool           valid;

	capture_start(&capture, cudaStreamNonBlocking);
	memory = device_calls_memory();
	stream = device_calls_stream();
	valid = capture_finish(&capture);
	point(!memory && !stream && valid, "no call of our device disturbs another thread's global capture",
	      "memory %d, streams %d%s%s; capture %s", memory, stream, memory || stream ? " " : "",
	      memory || stream ? error_text() : "", valid ? "valid" : "invalidated");
}

struct bare {
	cudaStream_t stream;
	uint64_t    *word;
	int          rc, refused;
	bool         clean;
	cudaError_t  last;
};

/* A thread in which no CUDA context was ever current; its failed call must not show in the runtime's error. */
static void *bare_thread(void *pointer)
{
	struct bare *bare = pointer;
	CUcontext    before = NULL, after = NULL;
	void        *ptr;
	int          last = device_cuda->count() - 1;

	cuda.CtxGetCurrent(&before);
	bare->rc = device_cuda->stream_write(bare->stream, bare->word, 3);
	bare->rc = bare->rc ? bare->rc : device_cuda->stream_sync(bare->stream);
	bare->rc = bare->rc ? bare->rc : device_cuda->allocate(last, GRANULE, EXPORT_IPC, &ptr);
	bare->rc = bare->rc ? bare->rc : device_cuda->release(last, ptr);
	bare->refused = device_cuda->allocate(last, (uint64_t)1 << 42, EXPORT_IPC, &ptr); /* 4 TiB */
	cuda.CtxGetCurrent(&after);
	bare->clean = !before && !after;
	bare->last = cudaPeekAtLastError();
	return NULL;
}

static void order_context(cudaStream_t stream, uint64_t *word)
{
	struct bare bare = { .stream = stream, .word = word };
	pthread_t   thread;

	NEED(pthread_create(&thread, NULL, bare_thread, &bare));
	pthread_join(thread, NULL);
	point(!bare.rc && bare.clean && word_load(word) == 3 && bare.refused == -ENOMEM && bare.last == cudaSuccess,
	      "our calls leave a thread's context and last error as they were",
	      "calls %d, too much memory %d, context %s, %s", bare.rc, bare.refused,
	      bare.clean ? "none" : "left behind", cudaGetErrorName(bare.last));
}

void order_group(void)
{
	uint64_t    *word = page_make(NULL);
	cudaStream_t stream;

	cuda_begin();
	NEED(device_cuda->page_register(word, PAGE, true));
	stream = stream_make();
	order_write(stream, word);
	order_signed(stream, word);
	order_readonly(stream);
	order_captured(stream, word);
	graph_functions_find();
	order_replayed(stream, word);
	order_refused(stream, word);
	order_device_calls();
	order_context(stream, word);
}
