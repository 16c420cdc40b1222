#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# run.sh - the lease protocol in lease.pml, the owner's death in owner.pml and the broker's death in survive.pml, checked with spin: the right models must
# be searched to their end without an error, and each mistake must have a counterexample, that of the assertion named
# for it. The same for the formula that each drain and each acquire ends, under weak fairness. README.md: more, and larger.
#   run.sh                        the suite's configurations
#   run.sh large [owner|survive] FLAGS... one configuration, with $MODEL_MEMORY MiB (6000) and $MODEL_SECONDS (3600); with
#                                 -DLIVE among the flags, the formula
set -u

here=$(cd "$(dirname "$0")" && pwd)
model=$here/lease.pml
cc=$(command -v clang || command -v gcc) # clang compiles a pan in half of gcc's time
for tool in spin "${cc:-gcc}"; do
	if ! command -v "$tool" >/dev/null; then
		echo "1..0 # SKIP there is no $tool (Debian: $tool)"
		exit 0
	fi
done
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1

memory=2000 seconds=120 optimise=-O0 depth=50000 bounds='' part=''

# Leaves what spin, the compiler and pan said in ./out. The flags are words; what follows them is pan's. Assertions are
# searched with partial-order reduction, but where processes end; the formula under weak fairness, without. With -DENDS
# a cycle of states is an error, too: owner.pml and survive.pml have none, so each of their runs ends.
search() {
	local kind='-DSAFETY' how=

	case $1 in *-DLIVE*) kind='-DNFAIR=4 -DNOREDUCE' how='-a -f' ;; *-DENDS*) kind='-DNP -DNOREDUCE' how=-l ;; *-DCRASH*) kind='-DSAFETY -DNOREDUCE' ;; esac
	# shellcheck disable=SC2086
	if ! spin -a $1 "$model" >out 2>&1 || grep -q 'Error:' out ||
	   ! "$cc" $optimise -w -DCOLLAPSE $kind $bounds -DMEMLIM="$memory" -o pan pan.c >>out 2>&1; then
		echo "the model does not compile" >>out
		return
	fi
	# shellcheck disable=SC2086
	timeout "$seconds" ./pan $how ${2:-} -E -m$depth -w21 >>out 2>&1 || echo "pan ended with $?" >>out
}

# Truncated by depth, memory or time is not searched.
searched() {
	grep -q 'errors: 0$' out && ! grep -qE 'max search depth|out of memory|Search not completed|pan ended with' out
}

if [ "${1:-}" = large ]; then
	shift
	case ${1:-} in
	owner | survive)
		model=$here/$1.pml
		shift
		;;
	esac
	memory=${MODEL_MEMORY:-6000} seconds=${MODEL_SECONDS:-3600} optimise=-O2 depth=2000000
	search "$*"
	cat out
	searched
	exit
fi

# The protocol's table has every message of the model. KNOWN is a GRANT whose handle the session has (WIRE_NO_HANDLE).
names_known() {
	local name
	for name in $(sed -n 's/^mtype = { \(ACQUIRE.*\) };/\1/p' "$model" | tr -d ,); do
		[ "$name" = KNOWN ] || grep -q "ROW($name, " "$here/../../libbroker/common/wire.h" || return
	done
	[ -n "$name" ]
}

# ---- cases: as many at a time as there are cores, four at most, and memory; their lines in the order of the cases ----

available=$(awk '/^MemAvailable:/ { print int($2 / 1024) }' /proc/meminfo)
cores=$(nproc)
[ "$cores" -le 4 ] || cores=4
[ "$cores" -le $((available / memory)) ] || cores=$((available / memory))
[ "$cores" -ge 1 ] || cores=1
count=0 told=0 failed=0

report() {
	if [ "$1" = 0 ]; then
		echo "ok $count - $2"
	else
		echo "not ok $count - $2"
		tail -n 40 out | sed 's/^/# /'
	fi
}

# Those that are next in order.
tell() {
	while [ -e $((told + 1))/report ]; do
		told=$((told + 1))
		cat $told/report
		grep -q '^ok' $told/report || failed=1
		rm -r $told
	done
}

# One case in a directory of its own, once a core is free.
case_begin() {
	count=$((count + 1))
	while [ "$(jobs -rp | wc -l)" -ge "$cores" ]; do
		wait -n
	done
	tell
	mkdir $count
	(cd $count && "$@" >line && rm -f pan* && mv line report) &
}

