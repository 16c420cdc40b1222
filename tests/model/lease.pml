/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lease.pml - the lease protocol as libbroker/client and broker/ implement it, for spin. README.md beside it says
 * what is modelled, what is not, and how to run it; run.sh runs it in the suite.
 *
 * NC clients; each has NAPP threads that acquire, renew and return, one more that trims and disconnects, the
 * service thread, with BG the closer, a GPU with NSTR streams, and NR records of NSL slots. The broker makes NG buffers (serials 1, 2 ...)
 * under NN names, PER of them in an allocation, unlinks each at any moment, and frees the allocation. Clients may
 * crash at any step; those of another user may lie.
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
 *  F_NOSYNC     the close is not behind kernels of leases returned without a stream
 *  F_REVERTLATE close_wait closes on a look that it made after its pause, while the record was OPEN
 *  F_WAITBLIND  close_wait does not look after its pause whether the record is still as it was
 *  F_WAITSTATE  it looks for OPEN alone, not for its grant
 *  F_EARLY      record_close sends CLOSED before the mapping is closed
 *  F_ACKFAIL    record_close sends CLOSED though the close failed
 *  F_NOGID      CLOSED names the buffer, not the grant, and is sent after the record can be used again
 *  F_SPLIT      notices travel on a channel of their own, and can overtake their grant
 *  F_NOTICEOPEN close_wait pauses in CLOSING, and on_notice looks for OPEN records only: one that then reverts never
 *               hears of it
 *  F_POLLONCE   closer_main waits for a change where it has to come back by itself: returns and landings tell nobody
 *  F_LOSTWAKE   closer_main gives the lock up between its look and its wait
 *  F_NOSTOP     gpub_disconnect does not wait for the closer
 *  F_STRANDED   a record that is stranded keeps its grant: a notice has the closer look at it for ever
 *  F_NOLEFT     on_grant does not look at leaving at all
 *  F_LEAVEOPEN  on_grant looks at leaving before the open (grant_record), not after it (grant_settle)
 *  F_RESET      the hang-up of a client that left messages unread discards what it sent last (ECONNRESET)
 *  F_PIDFDLIES  death is the pidfd alone (a forked child holds the GPU's descriptors past it)
 *  F_HUPLIES    death is the hang-up alone (the GPU's work ends after it)
 *  F_BELIEVE    the CLOSED of another user's session ends its grant
 *  F_HANGUPENDS the hang-up of a session that has only held grants ends it
 *  F_ONEHELD    one held grant stands for all allocations of its session
 *  F_HELDLOST   session_end gives the session's grants back, and forgets its held ones
 *  F_HELDTWICE  a held grant is still one of its session's: a second CLOSED ends it
 *  F_FIRSTNAME  an allocation is freed when the first of its buffers is unlinked
 *  F_ONEGRANT   a session's second ACQUIRE of an allocation is answered with the grant that it has
 * and these in a search for what never ends (LIVE):
 *  F_NOWAKE     record_release does not wake who waits for the record
 *  F_NOTICEDUMB on_notice does not wake the closer
 *  F_OPENDUMB   record_open does not wake who asked for it
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
#ifndef ITERS2
#define ITERS2 ITERS /* of the second thread of a client */
#endif
#if NAPP>1
#define ITERS_OF(a) ((a)%NAPP -> ITERS2 : ITERS)
#else
#define ITERS_OF(a) ITERS
#endif
#ifndef NN
#define NN 1     /* names */
#endif
#ifndef NG
#define NG 2     /* buffers, all names together */
#endif
#ifndef PER
#define PER 1    /* buffers of an allocation */
#endif
#ifndef NR
#define NR (NG+NN)/* records of a client: detached ones, and one */
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
#ifndef OTHER
#define OTHER 0  /* a bit for each client of another user than the buffers' owner */
#endif
#ifndef MG
#define MG (NG + 2*TRIMS + 2*NAPP) /* grants of a client */
#endif
/* BG: GPUB_BACKGROUND_CLOSE.  NOLEAVE: nobody disconnects.  TIMEOUTS: acquires give up while the request is under way.
 * FAILOPEN=n: n opens of a client may fail.  CLOSEFAIL=n: n closes of a
 * client may fail, and its process ends some time (give it a CRASH bit).
 * COPIES: copies of a lease that was returned are returned again.  NORENEW, NOUNORD: without gpub_renew, gpub_return.
 * LIES: clients of another user say CLOSED of what they keep mapped.  DIES: who may crash does.
 * LIVE: for the formula at the end: waits are ended by a wake-up alone, polls find nothing new any number of times.
 * FOREVER: threads acquire for ever (with LIVE, NOLEAVE, NORENEW, NOUNORD).  PARKS: they may keep a lease for ever
 * (with DIES).  STAYS: the last buffer is never unlinked (with LIVE). */
#ifdef F_NOLEFT
#define F_LEAVEOPEN
#endif
#ifdef F_NOTICEOPEN
#define WAITCLOSING
#endif
#define NA (NC*NAPP)
#define NIL 255
#if CRASH
#define LIVING provided (!dead[c])
#else
#define LIVING
#endif
#define PLACES 2
#define PLACE(s) (((s)-1)%PLACES)
#define NAME(s) (((s)-1)%NN)
#define W(s,st) ((s)*4+(st))
#define wFREE 0
#define wLIVE 1
#define wDRAINING 2
#define FOREIGN(c) ((OTHER>>(c))&1)
#if PER>1
#define OF(s) allocation[s]
#else
#define OF(s) (s)
#endif
#ifdef FOREVER                         /* sequences wrap then; in stream order each lands before the next is taken */
#define COUNT(i) skip
#define NEXT(q) q=((q)+1)&7
#else
#define COUNT(i) i++
#define NEXT(q) q++
#endif
mtype = { ACQUIRE, CLOSED, LEAVE, GRANT, REFUSED, NOTICE, LEFT };
mtype = { mNONE, mREQUESTED, mOPEN, mCLOSING };
mtype = { sFREE, sHELD, sRETURNING, sRETURNED };

/* ---- the board ---- */
byte word[PLACES];
#if PER>1
byte allocation[NG+1];                 /* the serial of the first buffer in it; broker's books, and what is really so */
#endif

/* ---- clients: struct record, struct slot, struct table, struct waiter ---- */
mtype mapping[NC*NR] = mNONE;          /* with grant: ONE atomic word */
byte grant[NC*NR], serial[NC*NR], rname[NC*NR];
bool noticed[NC*NR];
byte seq[NC*NR*NSL]; mtype hold[NC*NR*NSL] = sFREE;   /* ONE atomic word */
byte landed[NC*NR*NSL], base[NC*NR*NSL];              /* slot->word, written by the GPU; slot->base */
byte table[NC*NN] = NIL;
bool changed[NA];                      /* the table's version is not what this thread read */
byte waits[NA]; bool told[NA], fin[NA];               /* waits: record + 1; told: released with an error */
bool lock[NC], leaving[NC], left[NC];
#ifdef BG
bool asleep[NC], ended[NC];            /* the closer waits for client->changed; it has ended */
#endif

/* ---- what is really so ---- */
byte mapped[NC*NR];                    /* the serial that the process has mapped there; 0: none */
bool freed[NG+1];                      /* allocations */
#ifdef LIES
byte secret[NC];                       /* allocations, a bit each, that the process keeps mapped beside its records */
#endif
byte unlinked[NN];                     /* the last serial of that name that was unlinked */
byte unordered[NC];                    /* kernels under way whose lease was returned without a stream */
bool dead[NC], pidfd[NC], hup[NC];
#if defined(FAILOPEN) || defined(CLOSEFAIL)
byte fails[NC];
#endif
#ifdef CLOSEFAIL
bool stranded[NC*NR];
#define STRANDED(R) stranded[R]
#else
#define STRANDED(R) false
#endif

chan c2b[NC] = [3] of { mtype, byte, byte };
#define UNREAD (4+2*PER)
chan b2c[NC] = [UNREAD] of { mtype, byte, byte, byte };
#ifdef F_SPLIT
chan notices[NC] = [UNREAD] of { mtype, byte, byte, byte };
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
	atomic { gq[Q]?R,S,q -> assert(mapped[R] && !freed[OF(mapped[R])]);
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

#ifdef BG
#define wake(c) asleep[c]=0
#else
#define wake(c) skip
#endif
/* pthread_cond_broadcast(&client->changed). Without LIVE a thread that waits sees by itself what it waits for */
#ifdef LIVE
bool dozes[NA], inside[NA];            /* in pthread_cond_wait; in an acquire */
#define AWAKE(a) !dozes[a]
#define WAITS(still, label) :: atomic { !lock[c] && AWAKE(a) && (still) -> dozes[a]=1; goto label }
#define INSIDE(yes) inside[a]=yes
#if NAPP>1
#define broadcast(c) dozes[(c)*2]=0; dozes[(c)*2+1]=0; wake(c)
#else
#define broadcast(c) dozes[c]=0; wake(c)
#endif
#else
#define AWAKE(a) true
#define WAITS(still, label)
#define INSIDE(yes) skip
#define broadcast(c) skip
#endif

/* ---- record.c, under the lock ---- */
inline table_change() {
	w=c*NAPP; do :: w<(c+1)*NAPP -> changed[w]=1; w++ :: else -> break od; w=0
}
inline record_detach(R) {
	if :: table[c*NN+rname[R]]==R -> table[c*NN+rname[R]]=NIL; table_change() :: else fi
}
inline waiters_tell(R, error) {
	w=c*NAPP; do :: w<(c+1)*NAPP -> if :: waits[w]==R+1 -> waits[w]=0; told[w]=error :: else fi; w++ :: else -> break od; w=0
}
inline record_release(R, error) {
	record_detach(R); waiters_tell(R, error); mapping[R]=mNONE; grant[R]=0; noticed[R]=0;
#ifndef F_NOWAKE
	broadcast(c);
#endif
#ifndef F_CATONLY
	serial[R]=0
#endif
}
inline record_strand(R) {
	record_detach(R); waiters_tell(R, 1); noticed[R]=0; broadcast(c);
#ifndef F_STRANDED
	grant[R]=0;
#endif
}
/* record_take, record_outdate, table_add; then request()'s REQUESTED and record_wait_begin */
inline record_bind(R, n) {
	R=c*NR; do :: R<(c+1)*NR && mapping[R]!=mNONE -> R++ :: else -> break od;
	assert(R<(c+1)*NR);            /* the model's pool is too small */
	rname[R]=n; table[c*NN+n]=R; table_change(); waits[a]=R+1;
	base[R*NSL]=seq[R*NSL];
#if NSL>1
	base[R*NSL+1]=seq[R*NSL+1];
#endif
	mapping[R]=mREQUESTED
}

/* ---- close.c: record_close ---- */
inline record_idle_look(S) {
	if :: slot_idle(S) :: else -> busy=1; if :: hold[S]!=sRETURNED -> held=1 :: else fi fi
}
/* busy: a slot is not idle; held: by a lease. One step a slot */
inline record_idle(R, wait) {
#if NSL>1
	atomic { busy=0; held=0; record_idle_look(R*NSL) };
	atomic { record_idle_look(R*NSL+1); close_decide(R, wait) }
#else
	atomic { busy=0; held=0; record_idle_look(R); close_decide(R, wait) }
#endif
}
#ifdef WAITCLOSING
#define PAUSED mCLOSING
#else
#define PAUSED mOPEN
#endif
#if defined(F_WAITBLIND)
#define SAME(R) true
#elif defined(F_WAITSTATE)
#define SAME(R) (mapping[R]==PAUSED)
#else
#define SAME(R) (mapping[R]==PAUSED && grant[R]==sg)
#endif
/* Only who takes no lock can see the CLOSING of a look that finds a slot busy: close_begin comes before the unlock */
inline close_decide(R, wait) {
	lock[c]=0;
	if
	:: !busy
	:: busy && (held || !(wait)) -> mapping[R]=mOPEN; ok=0          /* close_begin */
	:: busy && !held && (wait) -> mapping[R]=PAUSED
	fi
}
#ifdef LIVE
#define POLLS true
#else
#define POLLS false
#endif
#define close_next_one ok=0; busy=0; held=0; sg=0; R++
/* Begun by its caller: lock taken, mapping CLOSING (close_begin), its grant in sg. ok: closed, or stranded; else as before */
inline record_close(R, wait) {
	ok=1;
#ifdef F_REORD_S
	mapping[R]=mCLOSING; lock[c]=0;
#else
	do                                                              /* close_wait */
	:: record_idle(R, wait);
		if
		:: !busy || !ok -> break
		:: busy && ok -> /* close_pause, until a look tells something new */
			atomic { !lock[c] && (POLLS || !SAME(R) || ALLIDLE(R) || ANYHELD(R)) ->
				if :: SAME(R) -> lock[c]=1 :: else -> ok=0; break fi;
#ifdef F_REVERTLATE
				if :: ALLIDLE(R) -> busy=0 :: else fi };
			atomic { if :: !busy -> lock[c]=0; mapping[R]=mCLOSING; break :: else fi;
#endif
				mapping[R]=mCLOSING }
		fi
	od;
#endif
	if
	:: ok ->
#ifdef F_EARLY
		c2b[c]!CLOSED,sg,serial[R];
#endif
		if
#ifdef CLOSEFAIL
		:: fails[c]<CLOSEFAIL -> fails[c]++;      /* device->close fails */
#ifdef F_ACKFAIL
			c2b[c]!CLOSED,sg,serial[R];
#endif
			atomic { !lock[c] -> record_strand(R); stranded[R]=1; close_next_one }
#endif
#ifdef LIES
		:: FOREIGN(c) && unordered[c]==0 ->      /* it does not close, and says that it did */
			atomic { secret[c]=secret[c]|(1<<OF(serial[R])); mapped[R]=0 };
			c2b[c]!CLOSED,sg,serial[R];
			atomic { !lock[c] -> record_release(R, 0); close_next_one }
#endif
#ifdef F_NOSYNC
		:: true ->
#else
		:: unordered[c]==0 ->  /* device->close: behind the kernels of the process */
#endif
			atomic { assert(mapped[R] && mapped[R]==serial[R]); mapped[R]=0 };
#ifdef F_NOGID
			atomic { !lock[c] -> w=serial[R]; sg=w; record_release(R, 0) };
			c2b[c]!CLOSED,0,sg; atomic { close_next_one }
#else
#ifndef F_EARLY
			c2b[c]!CLOSED,sg,serial[R];                /* call_closed */
#endif
			atomic { !lock[c] -> record_release(R, 0); close_next_one }
#endif
		fi
	:: atomic { !ok -> again=again || !(wait); close_next_one }
	fi
}

/* ---- lease.c, acquire.c: an application's thread ---- */
#define S (R*NSL+k)
inline slot_pick() {
#if NSL>1
	if :: k=0 :: k=1 fi
#else
	k=0
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
	if :: ok -> ok=(serial[R] && word[PLACE(serial[R])]==W(serial[R],wLIVE)) :: else fi
#else
	skip
#endif
}
/* Held with sequence q, or on to slow, or to undo */
inline record_hold_in() {
#ifdef F_REORD_A
	atomic { slot_pick(); look_mapping(); look_word(); if :: !ok -> goto slow0 :: else fi };
	atomic { if :: TAKEABLE(S) -> NEXT(seq[S]); hold[S]=sHELD; q=seq[S]; ok=0 :: else -> goto slow0 fi };
#else
	atomic { slot_pick(); if :: TAKEABLE(S) -> NEXT(seq[S]); hold[S]=sHELD; q=seq[S] :: else -> goto slow0 fi };
	/* fence(seq_cst), then record_live */
	atomic { look_mapping(); if :: !ok -> goto undo :: else fi };
	atomic { look_word(); if :: !ok -> goto undo :: else ok=0 fi };
#endif
}
#ifdef F_NOSEQ
#define HELDBY(S,q) (hold[S]==sHELD)
#else
#define HELDBY(S,q) (hold[S]==sHELD && seq[S]==q)
#endif
#ifdef F_NOBASE
#define TOKEN_CURRENT(S,q) true
#else
#define TOKEN_CURRENT(S,q) ((q)>base[S])
#endif

proctype App(byte a; byte c) LIVING {
	byte i, n, R, k, q, w, Q;
	byte floor;                    /* serials up to it had been unlinked when the call began */
#ifndef NORENEW
	byte lslot, lseq, lserial;     /* the lease that is kept: slot + 1 */
#endif
	byte want;                     /* renew: the serial of its record; 0: an acquire */
	bool ok;
	do
	:: i<ITERS_OF(a) ->
		if
		:: atomic { true -> COUNT(i);
#if NN>1
			if :: n=0 :: n=1 fi;
#endif
			floor=unlinked[n]; R=table[c*NN+n]; changed[a]=0; INSIDE(1);       /* gpub_acquire, acquire_fast: table_find */
			if :: R==NIL -> goto slow0 :: else fi };
#ifndef NORENEW
		:: atomic { lslot -> COUNT(i); INSIDE(1);                              /* gpub_renew */
			R=(lslot-1)/NSL; k=(lslot-1)%NSL; want=lserial;
			if :: !TOKEN_CURRENT(S,lseq) -> goto over :: else fi }
#endif
		fi;
		record_hold_in();              /* a renew: in its own slot, or where record_hold finds one */
		atomic {
#ifndef NORENEW
			if
			:: want ->
#ifndef F_BASEEARLY
				if :: !TOKEN_CURRENT(lslot-1,lseq) -> want=0; goto undo_over :: else fi;
#endif
				assert(serial[R]==lserial)
			:: else ->
#ifndef F_NOVERSION
				if :: changed[a] -> goto undo :: else fi;                 /* table_unchanged */
#endif
				skip
			fi;
#elif !defined(F_NOVERSION)
			if :: changed[a] -> goto undo :: else fi;
#endif
			goto got };
undo_over:	atomic { hold[S]=sFREE; goto over };
undo:		hold[S]=sFREE;                 /* also lease_undo */
slow0:		/* acquire_slow; renew_slow */
#ifndef NORENEW
		atomic { if :: want -> !lock[c]; R=(lslot-1)/NSL; k=(lslot-1)%NSL; n=rname[R];
				if :: !TOKEN_CURRENT(S,lseq) -> goto over :: else fi
			:: else fi; R=0; k=0; q=0; ok=0 };
#endif
slow:		/* step, again and again */
		atomic { !lock[c] -> R=table[c*NN+n]; k=0; q=0; ok=0;
			if
			:: R==NIL -> record_bind(R, n); goto ask
			:: else ->
				if
				:: mapping[R]==mOPEN -> /* take_open */
					slot_pick();
					if
					:: !TAKEABLE(S) -> goto grow
					:: else -> NEXT(seq[S]); q=seq[S];
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
asked:		/* record_wait */
		if
		:: atomic { !lock[c] && AWAKE(a) && waits[a]==0 -> ok=told[a]; told[a]=0;
			if :: ok -> goto over :: else -> goto slow fi }
		:: atomic { !lock[c] && AWAKE(a) && waits[a]==R+1 && mapping[R]!=mREQUESTED -> waits[a]=0; goto slow }
		WAITS(waits[a]==R+1 && mapping[R]==mREQUESTED, asked)
#ifdef TIMEOUTS
		:: atomic { !lock[c] && waits[a]==R+1 -> waits[a]=0; goto over }               /* refuse_late */
#endif
		fi;
join:		/* what the other was refused is no answer to this thread: it asks itself */
		if
		:: atomic { !lock[c] && AWAKE(a) && (waits[a]==0 || mapping[R]!=mREQUESTED) -> waits[a]=0; told[a]=0; goto slow }
		WAITS(waits[a]!=0 && mapping[R]==mREQUESTED, join)
#ifdef TIMEOUTS
		:: atomic { !lock[c] && waits[a]==R+1 -> waits[a]=0; goto over }
#endif
		fi;
closing:	/* wait_closing */
		if
		:: atomic { !lock[c] && AWAKE(a) && (waits[a]==0 || mapping[R]!=mCLOSING) -> waits[a]=0; ok=told[a]; told[a]=0;
			if :: ok -> goto over :: else -> goto slow fi }
		WAITS(waits[a]!=0 && mapping[R]==mCLOSING, closing)
		fi;
held_slow:	atomic { if
		:: want && serial[R]!=want -> goto undo_over                 /* renew_slow: another generation */
		:: else
		fi };
got:		atomic {
		assert(mapped[R]==serial[R] && serial[R]);
		if :: want -> assert(serial[R]==want) :: else -> assert(NAME(serial[R])==n && serial[R]>floor) fi;
#ifndef NORENEW
		if :: lslot=S+1; lseq=q; lserial=serial[R]
		   :: lslot && lserial!=serial[R] -> skip        /* or it goes on with the older one */
		fi;
#endif
#if NSTR>1
		if :: Q=0 :: Q=1 fi;
#endif
		INSIDE(0) };
		/* a kernel is launched, and: */
		if
		:: atomic { nfull(gq[c*2+Q]) -> assert(mapped[R]==serial[R]); assert(hold[S]==sHELD && seq[S]==q);
				hold[S]=sRETURNING; gq[c*2+Q]!R,S+1,q };                       /* gpub_return_on: lease_take_back, stream_write */
			hold[S]=sRETURNED
#ifndef NOUNORD
		:: atomic { nfull(gq[c*2+Q]) -> assert(mapped[R]==serial[R]); gq[c*2+Q]!R,0,0; unordered[c]++ };
			atomic { assert(hold[S]==sHELD && seq[S]==q); hold[S]=sFREE }         /* gpub_return */
#endif
#ifdef PARKS
		:: true -> false                                               /* kept for ever */
#endif
		fi;
over:		atomic { n=0; R=0; k=0; q=0; Q=0; ok=0; floor=0; want=0; changed[a]=0; INSIDE(0) }
#ifdef COPIES
	:: atomic { lslot && HELDBY(lslot-1,lseq) -> hold[lslot-1]=sFREE }    /* gpub_return, through a copy */
#endif
	:: i>=ITERS_OF(a) -> break
	od;
	atomic { i=0;
#ifndef NORENEW
		lslot=0; lseq=0; lserial=0;
#endif
		fin[a]=1 }
}
#undef S

#if NAPP>1
#define FINISHED(c) (fin[(c)*NAPP] && fin[(c)*NAPP+1])
#else
#define FINISHED(c) fin[c]
#endif

#ifdef F_REORD_S
#define CLOSE_BEGIN(R) if :: ALLIDLE(R) -> lock[c]=1; sg=grant[R] :: else -> goto next fi
#else
#define CLOSE_BEGIN(R) lock[c]=1; mapping[R]=mCLOSING; sg=grant[R]
#endif
#define close_next(R,which) do :: R<(c+1)*NR && !(which) -> R++ :: else -> break od

/* ---- close.c: the thread that calls gpub_trim, at any moment, and gpub_disconnect at the end ---- */
inline forget_all() {
	atomic { !lock[c] -> R=c*NR;
		do
		:: R<(c+1)*NR -> assert(!mapped[R] || STRANDED(R));
			base[R*NSL]=seq[R*NSL];
#if NSL>1
			base[R*NSL+1]=seq[R*NSL+1];
#endif
			if
			:: mapping[R]==mREQUESTED -> record_release(R, 1)
			:: mapping[R]==mOPEN || mapping[R]==mCLOSING -> mapping[R]=mCLOSING; grant[R]=0; record_strand(R)
			:: mapping[R]==mNONE
			fi; R++
		:: else -> R=0; break
		od }
}
proctype Owner(byte c) LIVING {
	byte i, R, w, sg; bool ok, busy, held, again;
	do
	:: true ->
		if
		:: i<TRIMS -> i++                                  /* gpub_trim */
#ifdef NOLEAVE
		:: FINISHED(c) -> break
#else
		:: FINISHED(c) -> i=TRIMS+1;                       /* gpub_disconnect: drop_all_holds; no lease is left here */
			atomic { !lock[c] -> leaving[c]=1
#ifdef BG
				; asleep[c]=0 }
#ifndef F_NOSTOP
			; ended[c]                                 /* closer_stop */
#endif
#else
				}
#endif
#endif
		fi;
		R=c*NR;                                            /* client_close_idle */
next:		do
		:: atomic { !lock[c] -> close_next(R, mapping[R]==mOPEN);
			if :: R<(c+1)*NR -> CLOSE_BEGIN(R) :: else -> R=0; break fi };
			record_close(R, 1)
		od;
		if :: i==TRIMS+1 -> c2b[c]!LEAVE,0,0; left[c]; hup[c]=1; forget_all(); break    /* say_leave, pthread_join, close */
		   :: else
		fi
	od;
	i=0
}

/* ---- closer.c: the background closer ---- */
#ifdef BG
#define DUE(R) (noticed[R] && mapping[R]!=mNONE)
#define READYAT(R) (noticed[R] && mapping[R]==mOPEN && ALLIDLE(R))
#if NR==2
#define ANY_DUE(c) (DUE((c)*2) || DUE((c)*2+1))
#define READY(c) (READYAT((c)*2) || READYAT((c)*2+1))
#elif NR==3
#define ANY_DUE(c) (DUE((c)*3) || DUE((c)*3+1) || DUE((c)*3+2))
#define READY(c) (READYAT((c)*3) || READYAT((c)*3+1) || READYAT((c)*3+2))
#else
#define ANY_DUE(c) (DUE((c)*4) || DUE((c)*4+1) || DUE((c)*4+2) || DUE((c)*4+3))
#define READY(c) (READYAT((c)*4) || READYAT((c)*4+1) || READYAT((c)*4+2) || READYAT((c)*4+3))
#endif
#ifdef F_POLLONCE
#define AGAIN(c) false
#else
#define AGAIN(c) (POLLS || READY(c) || leaving[c]) /* a look in AGAIN_MS that tells something new */
#endif
/* Its sleep with a timeout is a sleep that AGAIN ends too: looks that find nothing new are made once a wake-up */
proctype Closer(byte c) LIVING {
	byte R, w, sg; bool ok, busy, held, again;
main:	atomic { !lock[c] ->                                                       /* closer_main */
		if
		:: leaving[c] -> goto over                                         /* closer_ends */
		:: !leaving[c] && ANY_DUE(c) -> R=c*NR
		:: !leaving[c] && !ANY_DUE(c) ->
#ifdef F_LOSTWAKE
			goto doze
		fi };
	goto next;
doze:	atomic {
		if
		:: true ->
#endif
			asleep[c]=1; goto sleep
		fi };
next:	do                                                                         /* close_due */
	:: atomic { !lock[c] -> close_next(R, DUE(R));
		if
		:: R==(c+1)*NR -> R=0; if :: again -> asleep[c]=1; goto sleep :: else -> goto main fi
		:: R<(c+1)*NR && mapping[R]==mOPEN -> CLOSE_BEGIN(R)
		:: R<(c+1)*NR && mapping[R]!=mOPEN -> assert(!STRANDED(R)); again=1; R++; goto next
		fi };
		record_close(R, 0)
	od;
sleep:	atomic { !lock[c] && (!asleep[c] || (again && AGAIN(c))) -> asleep[c]=0; again=0; goto main };
over:
	ended[c]=1
}
#endif

/* ---- service.c: the one reader of the socket ---- */
#ifdef F_NOTICEDUMB
#define NOTICED(R) noticed[R]=1
#elif defined(LIVE)
#define NOTICED(R) noticed[R]=1; broadcast(c)
#else
#define NOTICED(R) noticed[R]=1; wake(c)
#endif
inline on_notice(g) {
	atomic { !lock[c] -> R=c*NR;
		do :: R<(c+1)*NR ->
#ifdef F_NOTICEOPEN
			if :: g && grant[R]==g && mapping[R]==mOPEN -> NOTICED(R) :: else fi;
#else
			if :: g && grant[R]==g -> NOTICED(R) :: else fi;   /* record_of_grant */
#endif
			R++
		:: else -> break
		od; R=0; g=0; s=0 }
}
proctype Svc(byte c) LIVING {
	byte R, g, s, w;
end:	do
	:: atomic { b2c[c]?GRANT(R,g,s); lock[c]==0 -> skip };         /* on_grant: grant_record */
		if
#ifndef F_NOLEFT
		:: leaving[c] -> c2b[c]!CLOSED,g,s
#endif
#ifdef F_NOLEFT
		:: true ->
#else
		:: !leaving[c] -> assert(mapping[R]==mREQUESTED);
#endif
			if
			:: mapped[R]=s;                                /* grant_open */
				atomic { !lock[c] ->                   /* grant_settle */
#ifndef F_LEAVEOPEN
					if :: leaving[c] -> goto give_back :: else fi;
#endif
					serial[R]=s; grant[R]=g; mapping[R]=mOPEN;                                 /* record_open */
#ifndef F_OPENDUMB
					broadcast(c);
#endif
					goto taken };
give_back:			mapped[R]=0; c2b[c]!CLOSED,g,s;                /* grant_give_back */
taken:				skip
#ifdef FAILOPEN
			:: atomic { fails[c]<FAILOPEN -> fails[c]++ }; c2b[c]!CLOSED,g,s;
				atomic { !lock[c] -> record_release(R, 1) }                                /* grant_refuse */
#endif
			fi
		fi;
		atomic { R=0; g=0; s=0 }
	:: atomic { b2c[c]?REFUSED(R,_,_) }; atomic { !lock[c] -> record_release(R, 1); R=0 }       /* on_reply */
	:: notices[c]?NOTICE(g,s,_) -> on_notice(g)
	:: b2c[c]?LEFT(_,_,_) -> break
	od;
	left[c]=1
}

/* ---- a client that lies: a CLOSED of what it has open and goes on using; record_close has the other lie ---- */
#ifdef LIES
proctype Liar(byte c) LIVING {
	byte R;
	atomic { if :: mapping[c*NR]==mOPEN -> R=c*NR :: mapping[c*NR+1]==mOPEN -> R=c*NR+1 fi };
	atomic { nfull(c2b[c]) && grant[R] -> c2b[c]!CLOSED,grant[R],serial[R] }
}
#define start_liar(c) if :: FOREIGN(c) -> run Liar(c) :: else fi
#else
#define start_liar(c) skip
#endif

/* ---- a process ends: its threads at once, its GPU's work and its descriptors later ---- */
proctype Crash(byte c) {
	byte R, S, q;
	if
#if !defined(CLOSEFAIL) && !defined(DIES)
	:: skip
#endif
	:: dead[c]=1;
		if
		:: !hup[c] -> pidfd[c]=1 /* a forked child still holds the GPU's descriptors and the socket */
		:: hup[c]=1              /* the socket is the first to go */
		fi;
		atomic { do :: gq[c*2]?R,S,q :: gq[c*2+1]?R,S,q :: empty(gq[c*2]) && empty(gq[c*2+1]) -> break od;
			R=c*NR; do :: R<(c+1)*NR -> mapped[R]=0; R++ :: else -> break od; R=0; S=0; q=0
#ifdef LIES
			; secret[c]=0
#endif
			};
		atomic { pidfd[c]=1; hup[c]=1 }
	fi
}

/* ---- broker/: one thread; these are its private books ---- */
byte state[NG+1], made;                       /* struct buffer */
byte open[NG+1], named[NG+1];                 /* struct allocation */
byte granted[NC*(MG+1)], ngrant[NC], grants[NC]; bool gone[NC];        /* struct grant, struct session */
#if OTHER
bool held_on[NC*(NG+1)]; byte helds[NC];      /* the session's held grants: one an allocation, and how many */
#define HELDS(c) helds[c]
#else
#define HELDS(c) 0
#endif
#if defined(F_PIDFDLIES)
#define DEAD(c) pidfd[c]
#elif defined(F_HUPLIES)
#define DEAD(c) hup[c]
#else
#define DEAD(c) (pidfd[c] && hup[c])
#endif

#define GRANTED(c,g) granted[(c)*(MG+1)+(g)]
#define HELD_ON(c,A) held_on[(c)*(NG+1)+(A)]
inline registry_grant_over(c,g) { open[GRANTED(c,g)]--; GRANTED(c,g)=0; grants[c]-- }

/* CLOSED(g). Of another user's session: held until that process is dead. One a session and allocation: others merge */
#if !OTHER || defined(F_BELIEVE)
#define registry_grant_closed(c,g) registry_grant_over(c,g)
#else
#ifdef F_ONEHELD
#define MERGES(c,A) helds[c]
#else
#define MERGES(c,A) HELD_ON(c,A)
#endif
inline registry_grant_closed(c,g) {
	if
	:: FOREIGN(c) && !MERGES(c,GRANTED(c,g)) -> HELD_ON(c,GRANTED(c,g))=1; helds[c]++;
#ifndef F_HELDTWICE
		GRANTED(c,g)=0; grants[c]--
#endif
	:: else -> registry_grant_over(c,g)
	fi
}
#endif

inline request_grant(c) {
	atomic { !gone[c] && c2b[c]?[ACQUIRE,_,_] -> c2b[c]?ACQUIRE(R,n);        
		s=made; do :: s>0 && !(NAME(s)==n && state[s]==wLIVE) -> s-- :: else -> break od;
		if
		:: s -> g=0;
#ifdef F_ONEGRANT
			g=1; do :: g<=MG && GRANTED(c,g)!=OF(s) -> g++ :: g>MG -> g=0; break :: else -> break od;
#endif
			if
			:: !g -> ngrant[c]++; g=ngrant[c]; assert(g<=MG); GRANTED(c,g)=OF(s); open[OF(s)]++; grants[c]++
			:: else
			fi;
			if :: hup[c] :: else -> assert(nfull(b2c[c])); b2c[c]!GRANT,R,g,s fi
		:: else -> if :: hup[c] :: else -> assert(nfull(b2c[c])); b2c[c]!REFUSED,R,0,0 fi
		fi; R=0; g=0; n=0; s=0 }
}
inline handle_closed(c) {
	atomic { !gone[c] && c2b[c]?[CLOSED,_,_] -> c2b[c]?CLOSED(g,s);
#ifdef F_NOGID
		g=1; do :: g<=MG -> if :: s && GRANTED(c,g)==OF(s) -> registry_grant_over(c,g) :: else fi; g++ :: else -> break od;
#else
		if :: GRANTED(c,g) -> registry_grant_closed(c,g) :: else fi;
#endif
		g=0; s=0 }
}
inline handle_leave(c) {
	atomic { c2b[c]?[LEAVE,_,_] -> c2b[c]?LEAVE(_,_); if :: hup[c] :: else -> b2c[c]!LEFT,0,0,0 fi }
}
#ifdef F_RESET
inline session_reset(c) {
	atomic { !dead[c] && hup[c] && nempty(b2c[c]) && nempty(c2b[c]) ->
		do :: c2b[c]?_,_,_ :: empty(c2b[c]) -> break od }
}
#endif
#ifdef F_HANGUPENDS
#define HOLDS(c) (grants[c])
#else
#define HOLDS(c) (grants[c] || HELDS(c))
#endif
/* called by session_settle */
inline session_end(c) {
	atomic { !gone[c] && (hup[c] && empty(c2b[c]) && !HOLDS(c) || DEAD(c)) -> gone[c]=1;
		g=1; do :: g<=MG -> if :: GRANTED(c,g) -> registry_grant_over(c,g) :: else fi; g++ :: else -> break od; g=0;
#if OTHER && !defined(F_HELDLOST)
		s=1; do :: s<=NG -> if :: HELD_ON(c,s) -> open[s]--; HELD_ON(c,s)=0; helds[c]-- :: else fi; s++
			:: else -> break od; s=0
#endif
	}
}
inline registry_unlink(S) {
	state[S]==wLIVE -> state[S]=wDRAINING;
		atomic { named[OF(S)]--; word[PLACE(S)]=W(S,wDRAINING); unlinked[NAME(S)]=S };
		atomic { c=0; do :: c<NC -> g=1;
			do :: g<=MG -> if
				:: GRANTED(c,g)==OF(S) && !hup[c] -> assert(nfull(notices[c])); notices[c]!NOTICE,g,S,0
				:: else fi; g++   /* also of the buffers beside it; not those that are held */
			   :: else -> break od; c++
			:: else -> break od; c=0; g=0 }
}
#ifdef F_FIRSTNAME
#define NAMED(A) false
#else
#define NAMED(A) named[A]
#endif
/* A: the first buffer in it */
inline allocation_settle(A) {
	atomic { state[A]==wDRAINING && OF(A)==A && !NAMED(A) && open[A]==0 ->
		R=0; do :: R<NC*NR -> assert(OF(mapped[R])!=A); R++ :: else -> break od; R=0;
#ifdef LIES
		c=0; do :: c<NC -> assert(!((secret[c]>>A)&1)); c++ :: else -> break od; c=0;
#endif
		freed[A]=1;
		s=1; do :: s<=NG -> if :: OF(s)==A && state[s]==wDRAINING -> state[s]=wFREE; word[PLACE(s)]=W(s,wFREE) :: else fi; s++
			:: else -> break od; s=0 }                                     /* registry_released */
}
inline registry_ready() {
	atomic { made<NG && (made<NN || state[made+1-NN]!=wLIVE) && (made<PLACES || freed[OF(made+1-PLACES)]) ->
		made++; state[made]=wLIVE; word[PLACE(made)]=W(made,wLIVE);
#if PER>1
		/* beside the buffer before it, as long as that one's memory is there */
		if :: (made-1)%PER && !freed[OF(made-1)] -> OF(made)=OF(made-1) :: else -> OF(made)=made fi;
#endif
		named[OF(made)]++ }
}
#if OTHER
inline settled(s) {            /* but for what living processes of other users may still map */
	n=0; c=0; do :: c<NC -> if :: !dead[c] && HELD_ON(c,OF(s)) -> n++ :: else fi; c++ :: else -> break od;
	assert(freed[OF(s)]==(n==0) && open[OF(s)]==n); n=0
}
#else
#define settled(s) assert(freed[OF(s)] && open[OF(s)]==0)
#endif
proctype Broker() {
	byte c, g, s, n, R;
	do
	:: request_grant(0) :: handle_closed(0) :: handle_leave(0) :: session_end(0)
#if NC>1
	:: request_grant(1) :: handle_closed(1) :: handle_leave(1) :: session_end(1)
#endif
#ifdef F_RESET
	:: session_reset(0)
#endif
#ifndef LIVE
	:: registry_ready()
	:: registry_unlink(1) :: allocation_settle(1)
#if NG>1
	:: registry_unlink(2) :: allocation_settle(2)
#endif
#if NG>2
	:: registry_unlink(3) :: allocation_settle(3)
#endif
	:: timeout -> break
#endif
	od;
	/* nothing can move any more: all is freed, the books are empty, and no living caller hangs */
	atomic {
		assert(made==NG);
		s=1; do :: s<=NG -> settled(s); s++ :: else -> break od;
		c=0; do :: c<NA -> assert(dead[c/NAPP] || fin[c]); c++ :: else -> break od;
		c=0; do :: c<NC -> assert(grants[c]==0 && (HELDS(c)==0 || !dead[c]));
#ifndef NOLEAVE
			assert(dead[c] || hup[c]);
#endif
			c++ :: else -> break od }
}
#ifdef LIVE
/*
 * Each of these is a process of its own, lest a fair broker does nothing but answer: who makes and unlinks the
 * buffers, and the device's worker that frees them.
 */
proctype Names() {
	byte c, g;
	do
	:: registry_ready()
#if NG>1 || !defined(STAYS)
	:: atomic { registry_unlink(1) }
#endif
#if NG>1 && !defined(STAYS)
	:: atomic { registry_unlink(2) }
#endif
	od
}
proctype Worker() {
	byte c, R, s;
	do
	:: allocation_settle(1)
#if NG>1
	:: allocation_settle(2)
#endif
	od
}
#define start_names() run Names(); run Worker()
#if defined(STAYS)
#define ALLFREED (NG==1 || freed[1])
#elif NG>1
#define ALLFREED (freed[OF(1)] && freed[OF(2)])
#else
#define ALLFREED freed[1]
#endif
#define OUTSIDE(a) (!inside[a] || dead[(a)/NAPP])
#if NA>1
#define ALLOUTSIDE_AGAIN ([]<> OUTSIDE(0) && []<> OUTSIDE(1))
#else
#define ALLOUTSIDE_AGAIN ([]<> OUTSIDE(0))
#endif
/* each drain ends, and each acquire. Searched under weak fairness: each process that can always move moves some time */
ltl ends { (<> ALLFREED) && ALLOUTSIDE_AGAIN }
#else
#define start_names() skip
#endif

#ifdef BG
#define start_closer(c) run Closer(c)
#else
#define start_closer(c) skip
#endif
init { atomic { byte i;
	do :: i<NC*NN -> table[i]=NIL; i++ :: else -> break od; i=0;
	do :: i<NC -> run Gpu(i); run Svc(i); run Owner(i); start_closer(i); start_liar(i);
		if :: (CRASH>>i)&1 -> run Crash(i) :: else fi; i++ :: else -> break od; i=0;
	do :: i<NA -> run App(i,i/NAPP); i++ :: else -> break od; i=0;
	start_names(); run Broker() } }
