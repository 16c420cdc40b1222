#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# status-watch.sh - broker-status --watch in a terminal of tmux, as a person sees it: figures and keys at 80 x 24 and other sizes, a
# broker that is stopped, dies, ends and comes back, and a terminal that is as before however it ends.
# shellcheck disable=SC2016 # what a check evaluates expands then, not before
set -u
# shellcheck source=tests/tap.sh
. "${top_srcdir:?}/tests/tap.sh"
own_shm

run=${top_builddir:?}/broker/broker-run
show=$top_builddir/broker/broker-status
client=$top_builddir/tests/integration/status-client

if ! command -v tmux >/dev/null; then
	echo "1..0 # SKIP there is no tmux (Debian: tmux)"
	exit 0
fi
if [[ $("$show" --watch none </dev/null 2>&1) = *"without ncurses"* ]]; then
	echo "1..0 # SKIP built without ncurses (Debian: libncurses-dev)"
	exit 0
fi

work=$(mktemp -d) || exit 1
name=watch-$$
broker=
cleanup() {
	local server
	for server in tmux tmux-2; do
		tmux -S "$work/$server" kill-server
		soon eval '! tmux -S "$work/$server" list-sessions'
	done
	[ -n "$broker" ] && kill -KILL "$broker"
	wait
	rm -rf "$work" /dev/shm/gpubroker."$name"*
} 2>/dev/null
trap cleanup EXIT
cd "$work" || exit 1

# refused CODE TEXT COMMAND...: it ends so, with one line that has the text
refused() {
	local code=$1 text=$2
	shift 2
	"$@" >out 2>err </dev/null
	[ $? = "$code" ] && [ ! -s out ] && [ "$(wc -l <err)" = 1 ] && grep -q "$text" err
}
check "without a broker it says so" refused 1 "" "$show" --watch "$name"
check "it has no JSON" refused 2 "leave out --json" "$show" --watch --json "$name"
check "and no list" refused 2 "leave out --json, --list" "$show" --watch --list
check "a second lasts at least one" refused 2 "number of seconds" "$show" --watch --delay 0 "$name"

# begin [WORDS...]: a broker with 30 sessions, of which the last does the words and calls itself so that a terminal would be cleared
begin() {
	rm -f go ready.*
	"$run" --quiet --name "$name" -n 30 --device host:2 -b shared=64M -- sh -c '
		client=$1 evil=$2
		shift 2
		if [ "$GPUBROKER_RANK" = 29 ]; then
			exec "$client" call "$evil" acquire shared mark ready.29 "$@" wait go
		fi
		exec "$client" acquire shared several "field/$GPUBROKER_RANK/" 4 mark "ready.$GPUBROKER_RANK" wait go' \
		sh "$client" "$(printf '\033[2J\033]0;x\007')" "$@" 2>run.err &
	broker=$!
	soon eval '[ "$(find . -name "ready.*" | wc -l)" = 30 ]'
}
# finish: it ends in order
finish() {
	touch go
	wait "$broker"
	broker=
}
if ! begin; then
	echo "Bail out! the clients do not get ready: $(cat run.err)"
	exit 1
fi
check "without a terminal it says so" refused 1 "needs a terminal" "$show" --watch "$name"

pane=
# watch COLUMNS ROWS LOCALE ARGS...: in a window of that size
watch() {
	local columns=$1 rows=$2 locale=$3
	shift 3
	tmux -S "$work/tmux" -f /dev/null -u new-session -d -x "$columns" -y "$rows" -s "watch$((++pane))" \
		"trap : INT; stty -a >before; LC_ALL=$locale '$show' --watch $*; code=\$?; stty -a >after; echo \$code >code; exec sleep 600"
	rm -f code
}
keys() {
	tmux -S "$work/tmux" send-keys -t "watch$pane" "$@"
}
look() {
	tmux -S "$work/tmux" capture-pane -p -t "watch$pane" >out
}
# sees PATTERN: on the screen, now
sees() {
	look && LC_ALL=C.UTF-8 grep -qE -e "$1" out
}
shows() {
	soon sees "$1"
}
fits() {
	look && [ "$(wc -l <out)" -le "$2" ] && [ "$(wc -L <out)" -le "$1" ]
}
process() {
	children "$(tmux -S "$work/tmux" list-panes -t "watch$pane" -F '#{pane_pid}')"
}
# ended CODE: it has ended so, and the terminal is as it was
ended() {
	soon test -s code && [ "$(cat code)" = "$1" ] && diff before after >out && [ "$(tmux -S "$work/tmux" display -p -t "watch$pane" '#{alternate_on}')" = 0 ]
}

