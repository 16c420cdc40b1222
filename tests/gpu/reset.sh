#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# reset.sh - devices that are reset, stale registrations, and closes that wait: see reset.c.
set -u
# shellcheck source=tests/tap.sh
. "${top_srcdir:?}/tests/tap.sh"
need_cuda
use_gpus 2
exec "${top_builddir:?}/tests/gpu/reset"
