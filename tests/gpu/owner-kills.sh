#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# owner-kills.sh - tests/integration/owner-kills.sh on a CUDA device: 4 GiB are checked while their owner is killed, or
# the broker. A new owner takes half a second to start, and as long for its first allocation.
set -u
# shellcheck source=tests/tap.sh
. "${top_srcdir:?}/tests/tap.sh"
need_cuda
OWNER_DEVICE=cuda OWNER_BYTES=4294967296 OWNER_KILLS=${OWNER_KILLS:-14} BROKER_KILLS=${BROKER_KILLS:-40} OWNER_PAUSE=1.5 exec bash "${top_srcdir:?}/tests/integration/owner-kills.sh"
