# SPDX-License-Identifier: Apache-2.0

# Examples use the public interface alone.
public_libs = libbroker/libgpubroker.la

example_PROGRAMS += examples/heat/heat
examples_heat_heat_SOURCES = \
	examples/heat/field.c \
	examples/heat/heat.c examples/heat/heat.h \
	examples/heat/image.c \
	examples/heat/links.c \
	examples/heat/machines.c examples/heat/machines.h \
	examples/heat/options.c \
	examples/heat/output.c \
	examples/heat/peers.c \
	examples/heat/progress.c \
	examples/heat/solver.c
examples_heat_heat_CPPFLAGS = $(AM_CPPFLAGS)
examples_heat_heat_LDADD = $(public_libs) $(PNG_LIBS) -lm
# Several machines, where MPI is; NCCL between their GPUs, where that is, too.
if MPI
examples_heat_heat_SOURCES += examples/heat/machines-mpi.c
examples_heat_heat_CPPFLAGS += -DHEAT_MPI $(MPI_CFLAGS)
examples_heat_heat_LDADD += $(MPI_LIBS)
else
EXTRA_DIST += examples/heat/machines-mpi.c
endif
if NCCL
examples_heat_heat_SOURCES += examples/heat/machines-nccl.c
examples_heat_heat_CPPFLAGS += -DHEAT_NCCL $(NCCL_CFLAGS)
examples_heat_heat_LDADD += -ldl
else
EXTRA_DIST += examples/heat/machines-nccl.c
endif

# A producer, its consumers, three buffers and back-pressure: the first program to read.
example_PROGRAMS += examples/pipeline/pipeline
examples_pipeline_pipeline_SOURCES = examples/pipeline/pipeline.c
examples_pipeline_pipeline_LDADD = $(public_libs)

# A number from one worker to another. The README shows it as it is.
example_PROGRAMS += examples/hello
examples_hello_SOURCES = examples/hello.c
examples_hello_LDADD = $(public_libs)

# Pointers that mean the same in all processes (GPUB_SAME_ADDRESS).
example_PROGRAMS += examples/tree/tree
examples_tree_tree_SOURCES = examples/tree/tree.c
examples_tree_tree_LDADD = $(public_libs)

# One program for each question of gpubroker_lifetimes(7).
example_PROGRAMS += \
	examples/lifetime/copies \
	examples/lifetime/modules \
	examples/lifetime/ownership \
	examples/lifetime/returns
lifetime_common = examples/lifetime/say.c examples/lifetime/say.h
examples_lifetime_copies_SOURCES = examples/lifetime/copies.c $(lifetime_common)
examples_lifetime_copies_LDADD = $(public_libs)
examples_lifetime_modules_SOURCES = examples/lifetime/modules.c $(lifetime_common)
examples_lifetime_modules_LDADD = $(public_libs)
examples_lifetime_ownership_SOURCES = examples/lifetime/ownership.c $(lifetime_common)
examples_lifetime_ownership_LDADD = $(public_libs) -lm -ldl
examples_lifetime_returns_SOURCES = examples/lifetime/returns.c $(lifetime_common)
examples_lifetime_returns_LDADD = $(public_libs)

# The Fortran module, used by several workers.
if FORTRAN
example_PROGRAMS += examples/heat-fortran/heat-fortran
examples_heat_fortran_heat_fortran_SOURCES = examples/heat-fortran/heat-fortran.f90
examples_heat_fortran_heat_fortran_FCFLAGS = $(AM_FCFLAGS) $(fortran_module)
examples_heat_fortran_heat_fortran_LDADD = $(fortran_libs)
examples/heat-fortran/heat_fortran-heat-fortran.$(OBJEXT): $(fortran_library)
else
EXTRA_DIST += examples/heat-fortran/heat-fortran.f90
endif

# For CUDA alone: a kernel launched with <<<>>> on a lease.
if HAVE_CUDA_TOOLKIT
noinst_LTLIBRARIES += examples/libacquire.la
examples_libacquire_la_SOURCES = examples/acquire.cu
example_PROGRAMS += examples/acquire
examples_acquire_SOURCES =
# nvcc's objects are C++.
nodist_EXTRA_examples_acquire_SOURCES = cuda-is-c++.cxx
examples_acquire_LDADD = examples/libacquire.la $(public_libs) $(CUDA_LIBS)
endif
EXTRA_DIST += examples/acquire.cu examples/acquire.py examples/heat.py examples/survive.sh
