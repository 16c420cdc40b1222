# SPDX-License-Identifier: Apache-2.0

# A compiler reads only the .mod of its own kind, so the sources are installed beside it: another one compiles them.
fortran_sources = bindings/fortran/gpubroker-interface.f90 bindings/fortran/gpubroker.f90
fortran_included = bindings/fortran/acquire-host.inc bindings/fortran/acquire-device.inc
EXTRA_DIST += $(fortran_included)

if FORTRAN
lib_LTLIBRARIES += bindings/fortran/libgpubroker_fortran.la
bindings_fortran_libgpubroker_fortran_la_SOURCES = $(fortran_sources)
bindings_fortran_libgpubroker_fortran_la_FCFLAGS = $(AM_FCFLAGS) -I$(srcdir)/bindings/fortran $(FC_MODOUT)bindings/fortran
bindings_fortran_libgpubroker_fortran_la_LIBADD = libbroker/libgpubroker.la
bindings_fortran_libgpubroker_fortran_la_LDFLAGS = $(AM_LDFLAGS) -version-info 0:0:0 -no-undefined

# What a program in Fortran is compiled and linked with, and what must be there before it is.
fortran_library = bindings/fortran/libgpubroker_fortran.la
fortran_module = $(FC_MODINC)bindings/fortran
fortran_libs = $(fortran_library) libbroker/libgpubroker.la

# A module's file comes with its object. The second module uses the first.
fortran_object = bindings/fortran/libgpubroker_fortran_la
$(fortran_object)-gpubroker.lo: $(fortran_object)-gpubroker-interface.lo $(fortran_included)
bindings/fortran/gpubroker.$(FC_MODEXT): $(fortran_object)-gpubroker.lo
	@:
bindings/fortran/gpubroker_interface.$(FC_MODEXT): $(fortran_object)-gpubroker-interface.lo
	@:

fortrandir = $(pkglibdir)/fortran
dist_fortran_DATA = $(fortran_sources) $(fortran_included)
nodist_fortran_DATA = bindings/fortran/gpubroker.$(FC_MODEXT) bindings/fortran/gpubroker_interface.$(FC_MODEXT)
pkgconfig_DATA += bindings/fortran/gpubroker-fortran.pc
CLEANFILES += $(nodist_fortran_DATA)
else
EXTRA_DIST += $(fortran_sources)
endif
