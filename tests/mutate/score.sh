#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# score.sh RESULTS - the score of each file, and of all, from a file that MUTATE_RESULTS named: killed / (killed + survived), without
# the mutants that equivalent.txt lists today. Then the survivors.
set -euo pipefail

awk -F '\t' -v here="$(dirname "$0")" '
function row(name, killed, survived, equivalent) {
	printf "%-34s %4d of %4d %6.1f %%  %3d equivalent\n", name, killed, killed + survived, 100 * killed / (killed + survived), equivalent
}
BEGIN {
	while ((getline line < (here "/equivalent.txt")) > 0)
		if (split(line, part, "\t") > 3)
			known[part[1] FS part[2] FS part[3]] = 1
}
$1 == "survived" && ($3 FS $4 FS $5) in known { $1 = "equivalent" }
$1 == "none" { next }
!($3 in seen) { seen[$3] = 1; order[++files] = $3 }
{ count[$3, $1]++; all[$1]++ }
$1 == "survived" { left[++survivors] = $3 ":" $2 "\t" $4 "\t" $5 }
END {
	for (i = 1; i <= files; i++)
		if (count[order[i], "killed"] + count[order[i], "survived"])
			row(order[i], count[order[i], "killed"], count[order[i], "survived"], count[order[i], "equivalent"])
	if (all["killed"] + all["survived"])
		row("all", all["killed"], all["survived"], all["equivalent"])
	for (i = 1; i <= survivors; i++)
		print "survivor: " left[i]
}' "${1:?RESULTS}"
