# SPDX-License-Identifier: Apache-2.0
#
# The Python package. It is not built by make alone, as it needs the virtual environment that ./bootstrap check makes:
#   make python   builds it: PYTHONPATH=python/lib imports it
#   make wheel    makes a wheel of it with the library and the programs, in wheel/

python_sources = \
	bindings/python/README.md \
	bindings/python/build.sh \
	bindings/python/pyproject.toml \
	bindings/python/setup.py \
	bindings/python/venv.sh \
	bindings/python/wheel.sh \
	bindings/python/core/arguments.c bindings/python/core/arguments.h \
	bindings/python/core/array.c bindings/python/core/array.h \
	bindings/python/core/client.c \
	bindings/python/core/connection.c bindings/python/core/connection.h \
	bindings/python/core/dlpack.c bindings/python/core/dlpack.h \
	bindings/python/core/errors.c bindings/python/core/errors.h \
	bindings/python/core/hold.c bindings/python/core/hold.h \
	bindings/python/core/info.c bindings/python/core/info.h \
	bindings/python/core/layouts.c bindings/python/core/layouts.h \
	bindings/python/core/lease.c bindings/python/core/lease.h \
	bindings/python/core/module.c bindings/python/core/module.h \
	bindings/python/core/patience.c bindings/python/core/patience.h \
	bindings/python/core/python.h \
	bindings/python/core/ticket.c bindings/python/core/ticket.h \
	bindings/python/src/gpubroker/__init__.py \
	bindings/python/src/gpubroker/__main__.py \
	bindings/python/src/gpubroker/arrays.py \
	bindings/python/src/gpubroker/_core.pyi \
	bindings/python/src/gpubroker/dtypes.py \
	bindings/python/src/gpubroker/fields.py \
	bindings/python/src/gpubroker/files.py \
	bindings/python/src/gpubroker/frameworks.py \
	bindings/python/src/gpubroker/fresh.py \
	bindings/python/src/gpubroker/leaving.py \
	bindings/python/src/gpubroker/picture.py \
	bindings/python/src/gpubroker/programs.py \
	bindings/python/src/gpubroker/versions.py \
	bindings/python/src/gpubroker/py.typed \
	bindings/python/src/gpubroker/safetensors.py \
	bindings/python/src/gpubroker/sharing.py \
	bindings/python/src/gpubroker/tensors.py
EXTRA_DIST += $(python_sources) $(python_tests)
python_tests = \
	bindings/python/tests/requirements.txt \
	bindings/python/tests/conftest.py \
	bindings/python/tests/tap.py \
	bindings/python/tests/test_arrays.py \
	bindings/python/tests/test_client.py \
	bindings/python/tests/test_files.py \
	bindings/python/tests/test_frameworks.py \
	bindings/python/tests/test_gpu.py \
	bindings/python/tests/test_interface.py \
	bindings/python/tests/test_interrupts.py \
	bindings/python/tests/test_lease.py \
	bindings/python/tests/test_messages.py \
	bindings/python/tests/test_model.py \
	bindings/python/tests/test_processes.py \
	bindings/python/tests/test_publish.py \
	bindings/python/tests/test_view.py

venv_python = $(abs_builddir)/venv/bin/python
.PHONY: python wheel
python: libbroker/libgpubroker.la
	@CC='$(CC)' CFLAGS='$(CFLAGS) $(GPUB_CFLAGS) $(SANITIZER_FLAGS)' LDFLAGS='$(LDFLAGS) $(SANITIZER_FLAGS)' \
	    bash $(srcdir)/bindings/python/build.sh '$(abs_builddir)' '$(venv_python)'

# The programs as make install makes them, in a folder of their own.
python_stage = $(abs_builddir)/python/stage
wheel: all
	@bash $(srcdir)/bindings/python/venv.sh '$(abs_builddir)'
	@rm -rf '$(python_stage)' && $(MKDIR_P) '$(python_stage)'
	@$(MAKE) $(AM_MAKEFLAGS) -s install-binPROGRAMS install-sbinPROGRAMS DESTDIR='$(python_stage)' >python/install.log 2>&1 || \
	    { cat python/install.log >&2; exit 1; }
	@CC='$(CC)' CFLAGS='$(CFLAGS) $(GPUB_CFLAGS) $(SANITIZER_FLAGS)' LDFLAGS='$(LDFLAGS) $(SANITIZER_FLAGS)' \
	    bash $(srcdir)/bindings/python/wheel.sh '$(abs_builddir)' '$(venv_python)' \
	    '$(python_stage)$(bindir)'/broker-run '$(python_stage)$(bindir)'/broker-status '$(python_stage)$(bindir)'/broker-ctl \
	    '$(python_stage)$(sbindir)'/brokerd
