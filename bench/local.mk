# SPDX-License-Identifier: Apache-2.0

# What figures are compared with: the same work without the broker.
if HAVE_CUDA
noinst_LTLIBRARIES += bench/libheat-alone.la
bench_libheat_alone_la_SOURCES = bench/heat-alone.cu
noinst_PROGRAMS += bench/heat-alone
bench_heat_alone_SOURCES =
# nvcc's objects are C++.
nodist_EXTRA_bench_heat_alone_SOURCES = cuda-is-c++.cxx
bench_heat_alone_LDADD = bench/libheat-alone.la $(CUDA_LIBS)
endif
EXTRA_DIST += bench/heat-alone.cu tests/on-gpu.sh
