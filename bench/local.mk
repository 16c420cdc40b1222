# SPDX-License-Identifier: Apache-2.0

# make bench: every figure that this machine can take, one JSON line each; README.md says what each compares. Built by
# nothing else. Each program is bench/NAME.c with bench.[ch] and the public interface, unless lines of its own say more.
bench_programs = \
	bench/renew \
	bench/name \
	bench/first \
	bench/slab \
	bench/create \
	bench/batch \
	bench/reclaim \
	bench/size \
	bench/status \
	bench/idle \
	bench/owner \
	bench/crowd \
	bench/pause \
	bench/peer-mutex \
	bench/curves
# Built and run where what they need is: run.sh says which header or command.
bench_optional = \
	bench/join \
	bench/peer-boost \
	bench/peer-lmdb \
	bench/peer-redis
bench_harness = bench/bench.c bench/bench.h
bench_clients = $(bench_harness) bench/clients.c bench/clients.h
bench_floor = bench/floor.c bench/floor.h
bench_peer = $(bench_clients) bench/peer.c bench/peer.h
EXTRA_PROGRAMS += $(bench_programs) $(bench_optional)
CLEANFILES += $(bench_programs) $(bench_optional) bench/run.jsonl
bench_batch_SOURCES = bench/batch.c $(bench_clients) $(bench_floor)
bench_batch_LDADD = $(public_libs) $(SODIUM_LIBS) -lpthread
bench_create_SOURCES = bench/create.c $(bench_harness) $(bench_floor)
bench_create_LDADD = $(public_libs) $(SODIUM_LIBS)
bench_crowd_SOURCES = bench/crowd.c $(bench_clients) $(bench_floor)
bench_crowd_LDADD = $(public_libs) $(SODIUM_LIBS) -lpthread
bench_curves_SOURCES = bench/curves.c $(bench_clients) $(bench_floor)
bench_curves_LDADD = $(public_libs) $(SODIUM_LIBS) -lpthread
bench_first_SOURCES = bench/first.c $(bench_harness) $(bench_floor)
bench_first_LDADD = $(public_libs) $(SODIUM_LIBS)
bench_idle_SOURCES = bench/idle.c $(bench_clients)
bench_idle_LDADD = $(public_libs) -lpthread
bench_pause_SOURCES = bench/pause.c $(bench_clients)
bench_pause_LDADD = $(public_libs) -lpthread
bench_join_SOURCES = bench/join.c $(bench_harness)
bench_join_LDADD = $(public_libs)
bench_name_SOURCES = bench/name.c $(bench_harness)
bench_name_LDADD = $(public_libs) $(SODIUM_LIBS)
bench_owner_SOURCES = bench/owner.c $(bench_clients)
bench_owner_LDADD = $(public_libs) -lpthread
bench_peer_boost_SOURCES = bench/peer-boost.cc $(bench_peer)
bench_peer_boost_LDADD = $(public_libs) -lpthread -lrt
bench_peer_lmdb_SOURCES = bench/peer-lmdb.c $(bench_peer)
bench_peer_lmdb_LDADD = $(public_libs) -llmdb -lpthread
bench_peer_mutex_SOURCES = bench/peer-mutex.c $(bench_peer)
bench_peer_mutex_LDADD = $(public_libs) -lpthread
bench_peer_redis_SOURCES = bench/peer-redis.c $(bench_peer)
bench_peer_redis_LDADD = $(public_libs) -lhiredis -lpthread
bench_reclaim_SOURCES = bench/reclaim.c $(bench_clients)
bench_reclaim_LDADD = $(public_libs) -lpthread
bench_renew_SOURCES = bench/renew.c $(bench_harness)
bench_renew_LDADD = $(public_libs)
bench_size_SOURCES = bench/size.c $(bench_clients)
bench_size_LDADD = $(public_libs) -lpthread
bench_status_SOURCES = bench/status.c $(bench_clients)
bench_status_LDADD = $(public_libs) -lpthread
bench_slab_SOURCES = bench/slab.c $(bench_clients) $(bench_floor)
bench_slab_LDADD = $(public_libs) $(SODIUM_LIBS) -lpthread

# For CUDA devices: built where there is a toolkit, run where there is a device.
bench_cuda =

bench_results = $(abs_top_srcdir)/bench/results
.PHONY: bench
bench: $(bench_programs) $(bench_cuda) broker/broker-run
	@$(test_caller) top_builddir='$(abs_top_builddir)' CC='$(CC)' CXX='$(CXX)' MAKE='$(MAKE)' $(SHELL) $(srcdir)/bench/run.sh \
	    '$(bench_results)' $(bench_programs) optional $(bench_optional) cuda $(bench_cuda)
EXTRA_DIST += bench/README.md bench/report bench/run.sh bench/results

# What users do, beside what they use today: Python programs, for a machine with a GPU.
.PHONY: bench-workloads
bench-workloads: broker/broker-run
	@$(test_caller) bash $(srcdir)/bench/workloads/run.sh '$(bench_results)/workloads'
CLEANFILES += bench/workloads.jsonl
EXTRA_DIST += bench/workloads/run.sh bench/workloads/workload.py bench/workloads/models.py bench/workloads/attach.py \
	bench/workloads/publish.py bench/workloads/killed.py bench/workloads/solver.py bench/workloads/ring.py

