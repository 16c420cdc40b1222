/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lease.pml - the lease protocol as libbroker/client and broker/ implement it, for spin. README.md beside it says
 * what is modelled, what is not, and how to run it; run.sh runs it in the suite.
 *
 * NC clients; each has NAPP threads that acquire, renew and return, one more that trims and disconnects, the
 * service thread, with BG the closer, a GPU with NSTR streams, NR records of NSL slots on NM mappings. The broker makes
 * NG buffers (serials 1, 2 ...) under NN names, PER of them in an allocation, unlinks each at any moment, gives the range of one
 * that is over to the next, and frees the allocation. A grant is one bit of a mapping: (mapping, buffer). Clients may
 * crash at any step; those of another user may lie.
 * A step carries the name of the function that does it. One statement is one step that others can come between;
 * what a function does under the client's lock and nobody reads without it is one atomic step.
 *
 * Without a flag it is the right protocol. Each flag makes one mistake, and must give a counterexample:
 *  F_CATONLY    record_live looks at the board's word alone, not at the record's mapping word
 *  F_NOCAT      record_live looks at the mapping word alone: an acquire after the unlink finds the old buffer
 *  F_REUSE      slot_unused takes a slot for idle whose return has not landed
 *  F_BOOL       slot_unused takes the release word for a flag: any value of it is a landing
 *  F_REORD_A    record_hold_in looks before its hold is visible (no fence)
 *  F_REORD_S    mapping_close looks at the slots before its CLOSING is visible (no fence)
 *  F_NOVERSION  acquire_fast does not compare the table's version after the hold
 *  F_NOBASE     gpub_renew does not compare the sequence with slot->base
 *  F_BASEEARLY  gpub_renew compares it before the hold only
 *  F_NOSEQ      gpub_return ends any hold of the slot, not that of its lease's sequence
 *  F_NOSYNC     the close is not behind kernels of leases returned without a stream
 *  F_REVERTLATE close_wait closes on a look that it made after its pause, while the record was OPEN
 *  F_WAITBLIND  close_wait does not look after its pause whether the record is still as it was
 *  F_WAITSTATE  it looks for OPEN alone, not for its mapping
 *  F_EARLY      mapping_close sends CLOSED before the mapping is closed
 *  F_ACKFAIL    mapping_close sends CLOSED though the close failed
 *  F_NOGID      CLOSED names the allocation, not the mapping, and is sent after the mapping is forgotten
 *  F_SPLIT      notices travel on a channel of their own, and can overtake their GRANT
 *  F_NOTICEOPEN close_wait pauses in CLOSING, and on_notice looks for OPEN mappings only: one that then reverts never
 *               learns of it
 *  F_POLLONCE   closer_main waits for a change where it has to come back by itself: returns and landings tell nobody
 *  F_LOSTWAKE   closer_main releases the lock between its look and its wait
 *  F_NOSTOP     gpub_disconnect does not wait for the closer
 *  F_LEAKED     a mapping that is leaked stays noticed: the closer looks at it for ever
 *  F_NOLEFT     on_grant does not look at leaving at all
 *  F_LEAVEOPEN  on_grant looks at leaving before the open (record_of_request), not after it (mapping_publish)
 *  F_RESET      the hang-up of a client that left messages unread discards what it sent last (ECONNRESET)
 *  F_PIDFDLIES  death is the pidfd alone (a forked child holds the GPU's descriptors past it)
 *  F_HUPLIES    death is the hang-up alone (the GPU's work ends after it)
 *  F_TRUST      the CLOSED of another user's session ends its mapping
 *  F_HANGUPENDS the hang-up of a session that has only orphaned mappings ends it
 *  F_ONEORPHAN  one orphaned mapping stands for all allocations of its session
 *  F_ORPHANLOST session_end ends the session's mappings, and forgets its orphaned ones
 *  F_ORPHANTWICE an orphaned mapping is still one of its session's: a second CLOSED ends it
 *  F_MERGELOST  a CLOSED that merges into the hold that is there ends the grants of its mapping
 *  F_FIRSTNAME  an allocation is freed when the first of its buffers is over
 *  F_ONERECORD  mapping_close looks at the slots of one record of the mapping only
 *  F_UNQUIESCED a record is retired though a lease of it was returned without a stream, and nobody waited for the device
 *  F_PROOFFIRST retire looks whether that was so before it looks at the slots, not after
 *  F_UNORDEREDLATE gpub_return says so after it gave the slot back, not before
 *  F_DROPQUIESCED gpub_disconnect, which drops what is held, does not say so
 *  F_QUIESCEDFIRST retire sends QUIESCED before it looks at the slots
 *  F_RETIRESTAY a record stays on its mapping until its QUIESCED is sent: a disconnect finds the mapping busy, and leaves it
 *  F_CLOSERACE  ... and a close takes such a record for its own
 *  F_SILENT     a record is retired without a word to the broker, also one whose buffer is live
 *  F_STALEMAP   on_known does not look whether the mapping is still there and not being closed
 *  F_LEAVEKNOWN a client that leaves answers GRANT(M, known) with CLOSED(M), as it does one with a ticket
 *  F_REFUSEKNOWN on_known answers what it cannot take with CLOSED(M)
 *  F_REFUSEDUMB  ... or with nothing
 *  F_NOTICEZERO NOTICE(M, 0) is looked up among the records, and an idle mapping has none
 *  F_NOTICECROSS NOTICE(M, 0) is ignored while a record is still on the mapping: it crosses that one's retire
 *  F_GRANTLEAK  the end of a mapping does not end its grants
 *  F_RECYCLELIVE a range serves a new buffer as soon as the old one is unlinked
 *  F_RECYCLEUSED  ... at the first QUIESCED, though another session has a grant
 *  F_QUIESCEDTWICE a QUIESCED ends a grant that is not there
 *  F_QUIESCEDFOREIGN ... or one of another session's mapping
 *  F_TRUSTQUIESCED ... or that of another user's session
 *  F_FOREIGNQUIESCED a client retires also where its QUIESCED is not trusted, and never closes the mapping
 *  F_OWNDUMB    a QUIESCED on a redeemed mapping is answered with nothing
 *  F_BACKDUMB   ... or one of what is not to be kept, and nobody is asked to close it
 *  F_OWNQUIESCED a QUIESCED on a redeemed mapping ends the grant, and the mapping stays
 *  F_REDEEMKNOWN a REDEEM is answered with the mapping that the session has
 *  F_TRIMAWAITED a pass closes a mapping though who waited for its record has yet to take it
 *  F_SEALALL    a reader's grant counts as one that reads, and its session may write all the same
 *  F_SEALBLIND  a seal does not look at the other sessions' grants
 *  F_SEALRIGHTS RIGHTS is answered as if the buffer were not sealed
 *  F_SEALRECORD the seal's answer takes no right from the client's own records
 *  F_SEALLATE   a record gets GPUB_WRITE by an answer that came before the seal's, and is used after it
 *  F_RENAMEWORD a rename leaves the word of the earlier serial LIVE
 *  F_RENAMEDUMB a rename sends no notice
 *  F_RENAMEUSED a range is free when the grants of its last serial have ended
 *  F_RENAMEKEY  a QUIESCED ends the grant of the buffer's last serial, whichever it names
 *  F_VMMBLIND   with VMM, a close does not look whether a lease of it was returned without a stream, and waits for nothing
 *  F_VMMPROOFFIRST  ... or it looks before it looks at the slots, not after
 * and these in a search for what never ends (LIVE):
 *  F_NOWAKE     record_release does not wake who waits for the record
 *  F_NOTICEDUMB on_notice does not wake the closer
 *  F_OPENDUMB   record_open does not wake who asked for it
 *  F_KNOWNSPIN  a GRANT(M, known) for a mapping that is being closed, or failed to, has the acquirer ask again at once
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
#ifndef NM
#define NM 2     /* mappings of a client */
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
#define MG (NG + 2*TRIMS + 2*NAPP) /* mappings of a client */
#endif
/* BG: GPUB_BACKGROUND_CLOSE.  NOLEAVE: nobody disconnects.  TIMEOUTS: acquires stop while the request is under way.
 * FAILOPEN=n: n opens of a client may fail.  CLOSEFAIL=n: n closes of a
 * client may fail, and its process ends some time (give it a CRASH bit).
 * COPIES: copies of a lease that was returned are returned again.  NORENEW, NOUNORD: without gpub_renew, gpub_return.
 * LIES: clients of another user say CLOSED of what they keep mapped.  DIES: who may crash does.
 * LIVE: for the formula at the end: waits are ended by a wake-up alone, polls find nothing new any number of times.
 * FOREVER: threads acquire for ever (with LIVE, NOLEAVE, NORENEW, NOUNORD).  PARKS: they may keep a lease for ever
 * (with DIES).  STAYS: the last buffer is never unlinked (with LIVE).  NORETIRE: clients close what is noticed, and never send QUIESCED.
 * REDEEMS: an acquire may be a gpub_redeem of a ticket for the buffer that was made last (with NORENEW).
 * TIGHT: the memory of a buffer that is alone in it is not kept: its QUIESCED leaves the grant, and asks for the CLOSED.
 * VMM: memory is exported by descriptors: a close of a mapping whose leases were all returned in stream order waits for nothing, and the reader
 * of the socket closes those that the broker wants back.
 * LATER: notices go at any later moment.  POOL: an idle allocation may wait for a new buffer; else it is evicted at once.  KEEPS: leases are held, with kernels under
 * way, when the client disconnects.  RENAMES: the buffer that was made last may get the next serial, and name, instead of a new one (NG=2).
 * SEALS: leases read or write, and a thread of client 0 seals the buffer (NG=1, with NORENEW).  TWICE: a QUIESCED may be sent twice.  FORGES: one that names another session's mapping. */
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
#ifdef RENAMES
byte was[NG+1], renamed[NG+1];         /* the serial that the buffer had before; the one that it has since. 0: none */
#define RENAMED(s) renamed[s]
#ifdef F_RENAMEUSED
#define USED(s) grants[s]
#else
#define USED(s) (grants[s] || (was[s] && grants[was[s]]))
#endif
#else
#define RENAMED(s) false
#define USED(s) grants[s]
#endif
#ifdef SEALS
#define asks_to_write(wr) if :: wr=0 :: wr=1 fi
#define LACKS(R) (wr && !may[R])
#define ASKS(n) (n+4*wr)
#define ASKED_TO_WRITE n/4
#define ASKED_NAME n%4
#else
#define asks_to_write(wr) skip
#define LACKS(R) false
#define ASKS(n) n
#define ASKED_NAME n
#endif
#define FOREIGN(c) ((OTHER>>(c))&1)
#define OF(s) allocation[s]
#if defined(NORETIRE)
#define RETIRES(c) false
#elif defined(F_FOREIGNQUIESCED)
#define RETIRES(c) true
#else
#define RETIRES(c) (!FOREIGN(c))       /* a GRANT says whether a QUIESCED would be trusted */
#endif
#ifdef FOREVER                         /* sequences wrap then; in stream order each lands before the next is taken */
#define COUNT(i) skip
#define NEXT(q) q=((q)+1)&7
#else
#define COUNT(i) i++
#define NEXT(q) q++
#endif
mtype = { ACQUIRE, REDEEM, CLOSED, QUIESCED, RIGHTS, SEAL, LEAVE, GRANT, KNOWN, REFUSED, NOTICE, DONE, LEFT };
mtype = { mNONE, mREQUESTED, mOPEN, mCLOSING };
mtype = { sFREE, sHELD, sRETURNING, sRETURNED };

/* ---- the board ---- */
byte word[PLACES];
byte allocation[NG+1];                 /* the serial of the first buffer in it; broker's registry, and what is really so */
byte state[NG+1], made;                /* struct buffer; FREE: its range may be another's */

/* ---- clients: struct record, struct mapping, struct slot, struct table, struct waiter ---- */
mtype rstate[NC*NR] = mNONE;           /* of the record; with mapping, the id of the mapping that it is on: ONE atomic word */
byte mapping[NC*NR], serial[NC*NR], rname[NC*NR];
byte on[NC*NR];                        /* the mapping's place: where record->ptr points */
bool noticed[NC*NR];                   /* its buffer is unlinked */
bool nostream[NC*NR];                     /* a lease of it was returned without a stream */
byte mid[NC*NM];                       /* id of the mapping; 0: none, or being opened */
bool mclosing[NC*NM], mnoticed[NC*NM]; /* the device closes it, or failed to; close it when you can */
byte seq[NC*NR*NSL]; mtype hold[NC*NR*NSL] = sFREE;   /* ONE atomic word */
byte landed[NC*NR*NSL], base[NC*NR*NSL];              /* slot->word, written by the GPU; slot->base */
byte table[NC*NN] = NIL;
bool changed[NA];                      /* the table's version is not what this thread read */
byte waits[NA]; bool told[NA], fin[NA];               /* waits: record + 1; told: released with an error */
bool lock[NC], leaving[NC], left[NC];
#ifdef BG
bool asleep[NC], ended[NC];            /* the closer waits for client->changed; it has ended */
#endif

#ifdef SEALS
bool may[NC*NR], closed_off[NC*NR];    /* record->rights has GPUB_WRITE; record->sealed */
byte answer[NA+1];                     /* a thread's to RIGHTS, the sealer's to SEAL: 1 done, 2 refused, 3 the grant is not there */
bool seal_over;                        /* the sealer has had its answer */
#endif

/* ---- what is really so ---- */
#ifdef SEALS
bool sealed, late;                     /* the buffer is; gpub_seal has returned, and was not refused */
byte writing[NC];                      /* leases that write */
#endif
byte mapped[NC*NM];                    /* the allocation that the process has mapped there; 0: none */
bool freed[NG+1];                      /* allocations */
#ifdef LIES
byte secret[NC];                       /* buffers, a bit each, that the process goes on using beside its records */
#endif
byte unlinked[NN];                     /* the last serial of that name that was unlinked */
byte unordered[NC];                    /* kernels under way whose lease was returned without a stream */
bool dead[NC], pidfd[NC], hup[NC];
#if defined(FAILOPEN) || defined(CLOSEFAIL)
byte fails[NC];
#endif
#ifdef CLOSEFAIL
bool leaked[NC*NM];
#define LEAKED(X) leaked[X]
#else
#define LEAKED(X) false
#endif

chan c2b[NC] = [3] of { mtype, byte, byte };
#define UNREAD (6+2*PER)
chan b2c[NC] = [UNREAD] of { mtype, byte, byte, byte };
#ifdef F_SPLIT
chan notices[NC] = [UNREAD] of { mtype, byte, byte, byte };
#else
#define notices b2c
#endif
chan gq[NC*2] = [NAPP+1] of { byte, byte, byte, byte }; /* a stream: mapping and buffer touched, slot + 1, sequence to write */

#ifdef F_BOOL
#define LANDED(S) (landed[S]!=0)
#else
#define LANDED(S) (landed[S]==seq[S])
#endif
#ifdef F_REUSE
#define TAKEABLE(S) (hold[S]==sFREE || hold[S]==sRETURNED)
#else
#define TAKEABLE(S) slot_unused(S)
#endif
#define slot_unused(S) (hold[S]==sFREE || (hold[S]==sRETURNED && LANDED(S)))
#if NSL>1
#define ALLUNUSED(R) (slot_unused((R)*NSL) && slot_unused((R)*NSL+1))
#define ANYHELD(R) (hold[(R)*NSL]==sHELD || hold[(R)*NSL]==sRETURNING || hold[(R)*NSL+1]==sHELD || hold[(R)*NSL+1]==sRETURNING)
#else
#define ALLUNUSED(R) slot_unused(R)
#define ANYHELD(R) (hold[R]==sHELD || hold[R]==sRETURNING)
#endif

/* ---- the GPU: an operation is on its way until it is complete: its last access, then the release word ---- */
inline complete(Q) {
	atomic { gq[Q]?X,s,S,q -> assert(mapped[X]==OF(s) && !freed[OF(s)]); assert(state[s]!=wFREE);
		if :: S -> landed[S-1]=q :: else -> unordered[c]-- fi; X=0; s=0; S=0; q=0 }
}
proctype Gpu(byte c) {
	byte X, s, S, q;
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

/* ---- records.c, under the lock ---- */
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
	record_detach(R); waiters_tell(R, error); rstate[R]=mNONE; mapping[R]=0; noticed[R]=0; nostream[R]=0; on[R]=0;
#ifndef F_NOWAKE
	broadcast(c);
#endif
#ifndef F_CATONLY
	serial[R]=0
#endif
}
inline record_leak(R) {
	record_detach(R); waiters_tell(R, 1); rstate[R]=mCLOSING; noticed[R]=0; mapping[R]=0; broadcast(c)
}
/* All records of the mapping with the id sg */
#define RECORDS(label) R=c*NR; do :: R<(c+1)*NR -> if :: sg && mapping[R]==sg -> label :: else fi; R++ :: else -> break od; R=0
inline mapping_forget(X) { mid[X]=0; mclosing[X]=0; mnoticed[X]=0 }
/* record_take, record_invalidate; then record_request_begin's REQUESTED and record_wait_begin */
inline record_new(R, n) {
	R=c*NR; do :: R<(c+1)*NR && rstate[R]!=mNONE -> R++ :: else -> break od;
	assert(R<(c+1)*NR);            /* the model's pool is too small */
	rname[R]=n; waits[a]=R+1;
	base[R*NSL]=seq[R*NSL];
#if NSL>1
	base[R*NSL+1]=seq[R*NSL+1];
#endif
	rstate[R]=mREQUESTED
}
#define record_bind(R,n) record_new(R, n); table[c*NN+n]=R; table_change()             /* table_add */

/* ---- close.c: retire and close ---- */
inline record_idle_look(S) {
	if :: slot_unused(S) :: else -> busy=1; if :: hold[S]!=sRETURNED -> held=1 :: else fi fi
}
/*
 * Its buffer is unlinked: the record is released, and the mapping stays. Begun by its caller: lock taken, CLOSING, its
 * id of its mapping in sg. The record leaves its mapping under the lock, before anything is sent. may_sync: the device may be waited for
 */
#if defined(F_UNQUIESCED)
#define UNQUIESCED(R) false
#elif defined(F_PROOFFIRST)
#define UNQUIESCED(R) first
#else
#define UNQUIESCED(R) nostream[R]           /* read after the slots */
#endif
#ifdef F_RETIRESTAY
#define record_leave(R) record_detach(R)
#else
#define record_leave(R) record_detach(R); mapping[R]=0
#endif
inline retire_decide(R, may_sync) {
	lock[c]=0;
	if
	:: busy || (UNQUIESCED(R) && !may_sync) -> rstate[R]=mOPEN; busy=1
	:: !busy && UNQUIESCED(R) && may_sync -> record_detach(R); held=1 /* to be proven */
	:: !busy && !UNQUIESCED(R) -> record_leave(R)
	fi
}
inline record_retire(R, may_sync) {
#ifdef F_QUIESCEDFIRST
	c2b[c]!QUIESCED,sg,serial[R];
#endif
#if NSL>1
	atomic { busy=0; held=0; record_idle_look(R*NSL) };
	atomic { record_idle_look(R*NSL+1); if :: busy -> held=0 :: else fi; retire_decide(R, may_sync) };
#else
	atomic { busy=0; held=0; record_idle_look(R*NSL); if :: busy -> held=0 :: else fi; retire_decide(R, may_sync) };
#endif
	if
	:: !busy ->
		if
		:: held ->             /* device->synchronise, unlocked */
			atomic { unordered[c]==0 && !lock[c] -> held=0; record_leave(R) }
		:: else
		fi;
#if !defined(F_SILENT) && !defined(F_QUIESCEDFIRST)
		c2b[c]!QUIESCED,sg,serial[R];
#endif
#ifdef TWICE
		if :: c2b[c]!QUIESCED,sg,serial[R] :: skip fi;
#endif
		atomic { !lock[c] -> assert(rstate[R]==mCLOSING && serial[R]); record_release(R, 0); sg=0 }
	:: atomic { busy -> busy=0; held=0; sg=0; again=1 }
	fi
}
#ifdef F_PROOFFIRST
#define RETIRE_BEGIN(R) lock[c]=1; rstate[R]=mCLOSING; sg=mapping[R]; first=nostream[R]
#else
#define RETIRE_BEGIN(R) lock[c]=1; rstate[R]=mCLOSING; sg=mapping[R]
#endif
#ifdef F_PROOFFIRST
#define FIRST , first
#else
#define FIRST
#endif
#ifdef F_SILENT
#define RETIREE(R) (rstate[R]==mOPEN)
#else
#define RETIREE(R) (rstate[R]==mOPEN && noticed[R])
#endif

#ifdef WAITCLOSING
#define PAUSED mCLOSING
#define PAUSEDX true
#else
#define PAUSED mOPEN
#define PAUSEDX false
#endif
#if defined(F_WAITBLIND)
#define SAME(X) true
#elif defined(F_WAITSTATE)
#define SAME(X) (mid[X] && mclosing[X]==PAUSEDX)
#else
#define SAME(X) (mclosing[X]==PAUSEDX && mid[X]==sg)
#endif
/* wait: IF_UNUSED, WHEN_LANDED, IF_QUIESCED, as enum close_how */
#define IF_UNUSED 0
#define WHEN_LANDED 1
#define IF_QUIESCED 2
#ifdef VMM
#define PROOF , proof
#define PROVE() proof=1; RECORDS(if :: nostream[R] -> proof=0 :: else fi)       /* mapping_is_quiesced */
#if defined(F_VMMBLIND)
#define PROVE_FIRST() skip
#define PROVE_LAST() proof=1
#elif defined(F_VMMPROOFFIRST)
#define PROVE_FIRST() PROVE()
#define PROVE_LAST() skip
#else
#define PROVE_FIRST() skip
#define PROVE_LAST() PROVE()
#endif
#define AT_ONCE proof
#else
#define PROOF
#define PROVE_FIRST() skip
#define PROVE_LAST() skip
#define AT_ONCE false
#endif
/* Only who takes no lock can see the CLOSING of a look that finds a slot busy: it is withdrawn before the unlock */
inline close_decide(X, wait) {
	lock[c]=0;
	if :: !busy -> PROVE_LAST() :: else fi;
	if
	:: !busy && ((wait)!=IF_QUIESCED || AT_ONCE) -> mclosing[X]=1; RECORDS(rstate[R]=mCLOSING)
	:: !busy && (wait)==IF_QUIESCED && !AT_ONCE -> mclosing[X]=0; RECORDS(rstate[R]=mOPEN); ok=0
	:: busy && (held || (wait)!=WHEN_LANDED) -> mclosing[X]=0; RECORDS(rstate[R]=mOPEN); ok=0
	:: busy && !held && (wait)==WHEN_LANDED -> mclosing[X]=PAUSEDX; RECORDS(rstate[R]=PAUSED)
	fi
}
/* One step a slot. busy: a slot is not idle; held: by a lease */
#define next_record do :: R<(c+1)*NR && mapping[R]!=sg -> R++ :: else -> break od
#ifdef F_ONERECORD
#define look_on R=(c+1)*NR
#else
#define look_on R++; next_record
#endif
inline mapping_unused(X, wait) {
	do
#if NSL>1
	:: atomic { busy=busy; next_record; if :: R<(c+1)*NR -> record_idle_look(R*NSL) :: else fi };
		atomic { if :: R<(c+1)*NR -> record_idle_look(R*NSL+1); look_on :: else fi;
#else
	:: atomic { next_record; if :: R<(c+1)*NR -> record_idle_look(R*NSL); look_on :: else fi;
#endif
			if :: R>=(c+1)*NR -> close_decide(X, wait); break :: else fi }
	od
}
#ifdef LIVE
#define POLLS true
#else
#define POLLS false
#endif
/* busy: a record of it is being retired, and it is no time to close */
#ifdef F_CLOSERACE
#define begin_look(X) busy=0; R=c*NR
#else
#define begin_look(X) busy=0; sg=mid[X]; RECORDS(if :: rstate[R]==mCLOSING -> busy=1 :: else fi); PROVE_FIRST(); R=c*NR
#endif
/* Every record of it, or nothing of it */
#define CALM(R,X) (mapping[R]!=mid[X] || ALLUNUSED(R))
#define TAKEN(R,X) (mapping[R]==mid[X] && (ANYHELD(R) || rstate[R]==mCLOSING))
#if NR==2
#define EACH_CALM(X,r) (CALM(r,X) && CALM((r)+1,X))
#define ANY_TAKEN(X,r) (TAKEN(r,X) || TAKEN((r)+1,X))
#elif NR==3
#define EACH_CALM(X,r) (CALM(r,X) && CALM((r)+1,X) && CALM((r)+2,X))
#define ANY_TAKEN(X,r) (TAKEN(r,X) || TAKEN((r)+1,X) || TAKEN((r)+2,X))
#else
#define EACH_CALM(X,r) (CALM(r,X) && CALM((r)+1,X) && CALM((r)+2,X) && CALM((r)+3,X))
#define ANY_TAKEN(X,r) (TAKEN(r,X) || TAKEN((r)+1,X) || TAKEN((r)+2,X) || TAKEN((r)+3,X))
#endif
#define close_next_one ok=0; busy=0; held=0; sg=0; R=0; X++
#define record_closed record_release(R, 0)
/* Begun by its caller: lock taken, its records CLOSING, its id in sg. ok: closed, or leaked; else as before */
inline mapping_close(X, wait) {
	ok=1;
#ifdef F_REORD_S
	atomic { mclosing[X]=1; RECORDS(rstate[R]=mCLOSING); lock[c]=0 };
#else
	do                                                              /* close_wait */
	:: mapping_unused(X, wait);
		if
		:: !busy || !ok -> break
		:: busy && ok -> /* close_pause, until a look tells something new */
			atomic { !lock[c] && (POLLS || !SAME(X) || EACH_CALM(X,c*NR) || ANY_TAKEN(X,c*NR)) ->
				if :: SAME(X) -> lock[c]=1 :: else -> ok=0; break fi;
#ifdef F_REVERTLATE
				if :: EACH_CALM(X,c*NR) -> busy=0 :: else fi };
			atomic { if :: !busy -> lock[c]=0; mclosing[X]=1; RECORDS(rstate[R]=mCLOSING); break :: else fi;
#endif
#ifndef WAITCLOSING
				begin_look(X); if :: !busy :: else -> lock[c]=0; ok=0; break fi;
#endif
				busy=0; held=0; RECORDS(rstate[R]=mCLOSING); R=c*NR }
		fi
	od;
#endif
	if
	:: ok ->
#ifdef F_EARLY
		c2b[c]!CLOSED,sg,0;
#endif
		if
#ifdef CLOSEFAIL
		:: fails[c]<CLOSEFAIL -> fails[c]++;      /* device->close fails */
#ifdef F_ACKFAIL
			c2b[c]!CLOSED,sg,0;
#endif
			atomic { !lock[c] -> RECORDS(record_leak(R)); leaked[X]=1;
#ifndef F_LEAKED
				mnoticed[X]=0;
#endif
				close_next_one }
#endif
#ifdef LIES
		:: FOREIGN(c) && unordered[c]==0 ->      /* it does not close, and says that it did */
			atomic { RECORDS(secret[c]=secret[c]|(1<<serial[R])); mapped[X]=0 };
			c2b[c]!CLOSED,sg,0;
			atomic { !lock[c] -> RECORDS(record_closed); mapping_forget(X); close_next_one }
#endif
#ifdef F_NOSYNC
		:: true ->
#else
		:: AT_ONCE || unordered[c]==0 ->  /* device->close: behind the kernels of the process, but for VMM */
#endif
#ifdef F_NOGID
			atomic { !lock[c] -> assert(mapped[X] && mid[X]==sg); RECORDS(record_closed); mapping_forget(X);
				sg=mapped[X]; mapped[X]=0 };
			c2b[c]!CLOSED,0,sg; atomic { close_next_one }
#else
			atomic { assert(mapped[X] && mid[X]==sg); mapped[X]=0 };
#ifndef F_EARLY
			c2b[c]!CLOSED,sg,0;                        /* call_closed */
#endif
			atomic { !lock[c] -> RECORDS(record_closed); mapping_forget(X); close_next_one }
#endif
		fi
	:: atomic { !ok -> again=again || (wait)!=WHEN_LANDED; close_next_one }
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
	ok=(rstate[R]==mOPEN)
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
#ifdef SEALS
	bool wr, after;                /* it asks to write; gpub_seal had returned when it began */
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
			asks_to_write(wr);
#ifdef SEALS
			after=late;
#endif
			if :: R==NIL -> goto slow0 :: else fi };
#ifndef NORENEW
		:: atomic { lslot -> COUNT(i); INSIDE(1);                              /* gpub_renew */
			R=(lslot-1)/NSL; k=(lslot-1)%NSL; want=lserial;
			if :: !TOKEN_CURRENT(S,lseq) -> goto over :: else fi }
#endif
#ifdef REDEEMS
		:: atomic { !lock[c] && made && state[made]==wLIVE -> COUNT(i); INSIDE(1); want=made; n=NAME(made);
			record_new(R, n); goto redeem }                /* gpub_redeem: no name finds the record */
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
			if :: LACKS(R) -> goto undo :: else fi;
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
				:: rstate[R]==mOPEN -> /* take_open */
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
				:: rstate[R]==mREQUESTED -> waits[a]=R+1; goto join
				:: rstate[R]==mCLOSING -> waits[a]=R+1; goto closing
				fi
			fi };
grow:		/* record_grow: another slot. Here: this one, once it is idle */
		atomic { slot_unused(S) || rstate[R]!=mOPEN -> goto slow };
ask:		c2b[c]!ACQUIRE,R,ASKS(n);            /* request: call_send */
asked:		/* record_wait */
		if
		:: atomic { !lock[c] && AWAKE(a) && waits[a]==0 -> ok=told[a]; told[a]=0;
			if :: ok -> goto over :: else -> goto slow fi }
		:: atomic { !lock[c] && AWAKE(a) && waits[a]==R+1 && rstate[R]!=mREQUESTED -> waits[a]=0; goto slow }
		WAITS(waits[a]==R+1 && rstate[R]==mREQUESTED, asked)
#ifdef TIMEOUTS
		:: atomic { !lock[c] && waits[a]==R+1 -> waits[a]=0; goto over }               /* refuse_late */
#endif
		fi;
join:		/* what the other was refused is no answer to this thread: it asks itself */
		if
		:: atomic { !lock[c] && AWAKE(a) && (waits[a]==0 || rstate[R]!=mREQUESTED) -> waits[a]=0; told[a]=0; goto slow }
		WAITS(waits[a]!=0 && rstate[R]==mREQUESTED, join)
#ifdef TIMEOUTS
		:: atomic { !lock[c] && waits[a]==R+1 -> waits[a]=0; goto over }
#endif
		fi;
#ifdef REDEEMS
redeem:		c2b[c]!REDEEM,R,want;
redeemed:	if
		:: atomic { !lock[c] && AWAKE(a) && (waits[a]==0 || rstate[R]!=mREQUESTED) -> told[a]=0;
			if
			:: waits[a] && rstate[R]==mOPEN && word[PLACE(want)]==W(want,wLIVE) -> /* delegate.c: take */
				waits[a]=0; slot_pick(); NEXT(seq[S]); q=seq[S]; hold[S]=sHELD; goto got
			:: else -> waits[a]=0;
#ifndef FAILOPEN
				assert(unlinked[n]>=want); /* else a ticket that was good once is lost */
#endif
				goto over
			fi }
		WAITS(waits[a]==R+1 && rstate[R]==mREQUESTED, redeemed)
#ifdef TIMEOUTS
		:: atomic { !lock[c] && waits[a]==R+1 -> waits[a]=0; goto over }
#endif
		fi;
#endif
closing:	/* wait_closing */
		if
		:: atomic { !lock[c] && AWAKE(a) && (waits[a]==0 || rstate[R]!=mCLOSING) -> waits[a]=0; ok=told[a]; told[a]=0;
			if :: ok -> goto over :: else -> goto slow fi }
		WAITS(waits[a]!=0 && rstate[R]==mCLOSING, closing)
		fi;
held_slow:	atomic { if
		:: want && serial[R]!=want -> goto undo_over                 /* renew_slow: another generation */
		:: else
		fi };
#ifdef SEALS
		if
		:: atomic { !LACKS(R) -> skip }
		:: atomic { LACKS(R) -> skip }; c2b[c]!RIGHTS,mapping[R],serial[R];          /* rights_ask: the hold keeps the record */
			atomic { !lock[c] && answer[a] -> ok=(answer[a]==1); q=answer[a]; answer[a]=0;
				if
				:: q==1 ->
#ifdef F_SEALLATE
					may[R]=1
#else
					may[R]=!closed_off[R]                      /* record_add_rights */
#endif
				:: else
				fi;
				if :: q==2 -> q=0; ok=0; hold[S]=sFREE; goto over
				   :: q==3 -> q=0; ok=0; hold[S]=sFREE; goto slow
				   :: q==1 -> ok=0; q=seq[S]
				fi }
		fi;
#endif
got:		atomic {
		assert(serial[R] && mapped[on[R]]==OF(serial[R]));
		if :: want -> assert(serial[R]==want) :: else -> assert(NAME(serial[R])==n && serial[R]>floor) fi;
#ifdef SEALS
		if :: wr -> assert(!after && (c==0 || !sealed)); writing[c]++ :: else fi;
#endif
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
		:: atomic { nfull(gq[c*2+Q]) -> assert(mapped[on[R]]==OF(serial[R])); assert(hold[S]==sHELD && seq[S]==q);
#ifdef SEALS
				writing[c]=writing[c]-wr;
#endif
				hold[S]=sRETURNING; gq[c*2+Q]!on[R],serial[R],S+1,q };         /* gpub_return_on: lease_take_back, stream_write */
			hold[S]=sRETURNED
#ifndef NOUNORD
		:: atomic { nfull(gq[c*2+Q]) -> assert(mapped[on[R]]==OF(serial[R])); gq[c*2+Q]!on[R],serial[R],0,0; unordered[c]++ };
#ifdef F_UNORDEREDLATE
			atomic { assert(hold[S]==sHELD && seq[S]==q); hold[S]=sFREE }; nostream[R]=1
#else
			atomic { assert(hold[S]==sHELD && seq[S]==q); nostream[R]=1; hold[S]=sFREE }     /* gpub_return */
#endif
#endif
#ifdef KEEPS
		:: atomic { i>=ITERS_OF(a) && nfull(gq[c*2+Q]) -> gq[c*2+Q]!on[R],serial[R],0,0; unordered[c]++ }  /* kept, a kernel under way */
#endif
#ifdef PARKS
		:: true -> false                                               /* kept for ever */
#endif
		fi;
over:		atomic {
#ifdef SEALS
			wr=0; after=0;
#endif
			n=0; R=0; k=0; q=0; Q=0; ok=0; floor=0; want=0; changed[a]=0; INSIDE(0) }
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
#ifdef SEALS
#define FINISHED(c) (fin[c] && ((c) || seal_over))
#else
#define FINISHED(c) fin[c]
#endif
#endif

#ifdef F_REORD_S
#define CLOSE_BEGIN(X) sg=mid[X]; if :: EACH_CALM(X,c*NR) -> lock[c]=1; R=c*NR :: else -> R=0; sg=0; goto next fi
#else
#define CLOSE_BEGIN(X) begin_look(X); sg=mid[X]; \
	if :: busy -> busy=0; again=1; R=0; sg=0; X++; goto next \
	:: else -> lock[c]=1; mclosing[X]=PAUSEDX; RECORDS(rstate[R]=mCLOSING); R=c*NR fi
#endif
#define next_of(R,n,which) do :: R<(c+1)*n && !(which) -> R++ :: else -> break od

/* ---- cache.c, close.c, connect.c: the thread that calls gpub_trim, at any moment, and gpub_disconnect at the end ---- */
inline forget_all() {
	atomic { !lock[c] -> R=c*NR;
		do
		:: R<(c+1)*NR ->
			base[R*NSL]=seq[R*NSL];
#if NSL>1
			base[R*NSL+1]=seq[R*NSL+1];
#endif
			if
			:: rstate[R]==mREQUESTED -> record_release(R, 1)
			:: rstate[R]==mOPEN || rstate[R]==mCLOSING -> record_leak(R)
			:: rstate[R]==mNONE
			fi; R++
		:: else -> R=0; break
		od;
		X=c*NM; do :: X<(c+1)*NM -> assert(!mapped[X] || LEAKED(X)); X++ :: else -> X=0; break od }
}
#ifdef KEEPS
inline drop(S) { if :: hold[S]==sHELD -> hold[S]=sFREE;
#ifndef F_DROPQUIESCED
	nostream[R]=1
#endif
	:: else fi }
inline drop_all_holds() { R=c*NR; do :: R<(c+1)*NR -> drop(R); R++ :: else -> R=0; break od }
#else
#define drop_all_holds() skip          /* no lease is left here */
#endif
/* Somebody waited for a record of it to open, and has yet to take it */
#ifdef F_TRIMAWAITED
#define AWAITED(X) false
#elif NAPP>1
#define AWAITS(a,X) (waits[a] && mapping[waits[a]-1]==mid[X])
#define AWAITED(X) (!leaving[c] && (AWAITS(c*2,X) || AWAITS(c*2+1,X)))
#else
#define AWAITED(X) (!leaving[c] && waits[c] && mapping[waits[c]-1]==mid[X])
#endif
proctype Owner(byte c) LIVING {
	byte i, R, X, w, sg; bool ok, busy, held, again FIRST PROOF;
	do
	:: true ->
		if
		:: i<TRIMS -> i++                                  /* gpub_trim */
#ifdef NOLEAVE
		:: FINISHED(c) -> break
#else
		:: FINISHED(c) -> i=TRIMS+1;                       /* gpub_disconnect */
			atomic { !lock[c] -> leaving[c]=1; drop_all_holds()
#ifdef BG
				; asleep[c]=0 }
#ifndef F_NOSTOP
			; ended[c]                                 /* cache_stop */
#endif
#else
				}
#endif
#endif
		fi;
#if TRIMS && !defined(NORETIRE)
		if
		:: i<=TRIMS && RETIRES(c) -> R=c*NR;
more:			do
			:: atomic { !lock[c] -> next_of(R, NR, RETIREE(R));
				if :: R<(c+1)*NR -> RETIRE_BEGIN(R) :: else -> R=0; break fi };
				record_retire(R, 1)
			od
		:: else
		fi;
#endif
		X=c*NM;                                            /* cache_close_all */
next:		do
		:: atomic { !lock[c] -> next_of(X, NM, mid[X] && !mclosing[X] && !LEAKED(X) && !AWAITED(X));
			if :: X<(c+1)*NM -> CLOSE_BEGIN(X) :: else -> X=0; again=0; break fi };
			mapping_close(X, WHEN_LANDED)
		od;
		if :: i==TRIMS+1 -> c2b[c]!LEAVE,0,0; left[c]; hup[c]=1; forget_all(); break    /* say_leave, pthread_join, close */
		   :: else
		fi
	od;
	i=0
}

/* ---- cache.c: the background closer ---- */
#ifdef BG
#define DUE(R) (noticed[R] && rstate[R]!=mNONE)
#define DUEX(X) (mnoticed[X] && mid[X])
#define READYAT(R) (noticed[R] && rstate[R]==mOPEN && ALLUNUSED(R))
#define READYATX(c,X) (DUEX(X) && !mclosing[X] && !AWAITED(X) && EACH_CALM(X,(c)*NR))
#if NR==2
#define ANY_DUER(r) (DUE(r) || DUE((r)+1))
#define READYR(r) (READYAT(r) || READYAT((r)+1))
#elif NR==3
#define ANY_DUER(r) (DUE(r) || DUE((r)+1) || DUE((r)+2))
#define READYR(r) (READYAT(r) || READYAT((r)+1) || READYAT((r)+2))
#else
#define ANY_DUER(r) (DUE(r) || DUE((r)+1) || DUE((r)+2) || DUE((r)+3))
#define READYR(r) (READYAT(r) || READYAT((r)+1) || READYAT((r)+2) || READYAT((r)+3))
#endif
#if NM==2
#define ANY_DUE(c) (ANY_DUER((c)*NR) || DUEX((c)*2) || DUEX((c)*2+1))
#define READY(c) (READYR((c)*NR) || READYATX(c,(c)*2) || READYATX(c,(c)*2+1))
#else
#define ANY_DUE(c) (ANY_DUER((c)*NR) || DUEX((c)*3) || DUEX((c)*3+1) || DUEX((c)*3+2))
#define READY(c) (READYR((c)*NR) || READYATX(c,(c)*3) || READYATX(c,(c)*3+1) || READYATX(c,(c)*3+2))
#endif
#ifdef F_POLLONCE
#define AGAIN(c) false
#else
#define AGAIN(c) (POLLS || READY(c) || leaving[c]) /* a look in AGAIN_MS that tells something new */
#endif
/* Its sleep with a timeout is a sleep that AGAIN ends too: looks that find nothing new are made once a wake-up */
proctype Closer(byte c) LIVING {
	byte R, X, w, sg; bool ok, busy, held, again FIRST PROOF;
main:	atomic { !lock[c] ->                                                       /* closer_main */
		if
		:: leaving[c] -> goto over                                         /* closer_ends */
		:: !leaving[c] && ANY_DUE(c) -> R=c*NR
		:: !leaving[c] && !ANY_DUE(c) ->
#ifdef F_LOSTWAKE
			goto doze
		fi };
	goto more;
doze:	atomic {
		if
		:: true ->
#endif
			asleep[c]=1; goto sleep
		fi };
more:	do                                                                         /* close_due: records */
	:: atomic { !lock[c] -> next_of(R, NR, DUE(R));
		if
		:: R==(c+1)*NR -> R=0; X=c*NM; break
		:: R<(c+1)*NR && rstate[R]==mOPEN -> RETIRE_BEGIN(R)
		:: R<(c+1)*NR && rstate[R]!=mOPEN -> again=1; R++; goto more
		fi };
		record_retire(R, 1); R=c*NR; if :: again -> R=(c+1)*NR :: else fi
	od;
next:	do                                                                         /* and mappings */
	:: atomic { !lock[c] -> next_of(X, NM, DUEX(X));
		if
		:: X==(c+1)*NM -> X=0; if :: again -> asleep[c]=1; goto sleep :: else -> goto main fi
		:: X<(c+1)*NM && !mclosing[X] && !AWAITED(X) -> CLOSE_BEGIN(X)
		:: X<(c+1)*NM && (mclosing[X] || AWAITED(X)) -> assert(!LEAKED(X)); again=1; X++; goto next
		fi };
		mapping_close(X, IF_UNUSED)
	od;
sleep:	atomic { !lock[c] && (!asleep[c] || (again && AGAIN(c))) -> asleep[c]=0; again=0; goto main };
over:
	ended[c]=1
}
#endif

/* ---- publish.c: gpub_seal, on a thread of client 0 ---- */
#ifdef SEALS
proctype Sealer(byte c) {
	byte R;
	c2b[c]!SEAL,1,0;
	atomic { answer[NA] && !lock[c] ->
		if
		:: answer[NA]==1 ->                                        /* records_seal */
#ifndef F_SEALRECORD
			R=c*NR; do :: R<(c+1)*NR -> if :: serial[R]==1 -> may[R]=0; closed_off[R]=1 :: else fi; R++ :: else -> break od; R=0;
#endif
			late=1
		:: else
		fi; seal_over=1 }
}
#define start_sealer() run Sealer(0)
#else
#define start_sealer() skip
#endif

/* ---- messages.c: the one reader of the socket ---- */
#ifdef F_NOTICEDUMB
#define NOTICED(what) what=1
#elif defined(LIVE)
#define NOTICED(what) what=1; broadcast(c)
#else
#define NOTICED(what) what=1; wake(c)
#endif
/* The place of the mapping with that id, or one past the last */
#define mapping_find(g) X=c*NM; do :: X<(c+1)*NM && mid[X]!=g -> X++ :: else -> break od
inline record_open(R, g, s, st) {
	serial[R]=s; mapping[R]=g; on[R]=X; rstate[R]=st;
#ifdef SEALS
	may[R]=m; closed_off[R]=0; m=0;
#endif
#ifndef F_OPENDUMB
	broadcast(c)
#endif
}
#if defined(F_STALEMAP)
#define USABLE(X) true
#define JOINS(X) false
#elif defined(F_KNOWNSPIN)
#define USABLE(X) (X<(c+1)*NM && !mclosing[X] && !LEAKED(X))
#define JOINS(X) false
#else
#define USABLE(X) (X<(c+1)*NM && !mclosing[X] && !LEAKED(X))
#define JOINS(X) (X<(c+1)*NM && mclosing[X] && !LEAKED(X))
#endif
#ifdef F_KNOWNSPIN
#define FAILED(X) false
#else
#define FAILED(X) (X<(c+1)*NM && LEAKED(X))
#endif
/* GRANT(M, known). On a mapping that is being closed the record is closed with it, and its acquirer asks again after that */
inline on_known() {
	atomic { !lock[c] -> mapping_find(g);
		if
		:: leaving[c]          /* the mapping ends with its own CLOSED, not with one more */
		:: !leaving[c] && USABLE(X) ->
#ifdef F_STALEMAP
			if :: X==(c+1)*NM -> X=c*NM :: else fi;
#endif
			record_open(R, g, s, mOPEN)
		:: !leaving[c] && !USABLE(X) && JOINS(X) -> record_open(R, g, s, mCLOSING)
		:: !leaving[c] && !USABLE(X) && !JOINS(X) -> record_release(R, FAILED(X))
		fi; R=0; g=0; s=0; X=0 }
}
/* NOTICE(M, serial): the record; NOTICE(M, 0), or one whose QUIESCED would not be trusted: the mapping */
#ifdef F_NOTICEOPEN
#define NOTIFIES(X) (X<(c+1)*NM && !mclosing[X])
#elif defined(F_NOTICECROSS)
#define NOTIFIES(X) (X<(c+1)*NM && R==(c+1)*NR)
#else
#define NOTIFIES(X) (X<(c+1)*NM)
#endif
inline on_notice() {
	atomic { !lock[c] ->
		if
		:: s==0 || !RETIRES(c) ->
			mapping_find(g);
#ifdef F_NOTICECROSS
			R=c*NR; next_of(R, NR, mapping[R]==g);
#endif
#ifndef F_NOTICEZERO
			if :: NOTIFIES(X) && !LEAKED(X) -> NOTICED(mnoticed[X]) :: else fi;
#endif
			R=0; X=0; g=0; s=0; goto received
		:: s && RETIRES(c) ->
			R=c*NR; next_of(R, NR, mapping[R]==g && serial[R]==s);       /* mapping_record */
			g=0; s=0;
			if :: R<(c+1)*NR -> NOTICED(noticed[R]) :: else fi;
			if
			:: R<(c+1)*NR && rstate[R]==mOPEN -> RETIRE_BEGIN(R)
			:: else -> R=0; goto received
			fi
		fi };
	record_retire(R, 0);
more:	atomic { R=0; again=0 };
received:	skip
}
#ifdef SEALS
#define take_rights() m=s/4; s=s%4
#else
#define take_rights() skip
#endif
/* A mapping that the broker wants back, that nobody uses, and whose returns prove that the device is done with it */
#ifdef VMM
#define UNPROVEN(R,X) (mapping[R]==mid[X] && nostream[R])
#if NR==2
#define EACH_PROVEN(X,r) (!UNPROVEN(r,X) && !UNPROVEN((r)+1,X))
#elif NR==3
#define EACH_PROVEN(X,r) (!UNPROVEN(r,X) && !UNPROVEN((r)+1,X) && !UNPROVEN((r)+2,X))
#else
#define EACH_PROVEN(X,r) (!UNPROVEN(r,X) && !UNPROVEN((r)+1,X) && !UNPROVEN((r)+2,X) && !UNPROVEN((r)+3,X))
#endif
#define WANTED(X) (mnoticed[X] && mid[X] && !mclosing[X] && !LEAKED(X) && !AWAITED(X) && EACH_CALM(X,c*NR) && EACH_PROVEN(X,c*NR))
#if NM==2
#define ANY_WANTED (WANTED(c*2) || WANTED(c*2+1))
#else
#define ANY_WANTED (WANTED(c*3) || WANTED(c*3+1) || WANTED(c*3+2))
#endif
/* A record that the device is done with: a return tells nobody, so the service thread looks again (retire_pause) */
#define RETIRABLE(R) (noticed[R] && rstate[R]==mOPEN && ALLUNUSED(R) && !nostream[R])
#if NR==2
#define ANY_RETIRABLE (RETIRABLE(c*NR) || RETIRABLE(c*NR+1))
#elif NR==3
#define ANY_RETIRABLE (RETIRABLE(c*NR) || RETIRABLE(c*NR+1) || RETIRABLE(c*NR+2))
#else
#define ANY_RETIRABLE (RETIRABLE(c*NR) || RETIRABLE(c*NR+1) || RETIRABLE(c*NR+2) || RETIRABLE(c*NR+3))
#endif
#define SVC_CLOSES , ok
#else
#define SVC_CLOSES
#endif
proctype Svc(byte c) LIVING {
	byte R, g, s, w, X, sg; bool busy, held, again FIRST PROOF SVC_CLOSES;
#ifdef SEALS
	bool m;
#endif
end:	do
	:: atomic { b2c[c]?GRANT(R,g,s); take_rights(); lock[c]==0 -> skip };         /* on_grant: record_of_request */
		if
#ifndef F_NOLEFT
		:: leaving[c] -> c2b[c]!CLOSED,g,s
#endif
#ifdef F_NOLEFT
		:: true ->
#else
		:: !leaving[c] -> assert(rstate[R]==mREQUESTED);
#endif
			if
			:: atomic { X=c*NM; do :: X<(c+1)*NM && (mapped[X] || mid[X]) -> X++ :: else -> break od;
					assert(X<(c+1)*NM); /* the model's pool is too small */
					mapped[X]=OF(s) };                     /* mapping_open */
				atomic { !lock[c] ->                   /* mapping_publish */
#ifndef F_LEAVEOPEN
					if :: leaving[c] -> goto give_back :: else fi;
#endif
					mid[X]=g; record_open(R, g, s, mOPEN);
					goto taken };
give_back:			mapped[X]=0; c2b[c]!CLOSED,g,s;                /* mapping_give_back */
taken:				skip
#ifdef FAILOPEN
			:: atomic { fails[c]<FAILOPEN -> fails[c]++ }; c2b[c]!CLOSED,g,s;
				atomic { !lock[c] -> record_release(R, 1) }                                /* record_refuse */
#endif
			fi
		fi;
		atomic { R=0; g=0; s=0; X=0 }
#ifdef SEALS
	:: atomic { b2c[c]?DONE(R,g,_); answer[R]=g; R=0; g=0 }
#endif
	:: atomic { b2c[c]?KNOWN(R,g,s); take_rights() };
#ifdef F_LEAVEKNOWN
		if :: leaving[c] -> c2b[c]!CLOSED,g,s :: else fi;
#endif
		if
		:: on_known()
#ifdef FAILOPEN
		:: atomic { fails[c]<FAILOPEN && !leaving[c] -> fails[c]++ };  /* no slot, no descriptor */
#if defined(F_REFUSEKNOWN)
			c2b[c]!CLOSED,g,s;
#elif !defined(F_REFUSEDUMB)
			c2b[c]!QUIESCED,g,s;                                       /* the mapping stays; the grant is over */
#endif
			atomic { !lock[c] -> record_release(R, 1); R=0; g=0; s=0 }
#endif
		fi
	:: atomic { b2c[c]?REFUSED(R,_,_) }; atomic { !lock[c] -> record_release(R, 1); R=0 }       /* on_reply */
	:: notices[c]?NOTICE(g,s,_) -> on_notice()
#ifdef VMM
	:: atomic { !lock[c] && ANY_WANTED -> X=c*NM; next_of(X, NM, WANTED(X)); CLOSE_BEGIN(X) };                    /* close_wanted */
		mapping_close(X, IF_QUIESCED);
next:		atomic { X=0; again=0 }
	:: atomic { !lock[c] && ANY_RETIRABLE -> R=c*NR; next_of(R, NR, RETIRABLE(R)); RETIRE_BEGIN(R) };             /* cache_retire */
		record_retire(R, 0);
		atomic { R=0; again=0 }
#endif
	:: b2c[c]?LEFT(_,_,_) -> break
	od;
	left[c]=1
}

/* ---- a client that lies: a CLOSED or QUIESCED of what it has open and goes on using; mapping_close has the other lie ---- */
#ifdef LIES
proctype Malicious(byte c) LIVING {
	byte R;
	atomic { if :: rstate[c*NR]==mOPEN -> R=c*NR :: rstate[c*NR+1]==mOPEN -> R=c*NR+1 fi };
	atomic { nfull(c2b[c]) && mapping[R] -> if :: c2b[c]!CLOSED,mapping[R],0 :: c2b[c]!QUIESCED,mapping[R],serial[R] fi }
}
#define start_malicious(c) if :: FOREIGN(c) -> run Malicious(c) :: else fi
#else
#define start_malicious(c) skip
#endif

/* ---- a process ends: its threads at once, its GPU's work and its descriptors later ---- */
proctype Crash(byte c) {
	byte X, s, S, q;
	if
#if !defined(CLOSEFAIL) && !defined(DIES)
	:: skip
#endif
	:: dead[c]=1;
		if
		:: !hup[c] -> pidfd[c]=1 /* a forked child still holds the GPU's descriptors and the socket */
		:: hup[c]=1              /* the socket is the first to go */
		fi;
		atomic { do :: gq[c*2]?X,s,S,q :: gq[c*2+1]?X,s,S,q :: empty(gq[c*2]) && empty(gq[c*2+1]) -> break od;
			X=c*NM; do :: X<(c+1)*NM -> mapped[X]=0; X++ :: else -> break od; X=0; s=0; S=0; q=0
#ifdef LIES
			; secret[c]=0
#endif
			};
		atomic { pidfd[c]=1; hup[c]=1 }
	fi
}

/* ---- broker/: one thread; these are its private registry ---- */
byte grants[NG+1];                            /* how many grants a buffer has */
byte open[NG+1], ranges[NG+1]; bool evicted[NG+1];     /* struct allocation; ranges that are no new buffer's to take */
byte maps[NC*(MG+1)], granted[NC*(MG+1)], nmapping[NC], mappings[NC]; bool gone[NC]; /* struct mapping, struct session */
#if OTHER
bool orphan_on[NC*(NG+1)]; byte orphan_grants[NC], orphans[NC];   /* the session's orphaned mappings: one an allocation; their grants; how many */
#define ORPHANS(c) orphans[c]
#define ORPHAN_GRANT(c,s) ((orphan_grants[c]>>(s))&1)
#else
#define ORPHANS(c) 0
#define ORPHAN_GRANT(c,s) 0
#endif
#if defined(F_PIDFDLIES)
#define DEAD(c) pidfd[c]
#elif defined(F_HUPLIES)
#define DEAD(c) hup[c]
#else
#define DEAD(c) (pidfd[c] && hup[c])
#endif

#define MAPS(c,g) maps[(c)*(MG+1)+(g)]
#define GRANTS(c,g) granted[(c)*(MG+1)+(g)]
#define GRANTED(c,g,s) ((GRANTS(c,g)>>(s))&1)
#define ORPHAN_ON(c,A) orphan_on[(c)*(NG+1)+(A)]
#ifdef F_RECYCLEUSED
#define grant_end(s) if :: grants[s] -> grants[s]-- :: else fi
#define grant_quiesced(s) grants[s]=0
#else
#define grant_end(s) grants[s]--
#define grant_quiesced(s) grants[s]--
#endif
#ifdef F_GRANTLEAK
#define grants_end(c,g) GRANTS(c,g)=0
#else
#define grants_end(c,g) u=1; do :: u<=NG -> if :: GRANTED(c,g,u) -> grant_end(u) :: else fi; u++ :: else -> break od; u=0; GRANTS(c,g)=0
#endif
inline mapping_end(c,g) { grants_end(c,g); open[MAPS(c,g)]--; MAPS(c,g)=0; mappings[c]-- }

/* CLOSED(g). Of another user's session: held, with its grants, until that process is dead. One a session and allocation: others merge */
#if !OTHER || defined(F_TRUST)
#define mapping_closed(c,g) mapping_end(c,g)
#else
#ifdef F_ONEORPHAN
#define MERGES(c,A) orphans[c]
#else
#define MERGES(c,A) ORPHAN_ON(c,A)
#endif
inline mapping_closed(c,g) {
	if
	:: FOREIGN(c) ->
#if defined(F_ONEORPHAN) || defined(F_MERGELOST)
		if :: MERGES(c,MAPS(c,g)) -> grants_end(c,g) :: else fi;
#endif
		u=1; do :: u<=NG -> if :: GRANTED(c,g,u) && ORPHAN_GRANT(c,u) -> grants[u]-- :: else fi; u++ :: else -> break od; u=0;
		orphan_grants[c]=orphan_grants[c]|GRANTS(c,g);
		if
		:: MERGES(c,MAPS(c,g)) -> open[MAPS(c,g)]--; GRANTS(c,g)=0; MAPS(c,g)=0; mappings[c]--
		:: else -> ORPHAN_ON(c,MAPS(c,g))=1; orphans[c]++;
#ifndef F_ORPHANTWICE
			GRANTS(c,g)=0; MAPS(c,g)=0; mappings[c]--
#endif
		fi
	:: else -> mapping_end(c,g)
	fi
}
#endif

#ifdef REDEEMS
bool own[NC*(MG+1)];                   /* that of a redeemed ticket: no ACQUIRE is answered with it */
#define OWN(c,g) own[(c)*(MG+1)+(g)]
#ifdef F_REDEEMKNOWN
#define KNOWN_AS(c,g,s) (MAPS(c,g)==OF(s) && !OWN(c,g))
#else
#define KNOWN_AS(c,g,s) (!redeemed && MAPS(c,g)==OF(s) && !OWN(c,g))
#endif
#else
#define KNOWN_AS(c,g,s) (MAPS(c,g)==OF(s))
#endif
#ifdef SEALS
byte writes[NC*(MG+1)];                /* as USE: those with GPUB_WRITE */
#define WRITES(c,g,s) (GRANTED(c,g,s) && ((writes[(c)*(MG+1)+(g)]>>(s))&1))
#define grant_begins(c,g,s) writes[(c)*(MG+1)+(g)]=writes[(c)*(MG+1)+(g)]&~(1<<(s))
#define grant_add_rights(c,g,s) if :: u -> writes[(c)*(MG+1)+(g)]=writes[(c)*(MG+1)+(g)]|(1<<(s)) :: else fi
#ifdef F_SEALALL
#define GIVEN(c,g,s) (s+4)
#else
#define GIVEN(c,g,s) (s+4*WRITES(c,g,s))
#endif
#else
#define grant_begins(c,g,s) skip
#define grant_add_rights(c,g,s) skip
#define GIVEN(c,g,s) s
#endif
inline grant_give(c, redeemed) {
	if
	:: s -> g=1; do :: g<=MG && !KNOWN_AS(c,g,s) -> g++ :: else -> break od;
		if
		:: g<=MG -> /* known: one more grant */
			if :: GRANTED(c,g,s) :: else -> GRANTS(c,g)=GRANTS(c,g)|(1<<s); grants[s]++; grant_begins(c,g,s) fi;
			grant_add_rights(c,g,s);
			if :: hup[c] :: else -> assert(nfull(b2c[c])); b2c[c]!KNOWN,R,g,GIVEN(c,g,s) fi
		:: else -> nmapping[c]++; g=nmapping[c]; assert(g<=MG); MAPS(c,g)=OF(s); open[OF(s)]++; mappings[c]++;
			GRANTS(c,g)=1<<s; grants[s]++; grant_begins(c,g,s); grant_add_rights(c,g,s);
#ifdef REDEEMS
			OWN(c,g)=redeemed;
#endif
			if :: hup[c] :: else -> assert(nfull(b2c[c])); b2c[c]!GRANT,R,g,GIVEN(c,g,s) fi
		fi
	:: else -> if :: hup[c] :: else -> assert(nfull(b2c[c])); b2c[c]!REFUSED,R,0,0 fi
	fi; R=0; g=0; n=0; s=0
}
inline acquire_named(c) {
	atomic { !gone[c] && c2b[c]?[ACQUIRE,_,_] -> c2b[c]?ACQUIRE(R,n);
#ifdef SEALS
		u=ASKED_TO_WRITE;
#endif
		n=ASKED_NAME;
		s=made; do :: s>0 && !(NAME(s)==n && state[s]==wLIVE) -> s-- :: else -> break od;
#ifdef SEALS
		if :: u && sealed -> s=0 :: else fi;                           /* check_rights */
#endif
		grant_give(c, 0)
#ifdef SEALS
		; u=0
#endif
		}
}
#ifdef SEALS
inline acquire_rights(c) {
	atomic { !gone[c] && c2b[c]?[RIGHTS,_,_] -> c2b[c]?RIGHTS(g,s);
		if
		:: !(MAPS(c,g) && GRANTED(c,g,s) && state[s]==wLIVE) -> n=3
#ifndef F_SEALRIGHTS
		:: MAPS(c,g) && GRANTED(c,g,s) && state[s]==wLIVE && sealed -> n=2
		:: MAPS(c,g) && GRANTED(c,g,s) && state[s]==wLIVE && !sealed ->
#else
		:: MAPS(c,g) && GRANTED(c,g,s) && state[s]==wLIVE ->
#endif
			n=1; u=1; grant_add_rights(c,g,s); u=0
		fi;
		if :: hup[c] :: else -> assert(nfull(b2c[c])); b2c[c]!DONE,c,n,0 fi; n=0; g=0; s=0 }
}
/* The other sessions' grants that write; then the own ones stop */
inline manage_seal() {
	atomic { !gone[0] && c2b[0]?[SEAL,_,_] -> c2b[0]?SEAL(s,_);
		n=1; if :: s>made || state[s]!=wLIVE -> n=2 :: else fi;
#if NC>1 && !defined(F_SEALBLIND)
		g=1; do :: g<=MG -> if :: WRITES(1,g,s) -> n=2 :: else fi; g++ :: else -> break od;
#endif
		if
		:: n==1 -> sealed=1;
#if NC>1
			assert(!writing[1]);
#endif
			g=1; do :: g<=MG -> grant_begins(0,g,s); g++ :: else -> break od
		:: else
		fi;
		if :: hup[0] :: else -> assert(nfull(b2c[0])); b2c[0]!DONE,NA,n,0 fi; n=0; g=0; s=0 }
}
#else
#define acquire_rights(c) false
#define manage_seal() false
#endif
#ifdef REDEEMS
inline acquire_redeem(c) {
	atomic { !gone[c] && c2b[c]?[REDEEM,_,_] -> c2b[c]?REDEEM(R,s);
		if :: state[s]==wLIVE :: else -> s=0 fi;                       /* delegation_check */
		g=1; do :: g<=MG -> assert(!MAPS(c,g) || !OWN(c,g) || GRANTS(c,g)); g++ :: else -> break od;
		grant_give(c, 1) }
}
#else
#define acquire_redeem(c) false
#endif
inline acquire_closed(c) {
	atomic { !gone[c] && c2b[c]?[CLOSED,_,_] -> c2b[c]?CLOSED(g,s);
#ifdef F_NOGID
		g=1; do :: g<=MG -> if :: s && MAPS(c,g)==s -> mapping_end(c,g) :: else fi; g++ :: else -> break od;
#else
		if :: MAPS(c,g) -> mapping_closed(c,g) :: else fi;
#endif
		g=0; s=0 }
}
#ifdef F_TRUSTQUIESCED
#define TRUSTED(c) true
#else
#define TRUSTED(c) (!FOREIGN(c))
#endif
#if defined(REDEEMS) && !defined(F_OWNQUIESCED)
#define GRANT_STAYS(c,g) OWN(c,g)        /* nothing else will ever be found under it */
#else
#define GRANT_STAYS(c,g) false
#endif
#ifdef TIGHT
#define KEPT(s) (!evicted[OF(s)] && ranges[OF(s)]>1)                           /* registry_keeps */
#else
#define KEPT(s) true
#endif
inline notice_close(c, g) { if :: hup[c] :: else -> assert(nfull(notices[c])); notices[c]!NOTICE,g,0,0 fi }
inline acquire_quiesced(c) {
	atomic { !gone[c] && c2b[c]?[QUIESCED,_,_] -> c2b[c]?QUIESCED(g,s);
#ifdef F_RENAMEKEY
		if :: RENAMED(s) -> s=renamed[s] :: else fi;
#endif
		if
		:: MAPS(c,g) && GRANTED(c,g,s) && TRUSTED(c) ->
			if
			:: state[s]==wDRAINING && !KEPT(s) ->                  /* ask_to_close */
#ifndef F_BACKDUMB
				if :: evicted[OF(s)] -> notice_close(c, g) :: else -> memory_evict(OF(s)) fi
#else
				skip
#endif
			:: (state[s]!=wDRAINING || KEPT(s)) && GRANT_STAYS(c,g) ->
#ifndef F_OWNDUMB
				notice_close(c, g)
#else
				skip
#endif
			:: (state[s]!=wDRAINING || KEPT(s)) && !GRANT_STAYS(c,g) -> GRANTS(c,g)=GRANTS(c,g)&~(1<<s); grant_quiesced(s)
			fi
#ifdef F_QUIESCEDTWICE
		:: MAPS(c,g) && !GRANTED(c,g,s) -> grants[s]--
#endif
		:: else
		fi; g=0; s=0 }
}
/* A QUIESCED that names another session's mapping */
#ifdef FORGES
chan forged = [1] of { byte, byte };
proctype Forger() { byte s; if :: s=1 :: s=2 fi; forged!1,s; s=0 }
inline handle_forged() {
	atomic { forged?g,s;
#ifdef F_QUIESCEDFOREIGN
		if :: GRANTED(0,g,s) -> GRANTS(0,g)=GRANTS(0,g)&~(1<<s); grants[s]-- :: else fi;
#endif
		g=0; s=0 }
}
#endif
inline ending_leave(c) {
	atomic { c2b[c]?[LEAVE,_,_] -> c2b[c]?LEAVE(_,_); if :: hup[c] :: else -> b2c[c]!LEFT,0,0,0 fi }
}
#ifdef F_RESET
inline session_reset(c) {
	atomic { !dead[c] && hup[c] && nempty(b2c[c]) && nempty(c2b[c]) ->
		do :: c2b[c]?_,_,_ :: empty(c2b[c]) -> break od }
}
#endif
#ifdef F_HANGUPENDS
#define HOLDS(c) (mappings[c])
#else
#define HOLDS(c) (mappings[c] || ORPHANS(c))
#endif
/* called by end_if_over */
inline session_end(c) {
	atomic { !gone[c] && (hup[c] && empty(c2b[c]) && !HOLDS(c) || DEAD(c)) -> gone[c]=1;
		g=1; do :: g<=MG -> if :: MAPS(c,g) -> mapping_end(c,g) :: else fi; g++ :: else -> break od; g=0;
#if OTHER && !defined(F_ORPHANLOST)
		s=1; do :: s<=NG -> if :: ORPHAN_ON(c,s) -> open[s]--; ORPHAN_ON(c,s)=0; orphans[c]-- :: else fi;
				if :: ORPHAN_GRANT(c,s) -> grants[s]-- :: else fi; s++
			:: else -> break od; s=0; orphan_grants[c]=0
#endif
	}
}
/*
 * To each open mapping for which the condition holds, unless it is held. LATER: each notice goes at any later moment, unless its grant or
 * its mapping has ended by then: the broker sends many notices a few at a time (notices_more)
 */
#ifdef LATER
byte due[NC*(MG+1)], dues[NC];         /* a bit for each buffer, the lowest for all of the mapping; how many bits */
#define DUE_TO(c,g) due[(c)*(MG+1)+(g)]
#define SENDS(c,g,what) DUE_TO(c,g)=DUE_TO(c,g)|(1<<(what)); dues[c]++
inline notices_more(c) {
	atomic { dues[c] -> dues[c]--;
		g=1; do :: !DUE_TO(c,g) -> g++ :: else -> break od;
		s=0; do :: !((DUE_TO(c,g)>>s)&1) -> s++ :: else -> break od;
		DUE_TO(c,g)=DUE_TO(c,g)&~(1<<s);
		if :: MAPS(c,g) && (!s || GRANTED(c,g,s)) && !hup[c] -> assert(nfull(notices[c])); notices[c]!NOTICE,g,s,0
		:: else
		fi; g=0; s=0 }
}
#else
#define SENDS(c,g,what) assert(nfull(notices[c])); notices[c]!NOTICE,g,what,0
#define notices_more(c) false       /* never */
#endif
inline notices_send(which, what) {
	c=0; do :: c<NC -> g=1;
		do :: g<=MG -> if
			:: which && !hup[c] -> SENDS(c,g,what)
			:: else fi; g++
		   :: else -> break od; c++
		:: else -> break od; c=0; g=0
}
inline registry_unlink(S) {
	state[S]==wLIVE -> state[S]=wDRAINING;
		atomic { word[PLACE(S)]=W(S,wDRAINING); unlinked[NAME(S)]=S };
		atomic { notices_send(GRANTED(c,g,S), S) }
}
/* Its range is zeroed and can be taken by a new buffer, or the allocation is evicted */
inline buffer_leave(S) {
#ifdef LIES
	c=0; do :: c<NC -> assert(!((secret[c]>>S)&1)); c++ :: else -> break od; c=0;
#endif
	state[S]=wFREE; word[PLACE(S)]=W(S,wFREE); ranges[OF(S)]--;
#ifdef RENAMES
	if :: was[S] -> state[was[S]]=wFREE; word[PLACE(was[S])]=W(was[S],wFREE) :: else fi;
#endif
#ifndef POOL
	if :: ranges[OF(S)]==0 -> memory_evict(OF(S)) :: else fi
#endif
}
inline registry_end_buffer(S) {
#ifdef F_RECYCLELIVE
	atomic { state[S]==wDRAINING -> buffer_leave(S) }
#elif defined(TIGHT)
	atomic { state[S]==wDRAINING && !RENAMED(S) && !USED(S) && (KEPT(S) || !open[OF(S)] || !evicted[OF(S)]) ->
		if
		:: KEPT(S) || !open[OF(S)] -> buffer_leave(S)
		:: else -> memory_evict(OF(S))   /* it stays in the registry for as long as its memory is mapped */
		fi }
#else
	atomic { state[S]==wDRAINING && !RENAMED(S) && !USED(S) -> buffer_leave(S) }
#endif
}
inline memory_evict(A) {
	if :: !evicted[A] -> evicted[A]=1; notices_send(MAPS(c,g)==A, 0) :: else fi
}
#ifdef POOL
/* An idle one, when another create needs its memory */
inline evict_idle(A) {
	atomic { OF(A)==A && state[A]==wFREE && ranges[A]==0 && !evicted[A] && !freed[A] -> memory_evict(A) }
}
#else
#define evict_idle(A) false
#endif
#ifdef F_FIRSTNAME
#define NAMED(A) false
#else
#define NAMED(A) ranges[A]
#endif
/* A: the first buffer in it */
inline memory_decide_free(A) {
	atomic { OF(A)==A && state[A]==wFREE && !NAMED(A) && open[A]==0 && !freed[A] ->
		X=0; do :: X<NC*NM -> assert(mapped[X]!=A); X++ :: else -> break od; X=0;
		freed[A]=1 }                                                   /* memory_released */
}
/* The same buffer, in the same range, under the next serial and its name; what is said and done of the earlier one is as for an unlink */
#ifdef RENAMES
inline registry_rename() {
	atomic { made && made<NG && state[made]==wLIVE && (made<NN || state[made+1-NN]!=wLIVE) &&
		 (made<PLACES || state[made+1-PLACES]==wFREE) ->
		s=made; made++; was[made]=s; renamed[s]=made; OF(made)=OF(s); state[made]=wLIVE; word[PLACE(made)]=W(made,wLIVE);
		state[s]=wDRAINING; unlinked[NAME(s)]=s;
#ifndef F_RENAMEWORD
		word[PLACE(s)]=W(s,wDRAINING);
#endif
#ifndef F_RENAMEDUMB
		notices_send(GRANTED(c,g,s), s);
#endif
		s=0 }
}
#else
#define registry_rename() false        /* never */
#endif
inline registry_live() {
	atomic { made<NG && (made<NN || state[made+1-NN]!=wLIVE) && (made<PLACES || state[made+1-PLACES]==wFREE) ->
		s=made; do :: s>0 && !(OF(s)==s && !freed[s] && !evicted[s] && ranges[s]<PER) -> s-- :: else -> break od;
		made++; state[made]=wLIVE; word[PLACE(made)]=W(made,wLIVE);
		if :: s -> OF(made)=s :: else -> OF(made)=made fi;
		ranges[OF(made)]++; s=0 }
}
#if OTHER
#ifdef RENAMES
#define OTHER_SERIAL(s) (was[s]+renamed[s])    /* of the same buffer; one of the two is 0 */
#define OTHER_GRANT(c,s) (OTHER_SERIAL(s) && ORPHAN_GRANT(c,OTHER_SERIAL(s)))
#else
#define OTHER_GRANT(c,s) false
#endif
inline resolved(s) {            /* but for what living processes of other users may still use, or map */
	n=0; c=0; do :: c<NC -> if :: !dead[c] && ORPHAN_GRANT(c,s) -> n++ :: else fi; c++ :: else -> break od;
	assert(grants[s]==n);
	c=0; do :: c<NC -> if :: !dead[c] && OTHER_GRANT(c,s) -> n++ :: else fi; c++ :: else -> break od;
	assert((state[s]==wFREE)==(n==0));
	n=0; c=0; do :: c<NC -> if :: !dead[c] && ORPHAN_ON(c,OF(s)) -> n++ :: else fi; c++ :: else -> break od;
	assert(freed[OF(s)]==(n==0) && open[OF(s)]==n); n=0
}
#else
#define resolved(s) assert(freed[OF(s)] && open[OF(s)]==0); assert(state[s]==wFREE && grants[s]==0)
#endif
proctype Broker() {
	byte c, g, s, n, R, u, X;
	do
	:: acquire_named(0) :: acquire_redeem(0) :: acquire_closed(0) :: acquire_quiesced(0) :: ending_leave(0) :: session_end(0)
	:: notices_more(0) :: acquire_rights(0) :: manage_seal()
#if NC>1
	:: acquire_named(1) :: acquire_redeem(1) :: acquire_closed(1) :: acquire_quiesced(1) :: ending_leave(1) :: session_end(1)
	:: notices_more(1) :: acquire_rights(1)
#endif
#ifdef FORGES
	:: handle_forged()
#endif
#ifdef F_RESET
	:: session_reset(0)
#endif
#ifndef LIVE
	:: registry_live() :: registry_rename()
	:: registry_unlink(1) :: registry_end_buffer(1) :: evict_idle(1) :: memory_decide_free(1)
#if NG>1
	:: registry_unlink(2) :: registry_end_buffer(2) :: evict_idle(2) :: memory_decide_free(2)
#endif
#if NG>2
	:: registry_unlink(3) :: registry_end_buffer(3) :: evict_idle(3) :: memory_decide_free(3)
#endif
	:: timeout -> break
#endif
	od;
	/* nothing can move any more: all is freed, the registry are empty, and no living caller hangs */
	atomic {
		assert(made==NG);
		s=1; do :: s<=NG -> resolved(s); s++ :: else -> break od;
		c=0; do :: c<NA -> assert(dead[c/NAPP] || fin[c]); c++ :: else -> break od;
		c=0; do :: c<NC -> assert(mappings[c]==0 && (ORPHANS(c)==0 || !dead[c]));
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
	byte c, g, s;
	do
	:: registry_live()
#if NG>1 || !defined(STAYS)
	:: atomic { registry_unlink(1) }
#endif
#if NG>1 && !defined(STAYS)
	:: atomic { registry_unlink(2) }
#endif
	od
}
proctype Worker() {
	byte c, g, X;
	do
	:: registry_end_buffer(1) :: evict_idle(1) :: memory_decide_free(1)
#if NG>1
	:: registry_end_buffer(2) :: evict_idle(2) :: memory_decide_free(2)
#endif
	od
}
#define start_names() run Names(); run Worker()
#define ENDED(s) (s<=made && state[s]==wFREE)
#if defined(CLOSEFAIL) && !CRASH
#define ALLFREED true                  /* what failed to close is mapped for ever */
#elif defined(STAYS) && PER>1
#define ALLFREED (NG==1 || ENDED(1))
#elif defined(STAYS)
#define ALLFREED (NG==1 || freed[1])
#elif NG>1
#define ALLFREED (ENDED(1) && ENDED(2) && freed[OF(1)] && freed[OF(2)])
#else
#define ALLFREED (ENDED(1) && freed[1])
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
#ifdef FORGES
#define start_forger() run Forger()
#else
#define start_forger() skip
#endif
init { atomic { byte i;
	do :: i<NC*NN -> table[i]=NIL; i++ :: else -> break od; i=0;
	do :: i<NC -> run Gpu(i); run Svc(i); run Owner(i); start_closer(i); start_malicious(i);
		if :: (CRASH>>i)&1 -> run Crash(i) :: else fi; i++ :: else -> break od; i=0;
	do :: i<NA -> run App(i,i/NAPP); i++ :: else -> break od; i=0;
	start_names(); start_forger(); start_sealer(); run Broker() } }
