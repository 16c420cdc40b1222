# SPDX-License-Identifier: Apache-2.0

# Examples use the public interface alone.
public_libs = libbroker/libgpubroker.la

example_PROGRAMS += examples/heat/heat
examples_heat_heat_SOURCES = \
	examples/heat/field.c \
	examples/heat/heat.c examples/heat/heat.h \
	examples/heat/image.c \
	examples/heat/options.c \
	examples/heat/output.c \
	examples/heat/peers.c \
	examples/heat/progress.c \
	examples/heat/solver.c
examples_heat_heat_LDADD = $(public_libs) $(PNG_LIBS) -lm