# What figures are compared with: the same work without the broker.
if HAVE_CUDA_TOOLKIT
noinst_LTLIBRARIES += bench/libheat-alone.la
bench_libheat_alone_la_SOURCES = bench/heat-alone.cu
noinst_PROGRAMS += bench/heat-alone
bench_heat_alone_SOURCES =
# nvcc's objects are C++.
nodist_EXTRA_bench_heat_alone_SOURCES = cuda-is-c++.cxx
bench_heat_alone_LDADD = bench/libheat-alone.la $(CUDA_LIBS)
if MPI
noinst_PROGRAMS += bench/heat-mpi
bench_heat_mpi_SOURCES = bench/heat-mpi.c $(bench_gpu)
bench_heat_mpi_CPPFLAGS = $(AM_CPPFLAGS) $(MPI_CFLAGS)
bench_heat_mpi_LDADD = $(bench_gpu_libs) $(MPI_LIBS)
EXTRA_bench_heat_mpi_DEPENDENCIES = kernels/kernels.fatbin
endif

# As above, and the CUDA runtime. What runs beside a program is made with it.
bench_cuda += \
	bench/gpu-attach \
	bench/gpu-first \
	bench/gpu-grow \
	bench/gpu-slab \
	bench/gpu-return-on \
	bench/gpu-round \
	bench/gpu-create \
	bench/gpu-drain \
	bench/gpu-pause \
	bench/gpu-bandwidth \
	bench/gpu-worker \
	bench/gpu-opens \
	bench/gpu-curves \
	bench/gpu-box
EXTRA_PROGRAMS += $(bench_cuda) bench/gpu-peers/raw
CLEANFILES += $(bench_cuda) bench/gpu-peers/raw
bench_gpu = $(bench_harness) bench/gpu.c bench/gpu.h
bench_gpu_libs = $(public_libs) $(CUDA_LIBS)
bench_gpu_attach_SOURCES = bench/gpu-attach.c $(bench_gpu)
bench_gpu_attach_LDADD = $(bench_gpu_libs)
bench_gpu_bandwidth_SOURCES = bench/gpu-bandwidth.c $(bench_gpu)
bench_gpu_bandwidth_LDADD = $(bench_gpu_libs)
EXTRA_bench_gpu_bandwidth_DEPENDENCIES = kernels/kernels.fatbin
bench_gpu_create_SOURCES = bench/gpu-create.c $(bench_gpu)
bench_gpu_create_LDADD = $(bench_gpu_libs)
bench_gpu_box_SOURCES = bench/gpu-box.c $(bench_gpu) bench/clients.c bench/clients.h
bench_gpu_box_LDADD = $(bench_gpu_libs) -lpthread
bench_gpu_curves_SOURCES = bench/gpu-curves.c $(bench_gpu) bench/clients.c bench/clients.h
bench_gpu_curves_LDADD = $(bench_gpu_libs)
bench_gpu_drain_SOURCES = bench/gpu-drain.c $(bench_gpu)
bench_gpu_drain_LDADD = $(bench_gpu_libs) -lpthread
EXTRA_bench_gpu_drain_DEPENDENCIES = kernels/kernels.fatbin
bench_gpu_grow_SOURCES = bench/gpu-grow.c $(bench_gpu)
bench_gpu_grow_LDADD = $(bench_gpu_libs)
bench_gpu_first_SOURCES = bench/gpu-first.c $(bench_gpu)
bench_gpu_first_LDADD = $(bench_gpu_libs)
bench_gpu_opens_SOURCES = bench/gpu-opens.c $(bench_gpu)
bench_gpu_opens_LDADD = $(bench_gpu_libs)
bench_gpu_peers_raw_SOURCES = bench/gpu-peers/raw.c $(bench_gpu)
bench_gpu_peers_raw_LDADD = $(bench_gpu_libs)
bench_gpu_pause_SOURCES = bench/pause.c $(bench_clients)
bench_gpu_pause_CPPFLAGS = $(AM_CPPFLAGS) -DGPU_PAUSE
bench_gpu_pause_LDADD = $(public_libs) -lpthread
bench_gpu_return_on_SOURCES = bench/gpu-return-on.c $(bench_gpu)
bench_gpu_return_on_LDADD = $(bench_gpu_libs)
bench_gpu_round_SOURCES = bench/gpu-round.c $(bench_gpu)
bench_gpu_round_LDADD = $(bench_gpu_libs)
EXTRA_bench_gpu_round_DEPENDENCIES = kernels/kernels.fatbin
bench_gpu_slab_SOURCES = bench/gpu-slab.c $(bench_gpu) bench/clients.c bench/clients.h $(bench_floor)
bench_gpu_slab_LDADD = $(bench_gpu_libs) $(SODIUM_LIBS)
bench_gpu_worker_SOURCES = bench/gpu-worker.c $(bench_gpu) bench/clients.c bench/clients.h
bench_gpu_worker_CPPFLAGS = $(AM_CPPFLAGS) -DGPU_PEERS='"$(abs_top_srcdir)/bench/gpu-peers"'
bench_gpu_worker_LDADD = $(bench_gpu_libs)
EXTRA_bench_gpu_worker_DEPENDENCIES = bench/gpu-peers/raw kernels/kernels.fatbin
endif
EXTRA_DIST += bench/gpu-peers/peer.py bench/gpu-peers/torch_ipc.py bench/gpu-peers/cupy_ipc.py bench/gpu-peers/numba_ipc.py
EXTRA_DIST += bench/heat-alone.cu tests/on-gpu.sh