right() { case_begin judge_right "$@"; }
wrong() { case_begin judge_wrong "$@"; }
endless() { case_begin judge_endless "$@"; }

judge_right() {
	search "$1"
	searched
	report $? "right$part: $1 ($(grep -oE '[0-9.e+]+ states, stored' out))"
}

# A counterexample that is only the model's own bound (its pool, a channel) does not count.
judge_wrong() {
	search "$1"
	grep -q 'errors: 1$' out && grep -qF "$2" out
	report $? "wrong$part: $1"
}

# A drain or an acquire that never ends; what other mistakes it makes is not asked.
judge_endless() {
	search "$1" -A
	grep -q 'errors: 1$' out && grep -qF 'acceptance cycle' out
	report $? "endless: $1"
}

# What an assertion of lease.pml says in pan's words.
touched='(mapped[X]==allocation[s])&&'        # the GPU touches what is not mapped, or freed
reused='(state[s]!=0)'                      # it touches a range that may be another buffer's by now
mapped='(mapped[X]!=1)'                     # it is freed while a process maps it
drained='(freed[allocation[s]]&&(open[allocation[s]]==0))' # a drain never ends
counted='((state[s]==0)&&(grants[s]==0))'   # a buffer is never over, or has a grant too few
named='serial[R]>floor'                     # an acquire finds another buffer, or one that was unlinked before
renewed='(serial[R]==lserial)'              # a renew finds another buffer
taken='hold[((R*1)+k)]=='                   # a lease lost its hold
forgotten='!(mapped[X])||'                  # a disconnect leaves a mapping behind
closed='(mapped[X]&&(mid[X]==sg))'          # a mapping is closed twice
retired='&&serial[R])'                      # a record is released twice
stale='(serial[R]&&(mapped[on[R]]=='        # an acquire finds what is not mapped
kept='!(leaked[X])'                       # the closer looks for ever at what cannot be closed
lied='!(((secret[c]>>'                      # a range or memory is over while a process uses it that said otherwise
held='(grants[s]==n)'                      # a buffer has other grants than living processes hold
lost='(unlinked[n]>=want)'                  # a ticket is spent, and its buffer not had
charged='||granted['                        # a redeemed mapping without a grant: mapped, and not charged

written='!(after)&&((c==0)||'                # a lease writes a sealed buffer

other='-DOTHER=1 -DLIES -DNORENEW -DNOUNORD -DNG=1'
slab='-DPER=2 -DNN=2 -DNG=2 -DTRIMS=0 -DNORENEW'
pair='-DNC=2 -DNG=1 -DITERS=1 -DTRIMS=0 -DNORENEW -DNOUNORD'
ticket='-DREDEEMS -DNORENEW -DNOUNORD -DNR=3 -DNM=3'
ends='-DLIVE -DBG -DNOLEAVE -DNORENEW -DNOUNORD -DNG=1 -DTRIMS=0'
seal='-DSEALS -DNG=1 -DTRIMS=0 -DNORENEW -DNOUNORD'
stuck='-DLIVE -DNOLEAVE -DNORENEW -DNOUNORD -DNG=1 -DITERS=2 -DCLOSEFAIL=1 -DSTAYS'

