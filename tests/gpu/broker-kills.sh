#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# broker-kills.sh - tests/integration/broker-kills.sh on a CUDA device.
set -u
# shellcheck source=tests/tap.sh
. "${top_srcdir:?}/tests/tap.sh"
need_cuda
BROKER_DEVICE=cuda BROKER_SAME_ADDRESS=0 exec bash "${top_srcdir:?}/tests/integration/broker-kills.sh"
