#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# pages.sh - what it means to unregister a page while streams are not done, by experiment: see test-page-facts.c.
set -u
# shellcheck source=tests/tap.sh
. "${top_srcdir:?}/tests/tap.sh"
need_cuda
use_gpus 2
exec "${top_builddir:?}/tests/gpu/test-page-facts"
