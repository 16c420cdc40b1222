/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lease.pml - the lease protocol as libbroker/client and broker/ implement it, for spin. README.md beside it says
 * what is modelled, what is not, and how to run it; run.sh runs it in the suite.
 *
 * NC clients; each has NAPP threads that acquire, renew and return, one more that trims and disconnects, the
 * service thread, a GPU with NSTR streams, and NR records of NSL slots. The broker makes NG buffers (serials 1, 2 ...)
 * under NN names, unlinks each at any moment, and frees it. Clients may crash at any step.
 * A step carries the name of the function that does it. One statement is one step that others can come between;
 * what a function does under the client's lock and nobody reads without it is one atomic step.
 *
 * Without a flag it is the right protocol. Each flag makes one mistake, and must give a counterexample:
 *  F_CATONLY    record_live looks at the board's word alone, not at the record's mapping word
 *  F_NOCAT      record_live looks at the mapping word alone: an acquire after the unlink finds the old buffer
 *  F_REUSE      slot_idle takes a slot for idle whose return has not landed
 *  F_BOOL       slot_idle takes the release word for a flag: any value of it is a landing
 *  F_REORD_A    record_hold_in looks before its hold is visible (no fence)
 *  F_REORD_S    record_close looks at the slots before its CLOSING is visible (no fence)
 *  F_NOVERSION  acquire_fast does not compare the table's version after the hold
 *  F_NOBASE     gpub_renew does not compare the sequence with slot->base
 *  F_BASEEARLY  gpub_renew compares it before the hold only
 *  F_NOSEQ      gpub_return ends any hold of the slot, not that of its lease's sequence
 *  F_NORETURNING gpub_return_on says RETURNED before the write is queued, and with the last sequence's word
 *  F_NOSYNC     the close is not behind kernels of leases returned without a stream
 *  F_REVERTLATE wait_idle goes back to OPEN between its looks, and closes on a look made while it was OPEN
 *  F_EARLY      record_close sends CLOSED before the mapping is closed
 *  F_ACKFAIL    record_close sends CLOSED though the close failed
 *  F_NOGID      CLOSED names the buffer, not the grant, and is sent after the record can be used again
 *  F_SPLIT      notices travel on a channel of their own, and can overtake their grant
 *  F_NOTICEOPEN on_notice looks for OPEN records only: one that is CLOSING, and reverts, never hears of it
 *  F_POLLONCE   close_noticed does not come back for a record that another thread had CLOSING
 *  F_NOLEFT     on_grant takes a grant though the client is leaving
 *  F_LEAVEOPEN  on_grant does not look at leaving again after the open
 *  F_RESET      the hang-up of a client that left messages unread discards what it sent last (ECONNRESET)
 *  F_PIDFDLIES  death is the pidfd alone (a forked child holds the GPU's descriptors past it)
 *  F_HUPLIES    death is the hang-up alone (the GPU's work ends after it)
 */
#ifndef NC
#define NC 1     /* clients */
#endif
#ifndef NAPP
#define NAPP 1   /* threads of a client that acquire */
#endif
#ifndef ITERS
#define ITERS 2  /* acquires or renews of each */
#endif
#ifndef NN
#define NN 1     /* names */
#endif
#ifndef NG
#define NG 2     /* buffers, all names together */
#endif
#ifndef NR
#define NR NG    /* records of a client */
#endif
#ifndef NSL
#define NSL 1    /* slots of a record */
#endif
#ifndef NSTR
#define NSTR 1   /* streams of a client, 1 or 2 */
#endif
#ifndef TRIMS
#define TRIMS 1  /* calls of gpub_trim by the owner */
#endif
#ifndef CRASH
#define CRASH 0  /* a bit for each client that may crash */
#endif
#ifndef MG
#define MG (NG + 2*TRIMS + 2) /* grants of a client */
#endif
/* BG: GPUB_BACKGROUND_CLOSE.  NOLEAVE: nobody disconnects.  TIMEOUTS: acquires give up while the request is under way.
 * FAILOPEN: opens may fail.  CLOSEFAIL: closes may fail (and the process ends some time).
 * COPIES: copies of a lease that was returned are returned again.  NORENEW, NOUNORD: without gpub_renew, gpub_return. */
#define NA (NC*NAPP)
#define NIL 255
#define PLACES 2
#define PLACE(s) (((s)-1)%PLACES)
#define NAME(s) (((s)-1)%NN)
#define W(s,st) ((s)*4+(st))
#define wFREE 0
#define wLIVE 1
#define wDRAINING 2
mtype = { ACQUIRE, CLOSED, LEAVE, GRANT, REFUSED, NOTICE, LEFT };
mtype = { mNONE, mREQUESTED, mOPEN, mCLOSING };
mtype = { sFREE, sHELD, sRETURNING, sRETURNED };

/* ---- the board ---- */
byte word[PLACES];

/* ---- clients: struct record, struct slot, struct table, struct waiter ---- */
mtype mapping[NC*NR] = mNONE;          /* with grant: ONE atomic word */
byte grant[NC*NR], serial[NC*NR], rname[NC*NR], request_[NC*NR];
bool noticed[NC*NR];
byte seq[NC*NR*NSL]; mtype hold[NC*NR*NSL] = sFREE;   /* ONE atomic word */
byte landed[NC*NR*NSL], base[NC*NR*NSL];              /* slot->word, written by the GPU; slot->base */
byte table[NC*NN] = NIL, version[NC];
byte waits[NA]; bool told[NA], fin[NA];               /* waits: record + 1; told: released with an error */
bool lock[NC], leaving[NC], left[NC];

/* ---- what is really so ---- */
byte mapped[NC*NR];                    /* the serial that the process has mapped there; 0: none */
bool freed[NG+1];
byte unlinked[NN];                     /* the last serial of that name that was unlinked */
byte unordered[NC];                    /* kernels under way whose lease was returned without a stream */
bool dead[NC], pidfd[NC], hup[NC];

chan c2b[NC] = [3] of { mtype, byte, byte };
chan b2c[NC] = [6] of { mtype, byte, byte, byte };
#ifdef F_SPLIT
chan notices[NC] = [6] of { mtype, byte, byte, byte };
#else
#define notices b2c
#endif
chan gq[NC*2] = [NAPP+1] of { byte, byte, byte };     /* a stream: record touched, slot + 1 and sequence to write */

#ifdef F_BOOL
#define LANDED(S) (landed[S]!=0)
#else
#define LANDED(S) (landed[S]==seq[S])
#endif
#ifdef F_REUSE
#define TAKEABLE(S) (hold[S]==sFREE || hold[S]==sRETURNED)
#else
#define TAKEABLE(S) slot_idle(S)
#endif
#define slot_idle(S) (hold[S]==sFREE || (hold[S]==sRETURNED && LANDED(S)))
#if NSL>1
#define ALLIDLE(R) (slot_idle((R)*NSL) && slot_idle((R)*NSL+1))
#define ANYHELD(R) (hold[(R)*NSL]==sHELD || hold[(R)*NSL]==sRETURNING || hold[(R)*NSL+1]==sHELD || hold[(R)*NSL+1]==sRETURNING)
#else
#define ALLIDLE(R) slot_idle(R)
#define ANYHELD(R) (hold[R]==sHELD || hold[R]==sRETURNING)
#endif

/* ---- the GPU: an operation is on its way until it is complete: its last access, then the release word ---- */
inline complete(Q) {
	atomic { gq[Q]?R,S,q -> assert(mapped[R] && !freed[mapped[R]]);
		if :: S -> landed[S-1]=q :: else -> unordered[c]-- fi; R=0; S=0; q=0 }
}
proctype Gpu(byte c) {
	byte R, S, q;
end:	do
	:: complete(c*2)
#if NSTR>1
	:: complete(c*2+1)
#endif
	od
}

/* ---- record.c, under the lock ---- */
inline record_detach(R) {
	if :: table[c*NN+rname[R]]==R -> table[c*NN+rname[R]]=NIL; version[c]++ :: else fi
}
inline waiters_tell(R, error) {
	w=c*NAPP; do :: w<(c+1)*NAPP -> if :: waits[w]==R+1 -> waits[w]=0; told[w]=error :: else fi; w++ :: else -> break od; w=0
}
inline record_release(R, error) {
	record_detach(R); waiters_tell(R, error); mapping[R]=mNONE; grant[R]=0
}
/* record_take, table_add, record_outdate; then request()'s REQUESTED */
inline record_bind(R, n) {
	R=c*NR; do :: R<(c+1)*NR && mapping[R]!=mNONE -> R++ :: else -> break od;
	assert(R<(c+1)*NR);            /* the model's pool is too small */
	rname[R]=n; table[c*NN+n]=R; version[c]++; noticed[R]=0;
	base[R*NSL]=seq[R*NSL];
#if NSL>1
	base[R*NSL+1]=seq[R*NSL+1];
#endif
	mapping[R]=mREQUESTED; request_[R]=(request_[R]+1)%4
}

/* ---- close.c: record_close. done: it is closed, or on its way ---- */
inline record_idle_look(S) {
	atomic { if :: slot_idle(S) :: else -> busy=1; if :: hold[S]!=sRETURNED -> held=1 :: else fi fi }
}
inline record_idle(R) {
	busy=0; held=0; record_idle_look(R*NSL);
#if NSL>1
	record_idle_look(R*NSL+1)
#endif
}
inline record_close(R, wait) {
	atomic { !lock[c];
#ifdef F_REORD_S
		if :: mapping[R]==mOPEN && ALLIDLE(R) -> lock[c]=1; ok=1 :: else -> ok=0 fi };
	if :: ok -> mapping[R]=mCLOSING; lock[c]=0 :: else fi;
#else
		if :: mapping[R]==mOPEN -> mapping[R]=mCLOSING; lock[c]=1; ok=1 :: else -> ok=0 fi };
	/* fence(seq_cst), then wait_idle */
	do
	:: ok -> record_idle(R);
		if
		:: !busy -> atomic { lock[c]=0; mapping[R]=mCLOSING; break }
		:: busy && (held || !wait) -> atomic { lock[c]=0; mapping[R]=mOPEN; ok=0; busy=0; held=0 }   /* close_revert */
		:: busy && !held && wait ->
#ifdef F_REVERTLATE
			atomic { lock[c]=0; mapping[R]=mOPEN };
#else
			lock[c]=0;
#endif
			/* usleep until a look would tell something new */
			atomic { !lock[c] && (ALLIDLE(R) || ANYHELD(R)) -> lock[c]=1; busy=0; held=0 }
		fi
	:: !ok -> break
	od;
#endif
	if
	:: ok ->
#ifdef F_EARLY
		c2b[c]!CLOSED,grant[R],serial[R];
#endif
		if
#ifdef CLOSEFAIL
		:: true ->             /* device->close fails: record_strand */
#ifdef F_ACKFAIL
			c2b[c]!CLOSED,grant[R],serial[R];
#endif
			atomic { !lock[c] -> record_detach(R); waiters_tell(R, 1) }
#endif
#ifdef F_NOSYNC
		:: true ->
#else
		:: unordered[c]==0 ->  /* device->close: behind the kernels of the process */
#endif
			atomic { assert(mapped[R]==serial[R]); mapped[R]=0 };
#ifdef F_NOGID
			atomic { !lock[c] -> sg=serial[R]; record_release(R, 0) };
			c2b[c]!CLOSED,0,sg; sg=0
#else
#ifndef F_EARLY
			c2b[c]!CLOSED,grant[R],serial[R];          /* send_closed */
#endif
			atomic { !lock[c] -> record_release(R, 0) }
#endif
		fi
	:: else
	fi;
	ok=0
}

/* ---- lease.c, acquire.c: an application's thread ---- */
#define S (R*NSL+k)
inline slot_pick() {
#if NSL>1
	if :: k=0 :: k=1 fi
#endif
}
inline look_mapping() {
#ifdef F_CATONLY
	ok=(serial[R]!=0)
#else
	ok=(mapping[R]==mOPEN)
#endif
}
inline look_word() {
#ifndef F_NOCAT
	if :: ok -> ok=(word[PLACE(serial[R])]==W(serial[R],wLIVE)) :: else fi
#endif
}
/* ok: held, with sequence q */
inline record_hold_in() {
	slot_pick();
#ifdef F_REORD_A
	look_mapping(); look_word();
	if :: ok -> atomic { if :: TAKEABLE(S) -> seq[S]++; hold[S]=sHELD; q=seq[S] :: else -> ok=0 fi } :: else fi
#else
	atomic { if :: TAKEABLE(S) -> seq[S]++; hold[S]=sHELD; q=seq[S]; ok=1 :: else -> ok=0 fi };
	if
	:: ok ->
		/* fence(seq_cst), then record_live */
		look_mapping(); look_word();
		if :: !ok -> hold[S]=sFREE; q=0 :: else fi
	:: else
	fi
#endif
}
#ifdef F_NOBASE
#define TOKEN_CURRENT(S,q) true
#else
#define TOKEN_CURRENT(S,q) ((q)>base[S])
#endif

proctype App(byte a; byte c) provided (!dead[c]) {
	byte i, n, R, k, q, v, w, Q;
	byte floor;                    /* serials up to it had been unlinked when the call began */
	byte lslot, lseq, lserial;     /* the lease that is kept: slot + 1 */
	byte want;                     /* renew: the serial of its record; 0: an acquire */
	bool ok;
	do
	:: i<ITERS -> i++;
		if
		:: atomic { true ->            /* gpub_acquire(n) */
#if NN>1
			if :: n=0 :: n=1 fi;
#endif
			floor=unlinked[n] };
			atomic { R=table[c*NN+n]; v=version[c];      /* acquire_fast: table_find */
				if :: R==NIL -> R=0; v=0; goto slow :: else fi };
			record_hold_in();
			if :: !ok -> goto slow :: else fi;
#ifndef F_NOVERSION
			if :: version[c]!=v -> hold[S]=sFREE; goto slow :: else fi;     /* table_unchanged, lease_undo */
#endif
			goto got
#ifndef NORENEW
		:: lslot -> /* gpub_renew */
			atomic { R=(lslot-1)/NSL; k=(lslot-1)%NSL; want=serial[R] };
			if :: !TOKEN_CURRENT(S,lseq) -> goto over :: else fi;
			record_hold_in();          /* in its own slot, or where record_hold finds one */
			if :: !ok -> goto renew_slow :: else fi;
#ifndef F_BASEEARLY
			if :: !TOKEN_CURRENT(lslot-1,lseq) -> hold[S]=sFREE; goto over :: else fi;
#endif
			assert(serial[R]==lserial);
			goto got
#endif
		fi;
#ifndef NORENEW
renew_slow:	atomic { !lock[c] -> R=(lslot-1)/NSL; n=rname[R]; ok=TOKEN_CURRENT(lslot-1,lseq) };
		if :: !ok -> goto over :: else fi;
#endif
slow:		/* acquire_slow: step, again and again */
		atomic { !lock[c] -> R=table[c*NN+n]; k=0; q=0; v=0; ok=0;
			if
			:: R==NIL -> record_bind(R, n); q=request_[R]; goto ask
			:: else ->
				if
				:: mapping[R]==mOPEN -> /* take_open */
					slot_pick();
					if
					:: !TAKEABLE(S) -> goto grow
					:: else -> seq[S]++; q=seq[S];
#ifdef F_NOCAT
						hold[S]=sHELD; goto held_slow
#else
						if
						:: word[PLACE(serial[R])]==W(serial[R],wLIVE) -> hold[S]=sHELD; goto held_slow
						:: else -> hold[S]=sFREE; record_detach(R); goto slow
						fi
#endif
					fi
				:: mapping[R]==mREQUESTED -> waits[a]=R+1; goto join
				:: mapping[R]==mCLOSING -> waits[a]=R+1; goto closing
				fi
			fi };
grow:		/* record_grow: another slot. Here: this one, once it is idle */
		atomic { slot_idle(S) || mapping[R]!=mOPEN -> goto slow };
ask:		c2b[c]!ACQUIRE,R,n;            /* request: call_send */
		/* an answer that came before the lock was had again is found in the record, a refusal is not: ask again */
		atomic { !lock[c] -> if :: mapping[R]==mREQUESTED && request_[R]==q -> waits[a]=R+1 :: else -> goto slow fi };
		/* record_wait */
		if
		:: atomic { !lock[c] && waits[a]==0 -> ok=told[a]; told[a]=0; if :: ok -> goto over :: else -> goto slow fi }
		:: atomic { !lock[c] && waits[a]==R+1 && mapping[R]!=mREQUESTED -> waits[a]=0; goto slow }
#ifdef TIMEOUTS
		:: atomic { !lock[c] && waits[a]==R+1 -> waits[a]=0; goto over }   /* refuse_late */
#endif
		fi;
join:		/* what the other was refused is no answer to this thread: it asks itself */
		if
		:: atomic { !lock[c] && (waits[a]==0 || mapping[R]!=mREQUESTED) -> waits[a]=0; told[a]=0; goto slow }
#ifdef TIMEOUTS
		:: atomic { !lock[c] && waits[a]==R+1 -> waits[a]=0; goto over }
#endif
		fi;
closing:	atomic { !lock[c] && (waits[a]==0 || mapping[R]!=mCLOSING) -> waits[a]=0; ok=told[a]; told[a]=0;
			if :: ok -> goto over :: else -> goto slow fi };
held_slow:	if
		:: want && serial[R]!=want -> hold[S]=sFREE; goto over   /* renew_slow: another generation */
		:: else -> assert(!want || want==lserial)
		fi;
got:		assert(mapped[R]==serial[R] && (want || NAME(serial[R])==n) && serial[R]>floor);
		if :: !lslot || true -> atomic { lslot=S+1; lseq=q; lserial=serial[R] }
		   :: lslot && lserial!=serial[R] -> skip        /* or it goes on with the older one */
		fi;
#if NSTR>1
		if :: Q=0 :: Q=1 fi;
#endif
		/* a kernel is launched, and: */
		if
		:: atomic { hold[S]==sHELD && seq[S]==q ->           /* gpub_return_on: lease_take_back */
#ifdef F_NORETURNING
			hold[S]=sRETURNED };
#else
			hold[S]=sRETURNING };
#endif
			atomic { nfull(gq[c*2+Q]) -> assert(mapped[R]==serial[R]); gq[c*2+Q]!R,S+1,q };   /* stream_write */
#ifndef F_NORETURNING
			hold[S]=sRETURNED
#endif
#ifndef NOUNORD
		:: atomic { nfull(gq[c*2+Q]) -> assert(mapped[R]==serial[R]); gq[c*2+Q]!R,0,0; unordered[c]++ };
			atomic { assert(hold[S]==sHELD && seq[S]==q); hold[S]=sFREE }               /* gpub_return */
#endif
		fi;
over:		atomic { n=0; R=0; k=0; q=0; v=0; Q=0; ok=0; floor=0; want=0 }
#ifdef COPIES
	:: atomic { lslot && hold[lslot-1]==sHELD
#ifndef F_NOSEQ
			&& seq[lslot-1]==lseq
#endif
			-> hold[lslot-1]=sFREE }               /* gpub_return, through a copy */
#endif
	:: i>=ITERS -> break
	od;
	atomic { lslot=0; lseq=0; lserial=0; fin[a]=1 }
}
#undef S

