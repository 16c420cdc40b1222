# SPDX-License-Identifier: Apache-2.0

# The module "kernels" is built twice: kernels.so has the host twins, kernels.fatbin the CUDA kernels.
kernels_host = kernels/kernels.h kernels/heat.c kernels/array.c kernels/spin.c kernels/stamp.c \
	kernels/tree.c
kernels_cuda = kernels/heat.cu kernels/array.cu kernels/spin.cu kernels/stamp.cu \
	kernels/tree.cu

module_LTLIBRARIES += kernels/kernels.la
kernels_kernels_la_SOURCES = $(kernels_host)
# -ffp-contract=off: no fused multiply-add, so the host twins give the same bits as CUDA.
kernels_kernels_la_CFLAGS = $(AM_CFLAGS) -ffp-contract=off $(VECTOR_CFLAGS)
kernels_kernels_la_LDFLAGS = $(AM_LDFLAGS) -module -avoid-version -shared
kernels_kernels_la_LIBADD = -lm
EXTRA_DIST += $(kernels_cuda)

# libtool keeps the module in .libs until the installation. Programs in the build tree look for it beside the fatbin.
all-local: kernels/kernels.so
kernels/kernels.so: kernels/kernels.la
	$(AM_V_at)$(LN_S) -f .libs/kernels.so $@
CLEANFILES += kernels/kernels.so

if HAVE_CUDA_TOOLKIT
module_DATA = kernels/kernels.fatbin
CLEANFILES += kernels/kernels.fatbin kernels/kernels.cu

# nvcc makes one fatbin of one source, so kernels.cu includes all CUDA sources.
kernels/kernels.cu: kernels/local.mk
	@$(MKDIR_P) $(@D)
	$(AM_V_GEN)for source in $(kernels_cuda); do echo "#include \"$$source\""; done >$@
kernels/kernels.fatbin: kernels/kernels.cu $(kernels_cuda) kernels/kernels.h
endif
