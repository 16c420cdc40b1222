/* SPDX-License-Identifier: Apache-2.0 */
/*
 * python.h - the Python interface that every file here compiles against: the limited one, so that one binary serves all
 * versions. 3.11 is the first one whose limited interface has the buffer protocol.
 */
#ifndef GPUB_PYTHON_H
#define GPUB_PYTHON_H

#define PY_SSIZE_T_CLEAN
#ifndef Py_LIMITED_API
#define Py_LIMITED_API 0x030B0000
#endif
#include <Python.h>

#ifdef Py_GIL_DISABLED
#error "gpubroker needs a Python with the global interpreter lock, as a free-threaded Python has no limited API"
#endif

#include <gpubroker.h>

#endif