#if NAPP>1
#define FINISHED(c) (fin[(c)*NAPP] && fin[(c)*NAPP+1])
#else
#define FINISHED(c) fin[c]
#endif

/* ---- the thread that trims, and disconnects at the end ---- */
proctype Owner(byte c) provided (!dead[c]) {
	byte i, R, w, sg; bool ok, busy, held;
	do
	:: i<TRIMS -> i++; goto close_idle
#ifndef NOLEAVE
	:: i<=TRIMS && FINISHED(c) -> i=TRIMS+1;
		atomic { !lock[c] -> leaving[c]=1 };       /* gpub_disconnect: drop_all_holds, none is left here */
		goto close_idle
#else
	:: i==TRIMS -> break
#endif
	:: i==TRIMS+1 -> c2b[c]!LEAVE,0,0; break           /* say_leave */
	od;
#ifndef NOLEAVE
	left[c];                                           /* pthread_join */
	hup[c]=1;
#endif
	goto done;
close_idle: /* client_close_idle */
	R=c*NR;
	do :: R<(c+1)*NR -> record_close(R, 1); R++ :: else -> break od;
	R=0;
	if :: i==TRIMS+1 -> c2b[c]!LEAVE,0,0; left[c]; hup[c]=1 :: else -> skip fi;
	if :: i<=TRIMS -> goto again :: else fi;
	goto done;
again:	if
	:: i<TRIMS -> i++; goto close_idle
#ifndef NOLEAVE
	:: FINISHED(c) -> i=TRIMS+1; atomic { !lock[c] -> leaving[c]=1 }; goto close_idle
#else
	:: i>=TRIMS -> skip
#endif
	fi;
done:	skip
}
