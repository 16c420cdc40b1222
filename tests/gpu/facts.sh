#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# facts.sh - what the design takes for granted about the CUDA driver, by experiment: see test-driver-facts.c.
set -u
# shellcheck source=tests/tap.sh
. "${top_srcdir:?}/tests/tap.sh"
need_cuda
use_gpus 2
exec "${top_builddir:?}/tests/gpu/test-driver-facts"
