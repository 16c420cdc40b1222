#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# points.sh - what points_of() and run_points() in tests/tap.sh pass on of a program's output: each point under the program's name, and how many there
# were and should have been, also of a program that skipped itself.
# shellcheck disable=SC2016 # what a check evaluates expands then, not before
set -u
# shellcheck source=tests/tap.sh
. "${top_srcdir:?}/tests/tap.sh"

work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1

# passes TEXT SEEN PLANNED LINE...: of that output these lines are passed on. Its points are not this script's.
passes() {
	local before=$count
	printf '%b' "$1" >printed
	count=0
	points_of program printed >out
	count=$before
	[ "$seen/$planned" = "$2/$3" ] && printf '%s\n' "${@:4}" | diff out - >err
}
check "points, and the plan behind them" passes 'ok 1 - a\nnot ok 2 - b\n1..2\n' 2 2 'ok 1 - program: a' 'not ok 2 - program: b'
check "or before them" passes '1..1\nok 1 - a\n' 1 1 'ok 1 - program: a'
check "a point that is skipped" passes 'ok 1 - a # SKIP no GPU\n1..1\n' 1 1 'ok 1 - program: a # SKIP no GPU'
check "a program that is skipped as a whole: one point, with the reason" \
	passes '1..0 # SKIP root alone can be several users\n' 0 0 'ok 1 - program # SKIP root alone can be several users'
check "a plan with a comment" passes 'ok 1 - a\n1..1 # done\n' 1 1 'ok 1 - program: a'
check "a program that ended early planned more than there are" passes '1..3\nok 1 - a\n' 1 3 'ok 1 - program: a'
check "one that says nothing has no plan" eval 'passes "" 0 none; [ "$seen/$planned" = 0/none ] && [ ! -s out ]'
check "one that bails out says why" passes 'Bail out! no broker\n' 0 none '# program: Bail out! no broker'
# ends STATUS SHELL: that program's last point here
ends() {
	(run_points program sh -c "$2") >shown 2>/dev/null
	[ "$(grep -c "^$1 [0-9]* - program runs to its end$" shown)" = 1 ]
}
check "a program that ends well" ends ok 'echo "ok 1 - a"; echo 1..1'
check "one of which a point failed runs to its end, too" ends ok 'echo "not ok 1 - a"; echo 1..1; exit 1'
check "one that was skipped" ends ok 'echo "1..0 # SKIP no GPU"'
check "one that ended early does not" ends 'not ok' 'echo 1..2; echo "ok 1 - a"'
check "one that a signal ended behind its plan does not" ends 'not ok' 'echo "ok 1 - a"; echo 1..1; kill -SEGV $$'
plan