echo 1..189
count=1
names_known
report $? "each message of the model is one of the protocol's"
told=1
right '-DNG=1 -DITERS=2'
right '-DNG=1 -DITERS=2 -DTIMEOUTS -DFAILOPEN=1 -DMG=8 -DNORETIRE'
right '-DNG=1 -DITERS=1 -DBG'
right '-DNG=1 -DITERS=1 -DNAPP=2 -DNOUNORD -DNORENEW -DTRIMS=0'
right '-DNG=2 -DITERS=1 -DBG -DNOLEAVE -DNORETIRE -DNORENEW -DNOUNORD -DTRIMS=0'
right '-DKEEPS -DNG=1 -DITERS=1 -DTRIMS=0 -DNORENEW'
right '-DNG=1 -DITERS=1 -DCRASH=1 -DNORENEW'
right '-DNG=2 -DITERS=1 -DNSTR=2 -DNSL=2 -DNORENEW -DNORETIRE'
right '-DNG=1 -DITERS=1 -DCLOSEFAIL=1 -DCRASH=1 -DNR=4 -DBG -DNORETIRE'
right "$other -DITERS=1 -DCRASH=1"
right "$other -DITERS=2"
right "$slab -DNOUNORD -DITERS=2"
right "$slab -DNOUNORD -DITERS=1 -DFAILOPEN=1 -DTIMEOUTS"
right "$slab -DITERS=1 -DBG -DNOLEAVE"
right "$slab -DNOUNORD -DITERS=1 -DOTHER=1 -DLIES"
right '-DPOOL -DNG=2 -DITERS=1 -DTRIMS=0 -DNORENEW'
right '-DTIGHT -DNG=1 -DITERS=2'
right "-DTIGHT $slab -DNOUNORD -DITERS=2"
right '-DLATER -DNG=1 -DITERS=2'
right "-DLATER $slab -DNOUNORD -DITERS=2"
right "-DLATER $ticket -DNG=1 -DITERS=2"
right "-DLATER $ends -DITERS=1"
right "-DRENAMES $slab -DNOUNORD -DITERS=2"
right "-DRENAMES $slab -DITERS=1 -DBG -DNOLEAVE"
right "-DRENAMES $slab -DNOUNORD -DITERS=1 -DOTHER=1 -DLIES"
right "$seal -DITERS=2"
right "$seal -DNC=2 -DITERS=1 -DNORETIRE"
right "$pair"
right "$pair -DOTHER=2 -DLIES"
right "$ticket -DNG=1 -DITERS=2"
right "$ticket -DNG=1 -DITERS=1 -DFAILOPEN=1 -DTIMEOUTS"
right "$ticket -DNG=1 -DITERS=1 -DTRIMS=0 -DNAPP=2"
right "$ticket -DNG=1 -DITERS=1 -DTRIMS=0 -DCRASH=1"
right "$ticket -DNG=1 -DITERS=1 -DOTHER=1 -DLIES"
right '-DREDEEMS -DNR=4 -DNM=3 -DPER=2 -DNN=2 -DNG=2 -DTRIMS=0 -DNORENEW -DNOUNORD -DITERS=2'
right '-DVMM -DNG=1 -DITERS=2'
right '-DVMM -DNG=1 -DITERS=1 -DBG'
right "-DVMM $slab -DITERS=1 -DBG -DNOLEAVE"
right '-DVMM -DTIGHT -DNG=1 -DITERS=2 -DTRIMS=0 -DNOLEAVE -DNOUNORD -DNORENEW'
right '-DVMM -DNG=2 -DITERS=2 -DTRIMS=0 -DNOLEAVE -DNOUNORD -DNORENEW'
right "$ends -DITERS=1 -DPARKS -DDIES -DCRASH=1 -DNORETIRE"
right "$ends -DITERS=1 -DOTHER=1 -DDIES -DCRASH=1"
right "$ends -DITERS=1"
right "$ends -DITERS=1 -DTIGHT"
right "$ends -DITERS=1 -DREDEEMS"
right "$ends -DFOREVER -DNORETIRE"
right "$ends -DFOREVER -DSTAYS"
right "$stuck"
bounds='-DNOBOUNDCHECK' # compiles in half the time; the right ones are checked for bounds
wrong '-DF_CATONLY -DNG=1' "$touched"
wrong '-DF_NOCAT -DNG=1' "$named"
wrong '-DF_REUSE -DNG=1' "$touched"
wrong '-DF_BOOL -DNG=1' "$touched"
wrong '-DF_REORD_A -DNG=1' "$touched"
wrong '-DF_REORD_S -DNG=1' "$touched"
wrong '-DF_NOVERSION -DNN=2 -DNG=2 -DNAPP=2 -DITERS=1 -DITERS2=2 -DNORENEW -DNOUNORD -DNR=3' "$named"
wrong '-DF_NOBASE -DNG=2 -DITERS=3 -DTRIMS=0 -DBG -DNOLEAVE -DNOUNORD -DNORETIRE' "$renewed"
wrong '-DF_NOSEQ -DCOPIES -DNG=1 -DNAPP=2 -DNORETIRE -DTRIMS=0' "$taken"
wrong '-DF_NOSYNC -DNG=1 -DITERS=1' "$touched"
wrong '-DF_VMMBLIND -DVMM -DNG=1 -DITERS=1' "$touched"
wrong '-DF_VMMPROOFFIRST -DVMM -DNG=1 -DITERS=1' "$touched"
wrong '-DF_REVERTLATE -DNG=1' "$touched"
wrong '-DF_WAITBLIND -DBG -DNOLEAVE -DNG=1 -DITERS=1' "$closed"
wrong '-DF_EARLY -DNG=1 -DITERS=1' "$mapped"
wrong '-DF_ACKFAIL -DCLOSEFAIL=1 -DCRASH=1 -DNG=1 -DITERS=1' "$mapped"
wrong '-DF_SPLIT -DBG -DNOLEAVE -DNG=1 -DITERS=1' "$drained"
wrong '-DF_NOTICEOPEN -DBG -DNOLEAVE -DNG=1 -DNORETIRE' "$drained"
wrong '-DF_POLLONCE -DBG -DNOLEAVE -DNG=1' "$drained"
wrong '-DF_LOSTWAKE -DBG -DNOLEAVE -DNG=1 -DITERS=1' "$drained"
wrong '-DF_NOSTOP -DBG -DNG=1 -DITERS=1' "$forgotten"
wrong '-DF_LEAKED -DBG -DCLOSEFAIL=1 -DCRASH=1 -DNG=1 -DITERS=1' "$kept"
wrong '-DF_NOLEFT -DTIMEOUTS -DNG=1 -DITERS=1' "$forgotten"
wrong '-DF_LEAVEOPEN -DTIMEOUTS -DNG=1 -DITERS=1' "$forgotten"
wrong '-DF_RESET -DTIMEOUTS -DNG=1 -DITERS=1' "$drained"
wrong '-DF_PIDFDLIES -DCRASH=1 -DNG=1 -DITERS=1' "$mapped"
wrong '-DF_HUPLIES -DCRASH=1 -DNG=1 -DITERS=1' "$mapped"
wrong "-DF_TRUST $other -DITERS=1 -DCRASH=1" "$mapped"
wrong "-DF_HANGUPENDS $other -DITERS=1 -DCRASH=1" "$lied"
wrong "-DF_ORPHANTWICE $other -DITERS=1 -DCRASH=1" "$lied"
wrong "-DF_ORPHANLOST $other -DITERS=1 -DCRASH=1" "$held"
wrong '-DF_ONEORPHAN -DOTHER=1 -DLIES -DNORENEW -DNOUNORD -DTRIMS=0 -DNG=2 -DITERS=2' "$lied"
wrong "-DF_FIRSTNAME $slab -DNOUNORD -DITERS=1" "$touched"
wrong "-DF_ONERECORD $slab -DNOUNORD -DITERS=2" "$touched"
wrong "-DF_UNQUIESCED $slab -DITERS=1" "$reused"
wrong "-DF_PROOFFIRST $slab -DITERS=1" "$reused"
wrong "-DF_UNORDEREDLATE $slab -DITERS=1" "$reused"
wrong "-DF_QUIESCEDFIRST $slab -DNOUNORD -DITERS=1" "$reused"
wrong '-DF_DROPQUIESCED -DKEEPS -DNG=1 -DTRIMS=0 -DNORENEW -DITERS=1' "$reused"
wrong "-DF_RETIRESTAY $slab -DNOUNORD -DITERS=1" "$forgotten"
wrong "-DF_CLOSERACE -DF_RETIRESTAY $slab -DNOUNORD -DITERS=1" "$retired"
wrong '-DF_SILENT -DPER=2 -DNN=2 -DNG=2 -DNORENEW -DNOUNORD -DITERS=1 -DBG -DNOLEAVE' "$drained"
wrong "-DF_STALEMAP $slab -DNOUNORD -DITERS=2 -DTRIMS=1" "$stale"
wrong "-DF_LEAVEKNOWN $slab -DNOUNORD -DITERS=2 -DTIMEOUTS" "$mapped"
wrong "-DF_REFUSEKNOWN $slab -DNOUNORD -DITERS=2 -DFAILOPEN=1" "$mapped"
wrong "-DF_REFUSEDUMB $slab -DNOUNORD -DITERS=2 -DFAILOPEN=1 -DBG -DNOLEAVE" "$drained"
wrong "-DF_NOTICEZERO $slab -DNOUNORD -DITERS=1 -DBG -DNOLEAVE" "$drained"
wrong "-DF_NOTICECROSS -DF_RETIRESTAY $slab -DNOUNORD -DITERS=1 -DBG -DNOLEAVE" "$drained"
wrong "-DF_GRANTLEAK $slab -DNOUNORD -DITERS=1" "$drained"
wrong "-DF_RECYCLELIVE $slab -DNOUNORD -DITERS=1" "$reused"
wrong '-DF_QUIESCEDFOREIGN -DFORGES -DNG=1 -DITERS=1 -DTRIMS=0 -DNOUNORD -DNORENEW' "$reused"
wrong "-DF_TRUSTQUIESCED $other -DITERS=1" "$lied"
wrong '-DF_FOREIGNQUIESCED -DOTHER=1 -DBG -DNOLEAVE -DNG=1 -DNORENEW -DNOUNORD -DITERS=1' "$held"
wrong "-DF_MERGELOST -DOTHER=1 -DLIES $slab -DNOUNORD -DITERS=2" "$lied"
wrong '-DF_QUIESCEDTWICE -DTWICE -DNG=1 -DITERS=1 -DTRIMS=0 -DNOUNORD -DNORENEW' "$counted"
wrong "-DF_RECYCLEUSED $pair" "$reused"
wrong "-DF_NOGID $ticket -DNG=1 -DITERS=2 -DNORETIRE" "$mapped"
wrong "-DF_REDEEMKNOWN $ticket -DNG=1 -DITERS=2" "$reused"
wrong "-DF_TRIMAWAITED $ticket -DNG=1 -DITERS=1" "$lost"
wrong "-DF_OWNDUMB $ticket -DNG=1 -DITERS=1 -DTRIMS=0 -DBG -DNOLEAVE" "$drained"
wrong "-DF_OWNQUIESCED $ticket -DPER=2 -DNG=2 -DITERS=2 -DTRIMS=0" "$charged"
wrong '-DF_BACKDUMB -DTIGHT -DNG=1 -DITERS=1 -DTRIMS=0 -DNORENEW -DNOUNORD -DBG -DNOLEAVE' "$drained"

