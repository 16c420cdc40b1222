#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# prolog.sh - for Slurm's Prolog, on each node: what epilog.sh does, before a job begins. So a job finds a node without what an
# earlier one of its user left, or it itself before it was requeued, where slurmd was killed before it could start the epilog.
exec "$(dirname "$0")/epilog.sh"
