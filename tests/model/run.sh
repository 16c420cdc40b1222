#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# run.sh - the lease protocol in lease.pml, checked with spin: the right model must be searched to its end without an
# error, and each mistake must have a counterexample, that of the assertion named for it. The same for the formula that
# each drain and each acquire ends, under weak fairness. README.md: more, and larger.
#   run.sh                 the suite's configurations
#   run.sh large FLAGS...  one configuration, with $MODEL_MEMORY MiB (6000) and $MODEL_SECONDS (3600); with -DLIVE
#                          among the flags, the formula
set -u

model=$(cd "$(dirname "$0")" && pwd)/lease.pml
for tool in spin gcc timeout; do
	if ! command -v $tool >/dev/null; then
		echo "1..0 # SKIP $tool is not installed"
		exit 0
	fi
done
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1

memory=2000 seconds=60 optimise=-O0 depth=50000 count=0
safety='-DSAFETY' live='-DNFAIR=4' bounds='' # for assertions, or for the formula under weak fairness

# Leaves what spin, gcc and pan said in $work/out. The flags are words; what follows them is pan's.
search() {
	local kind=$safety how=

	case $1 in *-DLIVE*) kind=$live how='-a -f' ;; esac
	rm -f pan* ./*.trail
	# shellcheck disable=SC2086
	if ! spin -a $1 "$model" >out 2>&1 || grep -q 'Error:' out ||
	   ! gcc $optimise -w -DNOREDUCE -DCOLLAPSE "$kind" $bounds -DMEMLIM="$memory" -o pan pan.c >>out 2>&1; then
		echo "the model does not compile" >>out
		return
	fi
	# shellcheck disable=SC2086
	timeout "$seconds" ./pan $how ${2:-} -E -m$depth -w21 >>out 2>&1 || echo "pan ended with $?" >>out
}

report() {
	count=$((count + 1))
	if [ "$1" = 0 ]; then
		echo "ok $count - $2"
	else
		echo "not ok $count - $2"
		tail -n 40 out | sed 's/^/# /'
	fi
}

# Truncated by depth, memory or time is not searched.
searched() {
	grep -q 'errors: 0$' out && ! grep -qE 'max search depth|out of memory|Search not completed|pan ended with' out
}

right() {
	search "$1"
	searched
	report $? "right: $1 ($(grep -oE '[0-9.e+]+ states, stored' out))"
}

# A counterexample that is only the model's own bound (its pool, a channel) does not count.
wrong() {
	search "$1"
	grep -q 'errors: 1$' out && grep -qF "$2" out
	report $? "wrong: $1"
}

# A drain or an acquire that never ends; what other mistakes it makes is not asked.
endless() {
	search "$1" -A
	grep -q 'errors: 1$' out && grep -qF 'acceptance cycle' out
	report $? "endless: $1"
}

if [ "${1:-}" = large ]; then
	shift
	memory=${MODEL_MEMORY:-6000} seconds=${MODEL_SECONDS:-3600} optimise=-O2 depth=2000000
	search "$*"
	cat out
	searched
	exit
fi

# What an assertion of lease.pml says in pan's words.
touched='(mapped[R]&& !(freed[mapped[R]]))' # the GPU touches what is not mapped, or freed
mapped='(mapped[R]!=1)'                     # it is freed while a process maps it
drained='(freed[s]&&(open[s]==0))'          # a drain never ends
named='serial[R]>floor'                     # an acquire finds another buffer, or one that was unlinked before
renewed='(serial[R]==lserial)'              # a renew finds another buffer
taken='hold[((R*1)+k)]=='                   # a lease lost its hold
forgotten='!(mapped[R])||'                  # a disconnect leaves a mapping behind
closed='(mapped[R]&&(mapped[R]==serial[R]))' # a record is closed twice
kept='!(stranded[R])'                       # the closer looks for ever at what cannot be closed
lied='!(((secret[c]>>'                      # it is freed while a process maps it that said CLOSED
shared='(allocation[mapped[R]]!=1)'         # it is freed while a process maps another buffer in it
beside='freed[allocation[mapped[R]]]'       # the GPU touches a buffer whose neighbour's unlink freed it
settled='(freed[s]==(n==0))'                # the death of who holds it does not free it

other='-DOTHER=1 -DLIES -DNORENEW -DNOUNORD -DNG=1'
slab='-DPER=2 -DNN=2 -DNG=2 -DTRIMS=0 -DNORENEW -DNOUNORD'
ends='-DLIVE -DBG -DNOLEAVE -DNORENEW -DNOUNORD -DNG=1 -DTRIMS=0'

echo 1..54
right '-DNG=1 -DITERS=2'
right '-DNG=1 -DITERS=2 -DCRASH=1 -DNORENEW'
right '-DNG=1 -DITERS=2 -DTIMEOUTS -DFAILOPEN=1 -DMG=8'
right '-DNG=1 -DITERS=1 -DBG'
right '-DNG=2 -DITERS=1 -DNSTR=2 -DNSL=2 -DNORENEW'
optimise=-O1
right '-DNG=1 -DITERS=1 -DCLOSEFAIL=1 -DCRASH=1 -DNR=4 -DBG'
right '-DNG=2 -DITERS=1 -DBG -DNOLEAVE'
right '-DNG=1 -DITERS=1 -DNAPP=2 -DNOUNORD -DNORENEW'
right '-DNC=2 -DNG=1 -DITERS=1 -DTRIMS=0 -DBG -DNOLEAVE -DNOUNORD -DNORENEW'
right "$other -DITERS=1 -DCRASH=1"
optimise=-O0
right "$other -DITERS=2"
right "$slab -DITERS=2"
right "$ends -DITERS=1 -DPARKS -DDIES -DCRASH=1"
right "$ends -DITERS=1 -DOTHER=1 -DDIES -DCRASH=1"
right "$ends -DFOREVER"
right "$ends -DFOREVER -DSTAYS"

bounds='-DNOBOUNDCHECK' # compiles in half the time; the right ones are checked for bounds
wrong '-DF_CATONLY -DNG=1' "$touched"
wrong '-DF_NOCAT -DNG=1' "$named"
wrong '-DF_REUSE -DNG=1' "$touched"
wrong '-DF_BOOL -DNG=1' "$touched"
wrong '-DF_REORD_A -DNG=1' "$touched"
wrong '-DF_REORD_S -DNG=1' "$touched"
wrong '-DF_NOVERSION -DNN=2 -DNG=2 -DNAPP=2 -DITERS=1 -DITERS2=2 -DNORENEW -DNOUNORD -DNR=3' "$named"
wrong '-DF_NOBASE -DNG=2 -DITERS=3 -DTRIMS=0 -DBG -DNOLEAVE -DNOUNORD' "$renewed"
wrong '-DF_NOSEQ -DCOPIES -DNG=1 -DNAPP=2' "$taken"
wrong '-DF_NOSYNC -DNG=1 -DITERS=1' "$touched"
wrong '-DF_REVERTLATE -DNG=1' "$touched"
wrong '-DF_WAITBLIND -DBG -DNOLEAVE -DNG=1 -DITERS=1' "$closed"
wrong '-DF_EARLY -DNG=1 -DITERS=1' "$mapped"
wrong '-DF_ACKFAIL -DCLOSEFAIL=1 -DCRASH=1 -DNG=1 -DITERS=1' "$mapped"
wrong '-DF_NOGID -DNG=1' "$mapped"
wrong '-DF_SPLIT -DBG -DNOLEAVE -DNG=1 -DITERS=1' "$drained"
wrong '-DF_NOTICEOPEN -DBG -DNOLEAVE -DNG=1' "$drained"
wrong '-DF_POLLONCE -DBG -DNOLEAVE -DNG=1' "$drained"
wrong '-DF_LOSTWAKE -DBG -DNOLEAVE -DNG=1 -DITERS=1' "$drained"
wrong '-DF_NOSTOP -DBG -DNG=1 -DITERS=1' "$forgotten"
wrong '-DF_STRANDED -DBG -DCLOSEFAIL=1 -DCRASH=1 -DNG=1 -DITERS=1' "$kept"
wrong '-DF_NOLEFT -DTIMEOUTS -DNG=1 -DITERS=1' "$forgotten"
wrong '-DF_LEAVEOPEN -DTIMEOUTS -DNG=1 -DITERS=1' "$forgotten"
wrong '-DF_RESET -DTIMEOUTS -DNG=1 -DITERS=1' "$drained"
wrong '-DF_PIDFDLIES -DCRASH=1 -DNG=1 -DITERS=1' "$mapped"
wrong '-DF_HUPLIES -DCRASH=1 -DNG=1 -DITERS=1' "$mapped"
wrong "-DF_BELIEVE $other -DITERS=1 -DCRASH=1" "$mapped"
wrong "-DF_HANGUPENDS $other -DITERS=1 -DCRASH=1" "$lied"
wrong "-DF_HELDTWICE $other -DITERS=1 -DCRASH=1" "$lied"
wrong "-DF_HELDLOST $other -DITERS=1 -DCRASH=1" "$settled"
wrong '-DF_ONEHELD -DOTHER=1 -DLIES -DNORENEW -DNOUNORD -DTRIMS=0 -DNG=2 -DITERS=2' "$lied"
wrong "-DF_FIRSTNAME $slab -DITERS=1" "$beside"
wrong "-DF_ONEGRANT $slab -DITERS=2" "$shared"

endless "-DF_NOWAKE $ends -DITERS=1"
endless "-DF_NOTICEDUMB $ends -DITERS=1"
endless "-DF_NOCAT $ends -DFOREVER"
endless "-DF_HELDLOST $ends -DITERS=1 -DOTHER=1 -DDIES -DCRASH=1"
endless "-DF_OPENDUMB $ends -DITERS=1 -DSTAYS"