watch 80 24 C.UTF-8 "$name"
check "the first line says which broker, and how it does" shows "^broker $name: running, pid $broker, 0 waiting .* every 1 s"
check "the second has rates with their histories" shows '^creates [0-9.]+/s +▁+ +acquires [0-9.]+/s +▁+ +allocated 0B/s +▁+'
check "the third has the first device, and how much of it is used" shows '^device 0: 64[.]?[0-9]*M of [0-9.]+[MG] used .* free +[▂▃▄▅▆▇]+'
check "sessions come first, with a heading" shows '^SESSION +PID +USER +COMMAND +RANK +STATE +AGE( +MAPPINGS)? +SIZE +HISTORY +HOLDS$'
check "each has a history" shows ' [0-9]+ +[0-9]+ .* +[0-9]+ +running +[0-9]+[sm]( +1)? +64[0-9.]*M +█+ +shared'
check "the last line has the keys" eval 'look; tail -n 1 out | grep -q "^q quit  Tab table "'
check "all of it fits 80 x 24" fits 80 24
keys G
check "End shows the last ones" shows ' rows [0-9]+ to 30 of 30$'
keys g
check "Home shows the first ones" shows ' rows 1 to [0-9]+ of 30$'
keys NPage
check "a page down is a screenful" shows ' rows 1[0-9] to 30 of 30$'
keys Up Up
check "the arrows scroll" shows ' rows [0-9]+ to 2[0-9] of 30$'
keys g Tab
check "Tab shows the buffers" shows '^BUFFER +SIZE +DEV +STATE +OWNER +AGE +GRANTS +HISTORY +HOLDERS$'
check "the largest comes first" eval 'grep -A1 ^BUFFER out | grep -qE "^shared +64M .* 30  .* [0-9]+,[0-9,]+ \+2[0-9]$"'
keys '>'
check "a key sorts by the first column" shows '^ .* by buffer, rows 1 to'
check "so it is" eval 'grep -A1 ^BUFFER out | grep -q "^field/0/0 "'
keys r
check "another one reverses that" shows ' by -buffer, rows 1 to'
check "so it is, too" shows '^shared '
keys Tab
check "the users have a table" shows '^USER +MEMORY +BUFFERS'
keys Tab
shows '^SESSION'
tmux -S "$work/tmux" resize-window -t "watch$pane" -x 160 -y 40
check "a larger window shows more" shows ' rows 1 to 30 of 30$'
check "and fits" fits 160 40
for size in 40x10 20x5 10x3; do
	tmux -S "$work/tmux" resize-window -t "watch$pane" -x ${size%x*} -y ${size#*x}
	check "a window of $size is not too small" eval 'shows "^brok" && fits ${size%x*} ${size#*x}'
done
tmux -S "$work/tmux" resize-window -t "watch$pane" -x 80 -y 24
keys Space
check "it can be paused" shows 'every 1 s, paused$'
keys Space

# ---- a broker that is stopped, ends, comes back and dies ----

process=$(broker_of "$broker")
kill -STOP "$process"
check "a stopped broker is shown, and how to continue it" eval 'shows "^broker $name: stopped" && sees "kill -CONT $process$"'
clock() {
	look && sed -nE '1s/.* ([0-9:]{8}) .*/\1/p' out
}
check "nothing of it is needed to go on" eval 'before=$(clock); soon eval "[ \"\$(clock)\" != \"$before\" ]"'
kill -CONT "$process"
check "it goes on" shows "^broker $name: running"
finish
check "one that ended is shown as it was, and why" eval 'shows "^broker $name: cannot be read" && sees "^there is no broker" && sees "last status. Waiting" && sees " of 30$"'
begin churn busy 100000
check "one that comes back is shown" shows "^broker $name: running, pid $broker,"
check "its creates are counted by the second" shows '^creates [1-9][0-9]*(.[0-9]|K)?/s .*[▂▃▄▅▆▇█]'
{
	kill -KILL "$broker"
	wait "$broker"
} 2>/dev/null
broker=
if [ "$OWN_SHM" = yes ]; then
	check "one that was killed is shown to be dead" shows "^broker $name: dead"
else
	skip "one that was killed is shown to be dead" "needs a /dev/shm of its own"
fi

# ---- its end ----

keys q
check "q ends it, and the terminal is as before" ended 0
begin
for signal in INT TERM HUP QUIT; do
	watch 80 24 C.UTF-8 "$name"
	shows "^broker $name: running"
	kill -$signal "$(process)"
	check "SIG$signal ends it, and the terminal is as before" ended $((128 + $(kill -l $signal)))
done
watch 80 24 C.UTF-8 "$name"
shows "^broker $name: running"
keys C-c
check "so does Ctrl-C" ended 130
watch 80 24 C --sort command "$name"
check "what a process calls itself is printable" shows ' [?]\[.*;?x[?] +29 '
check "in the C locale all of it is ASCII" eval 'shows "^creates .*/s _+ +acquires" && ! LC_ALL=C grep -q "[^ -~]" out'
keys q
check "it ends there, too" ended 0
watch 80 24 C.UTF-8 --delay 2 --sort -session --holder 3 "$name"
check "what is selected is shown alone" eval 'shows " sessions 30 .* by -session, rows 1 to 1 of 1$" && sees " every 2 s"'
keys q
ended 0
TERM=no-such-terminal tmux -S "$work/tmux-2" -f /dev/null new-session -d -x 80 -y 24 "TERM=no-such-terminal '$show' --watch $name 2>unknown; echo \$? >code"
rm -f code
check "a terminal that nobody knows is refused" eval 'soon test -s unknown && grep -q "set TERM" unknown'
finish
plan
