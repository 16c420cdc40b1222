#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# status-many.sh - broker-status beside 5,000 buffers and 300 sessions: one line each, whole in a pipe and no wider than a terminal;
# what is looked for is found; and what a process calls itself cannot reach the terminal.
# shellcheck disable=SC2016 # what a check evaluates expands then, not before
set -u
# shellcheck source=tests/tap.sh
. "${top_srcdir:?}/tests/tap.sh"

run=${top_builddir:?}/broker/broker-run
show=$top_builddir/broker/broker-status
client=$top_builddir/tests/integration/status-client

work=$(mktemp -d) || exit 1
name=many-$$
broker=
cleanup() {
	[ -n "$broker" ] && kill -KILL "$broker"
	wait
	rm -rf "$work" /dev/shm/gpubroker."$name"*
} 2>/dev/null
trap cleanup EXIT
cd "$work" || exit 1

# The last one calls itself so that a terminal would be cleared.
evil=$(printf '\033[2J\033]0;x\007')
"$run" --quiet --name "$name" -n 300 --buffers 8192 --device host:2 -b shared=64M -b other=1M@1 -- sh -c '
	[ "$GPUBROKER_RANK" = 299 ] && set -- "$1" call "$2" || set -- "$1"
	exec "$@" several simulation/field/with/a/long/name/$GPUBROKER_RANK/ 17 acquire shared \
		acquire simulation/field/with/a/long/name/$GPUBROKER_RANK/3 mark ready.$GPUBROKER_RANK wait go' \
	sh "$client" "$evil" 2>err &
broker=$!
ready() {
	[ "$(find . -name 'ready.*' | wc -l)" = 300 ]
}
for _ in 1 2 3 4 5 6; do
	soon ready && break
done
if ! ready; then
	echo "Bail out! the clients do not get ready: $(tail -n 3 err)"
	exit 1
fi

# terminal COLUMNS ARGS...: on a terminal of that width, with colors, leaves screen
terminal() {
	local columns=$1
	shift
	TERM=xterm script -qec "stty cols $columns rows 24; exec $show $*" /dev/null </dev/null | tr -d '\r' >screen
}
# widest: columns of the longest line, without the colors
widest() {
	sed 's/\x1b\[[0-9]*m//g' screen | awk 'length > most { most = length } END { print most + 0 }'
}
# table HEADING: the lines below it
table() {
	sed 's/\x1b\[[0-9]*m//g' screen | awk -v heading="^ *$1 " '$0 ~ heading { on = 1; next } /^$/ { on = 0 } on'
}

"$show" "$name" >screen
check "each buffer has one line" eval '[ "$(table BUFFER | wc -l)" = 5102 ]'
check "each session has one line" eval '[ "$(table SESSION | wc -l)" = 300 ]'
check "names are whole in a pipe" eval \
	'[ "$(table BUFFER | grep -cE "^simulation/field/with/a/long/name/[0-9]+/[0-9]+ +4K +0 +live ")" = 5100 ]'
check "the largest comes first, with some of who holds it and how many more do" eval \
	'table BUFFER | head -n 1 | grep -qE "^shared +64M .* 300  ([0-9]+,){63}[0-9]+ \+236$"'
check "a device says what is used of it" eval 'grep -qE "^ +1  host device 1 .* 1M +0B " screen'
check "what a process calls itself is printable" eval '! grep -q "[^[:print:]]" screen && table SESSION | grep -qF " ?[2J?]0;x? "'
for columns in 40 80 133 200; do
	terminal $columns "$name"
	check "on a terminal of $columns columns no line is wider, and none is lost" eval \
		'[ "$(widest)" -le $columns ] && [ "$(widest)" -gt $((columns / 2)) ] && [ "$(table "BUFFER" | wc -l)" = 5102 ]'
done
check "names are whole on a wide one" eval '[ "$(table BUFFER | grep -cE "^simulation/field/with/a/long/name/[0-9]+/[0-9]+ ")" = 5100 ]'
check "headings stand out there" grep -q "$(printf '^\033\[1mBUFFER ')" screen
check "nothing but colors controls the terminal" eval '! sed "s/\x1b\[[0-9]*m//g" screen | grep -q "[^[:print:]]"'
check "NO_COLOR is obeyed" eval 'export NO_COLOR=1; terminal 80 "$name"; unset NO_COLOR; ! grep -q "[^[:print:]]" screen && grep -q "^BUFFER " screen'

"$show" --json "$name" >json
pid=$(awk '/"sessions"/ { on = 1 } on && /"rank": 150,?$/ { print pid } /"pid":/ { pid = $2 + 0 }' json)
"$show" --holder "$pid" "$name" >screen
check "a process's buffers are found, and the process" eval \
	'[ "$(table BUFFER | wc -l)" = 2 ] && [ "$(table SESSION | wc -l)" = 1 ] && table BUFFER | grep -q "name/150/3 "'
"$show" --device 1 --columns buffer,dev "$name" >screen
check "so is what is on a device" eval '[ "$(cat screen)" = "BUFFER  DEV
other     1" ]'
"$show" --sort -buffer --columns buffer "$name" >screen
check "names are sorted" eval '[ "$(sed -n 2p screen)" = simulation/field/with/a/long/name/99/9 ] && sed 1d screen | LC_ALL=C sort -rc'
"$show" --sort buffers.buffer --columns buffer "$name" >screen
check "also with their table's name" eval '[ "$(tail -n 1 screen)" = simulation/field/with/a/long/name/99/9 ] && sed 1d screen | LC_ALL=C sort -c'
"$show" --user nobody "$name" >screen
check "of a user who has nothing it is said" grep -q "^It has nothing of that user" screen
# refused ARGS...: one error message and exit 2
refused() {
	"$show" "$@" >out 2>err
	[ $? = 2 ] && [ ! -s out ] && [ "$(wc -l <err)" = 1 ]
}
check "a column that is not there is refused" refused --sort nothing "$name"
check "so is an empty one" refused --columns buffer, "$name"
check "so is a user who is not there" refused --user no-such-user-here "$name"
check "so is a device that cannot be" refused --device 64 "$name"
check "so is a selection of JSON" refused --json --sort size "$name"
check "so is a selection in a list" refused --list --device 0

touch go
wait "$broker"
code=$?
broker=
check "all of it ends in order" test "$code" = 0
plan