wrong "-DF_SEALRIGHTS $seal -DITERS=2" "$written"
wrong "-DF_SEALRECORD $seal -DITERS=2" "$written"
wrong "-DF_SEALLATE $seal -DITERS=3" "$written"
wrong "-DF_SEALALL $seal -DNC=2 -DITERS=2 -DNORETIRE" "$written"
wrong "-DF_SEALBLIND $seal -DNC=2 -DITERS=1 -DNORETIRE" "$written"
wrong "-DF_RENAMEWORD -DRENAMES $slab -DNOUNORD -DITERS=2" "$named"
wrong "-DF_RENAMEDUMB -DRENAMES $slab -DNOUNORD -DITERS=1 -DBG -DNOLEAVE" "$drained"
wrong "-DF_RENAMEUSED -DRENAMES $slab -DNOUNORD -DITERS=1" "$reused"
wrong "-DF_RENAMEKEY -DRENAMES $slab -DNOUNORD -DITERS=1 -DBG -DNOLEAVE" "$drained"

endless "-DF_NOWAKE $ends -DITERS=1"
endless "-DF_NOTICEDUMB $ends -DITERS=1"
endless "-DF_NOCAT $ends -DFOREVER -DNORETIRE"
endless "-DF_ORPHANLOST $ends -DITERS=1 -DOTHER=1 -DDIES -DCRASH=1"
endless "-DF_OPENDUMB $ends -DITERS=1 -DSTAYS"
endless "-DF_KNOWNSPIN $stuck"

