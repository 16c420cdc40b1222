#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# kernels.sh - the module of kernels on the host device: each host twin against plain C. See kernels.c.
set -u
exec "${top_builddir:?}/broker/broker-run" --quiet -n 1 --device host -- "$top_builddir/tests/integration/kernels"