# ---- the owner's death ----

model=$here/owner.pml part=' owner' bounds=''
late='(bytes[(mapped[c]-1)]==serial)'       # a zero lands in a buffer that a client uses
dirty='!(bytes[(mapped[c]-1)])||'           # a client gets the bytes of the buffer before
meant='(tenant[(p-1)]==(a+1))'              # a RELEASE frees other memory than it means
answered='((finished[0]==number[0])&&'      # a job is never done
once='((finished[a]+1)==number[a])'         # a job is done twice
unknown='||unadopted[a])'                   # the owner does not know memory that has a descriptor
adopted='!(at[((o*'                         # memory is adopted twice
nameless='||(maker['                        # a buffer has a name though its memory has ended
account='||(failed&&(state['                # the broker counts memory as lost
leaked='!(at[((owner*'                      # the owner has memory that no allocation has

two='-DNA=2 -DNB=2'
right "$two"
right '-DPIECES=1'
right '-DPIECES=1 -DNC=2 -DITERS=1'
right "$two -DPIECES=1 -DDEATHS=2"
right "$two -DIPC=1"
right "$two -DIPC=3"
right "$two -DIPC=3 -DPIECES=1 -DDEATHS=2"
right "$two -DITERS=1 -DADOPTFAILS"
right "$two -DITERS=1 -DNOFD=1"
right "$two -DITERS=1 -DNONEXT"
right "$two -DITERS=1 -DNONEXT -DIPC=1"
right "-DENDS $two -DITERS=1"
right "-DENDS $two -DITERS=1 -DIPC=3"
bounds='-DNOBOUNDCHECK'
wrong "-DF_EOF $two -DPIECES=4 -DLIMIT=2" "$late"
wrong "-DF_ZEROONCE $two" "$dirty"
wrong "-DF_ADDRESS $two" "$meant"
wrong "-DF_DROP $two" "$answered"
wrong "-DF_TWICE $two -DPIECES=4 -DLIMIT=2" "$once"
wrong "-DF_ADOPTLAST $two" "$unknown"
wrong "-DF_ADOPTAGAIN $two -DDEATHS=2" "$adopted"
wrong "-DF_NOADOPT $two" "$unknown"
wrong "-DF_OLDLANE $two -DPIECES=4 -DLIMIT=2" "$dirty"
wrong "-DF_UNKNOWN $two" "$account"
wrong "-DF_NAMES $two -DIPC=3" "$nameless"
wrong "-DF_SPARE $two -DIPC=3" "$nameless"
wrong "-DF_REFUSED $two -DNOFD=1" "$leaked"
wrong "-DF_UNZEROED $two -DADOPTFAILS" "$dirty"

# ---- the broker's death ----

model=$here/survive.pml part=' survive' bounds=''
waited='&&finished)'                        # a client waits for ever
had='&& !(((grant[0]&&'                     # memory is freed or zeroed while a process has it
named='(s>unlinked)'                        # a lease of a buffer whose unlink was seen before
implied='||kept[0])&&('                     # a record without a descriptor
again='(n>last[((o*'                        # a job is done twice
unknown='violated p '                       # a RELEASE of what is not there
ended='((((buffer[1]==3)&&(buffer[2]'       # a buffer never ends
room='(p<'                                  # the ledger says that there is room, and there is none
leaked=' !(refs[X])'                        # memory has leaked
drained='(bytes[X]!=1)'                     # a drain is answered before the memory is freed or zeroed
spent='((hand!=13)||'                       # a ticket is spent without a grant

drain='-DDRAINS -DLIMIT=1'
death='-DITERS=0 -DDEATHS=1'
right "$drain"
right "$drain -DITERS=1 -DCRASHES=2"
right '-DITERS=1'
right '-DIPC -DTICKET -DLIMIT=1'
right "-DDIES $drain -DITERS=1"
right "$death"
right "$death $drain -DCRASHES=2"
right "-DOVERLAP $death"
right "-DOVERLAP $death $drain"
right "-DENDS $drain -DITERS=1"
bounds='-DNOBOUNDCHECK'
wrong "-DF_DUP $drain -DITERS=1" "$had"
wrong "-DF_NOHAND $drain -DITERS=1" "$waited"
wrong "-DF_NOOWED $drain -DITERS=1" "$waited"
wrong "-DF_TWOWRITES $drain -DITERS=1" "$waited"
wrong "-DF_DROPFIRST $drain -DITERS=1" "$implied"
wrong '-DF_PUTLATE -DITERS=0' "$implied"
wrong '-DF_UNREAD -DITERS=0' "$implied"
wrong '-DF_UNRECORDED -DITERS=0' "$leaked"
wrong "-DF_NOCLOSE $death" "$room"
wrong '-DF_FREEFIRST -DIPC -DITERS=0' "$again"
wrong "-DF_GONE $drain -DITERS=1" "$drained"
wrong "-DF_WORDFIRST $drain" "$named"
wrong "-DF_OWEDFIRST $drain" "$named"
wrong "-DF_NOTOLD $drain -DITERS=1" "$ended"
wrong "-DF_NOWAITS $drain -DITERS=1" "$waited"
wrong "-DF_LATEZERO $drain $death" "$had"
wrong "-DF_WHOSE -DOVERLAP $death $drain" "$had"
wrong "-DF_HELD -DOVERLAP $death $drain" "$room"
wrong "-DF_TWICE $drain -DITERS=1" "$again"
wrong "-DF_QUEUE $drain -DITERS=1" "$again"
wrong "-DF_ACKFIRST $drain -DITERS=1" "$again"
wrong "-DF_NEWNUMBER $drain -DITERS=1" "$unknown"
wrong "-DF_SPEND -DTICKET $drain -DITERS=1" "$spent"
wrong "-DF_KILLS -DCRASHES=2 $drain -DITERS=1" "$waited"
wrong "-DF_DEADFIRST -DDIES $drain -DITERS=1" "$ended"
wrong '-DF_TWOBROKERS -DITERS=0' "$again"

wait
tell
[ $told = $count ] && [ $failed = 0 ]
