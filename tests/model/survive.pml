/* SPDX-License-Identifier: Apache-2.0 */
/*
 * survive.pml - the death of the broker and its successor, for spin. README.md beside it says which code there is, what is
 * modelled, what is not, and how to run it; run.sh runs it in the suite.
 *
 * The broker may be killed between any two steps, CRASHES times at most. Its memory is lost then. What outlives it: the ledger, which
 * has the records, the request in hand and the answers that are owed; the descriptors at the keeper; the sockets of the clients;
 * the board; the owner with its memory.
 * Buffer 1 is there at the beginning. The maker unlinks it (with DRAINS it waits until the memory is freed or zeroed), creates buffer 2,
 * acquires, writes and closes it, and unlinks it. The client acquires ITERS times the buffer that has the name. Memory without a
 * buffer is zeroed for the next one, or released. LIMIT is how many allocations the device has room for: with 1 the create waits.
 * The owner carries out one job after the other. DEATHS: it dies once: first its lane ends, later its process, and until then
 * what it was zeroing lands.
 * OVERLAP: the next owner is started when the lane has ended; what the dead one may still have in hand waits for its process's end.
 * IPC: memory has no descriptors (without DEATHS). TICKET: the client's last acquire redeems a ticket that is good once.
 * DIES: the client may die at any step. ENDS: run.sh searches for a run without an end.
 *
 * What a handler of the broker computes is not visible before its commit, so both are one atomic step. A commit changes the ledger and
 * nothing else. What the ledger says and the world lacks (words, answers, notices, closed descriptors, orders) the broker does
 * afterwards, one step each, before it takes the next event; a successor does the same, by the same steps.
 * A kill and the load of the next broker are one step, since nothing that another process does in between is seen by either.
 *
 * Without a flag it is the right protocol. Each flag makes one mistake, and must give a counterexample:
 *  F_DUP        the client answers each GRANT that nobody waits for with CLOSED
 *  F_NOHAND     a request that was read is in the broker's memory alone
 *  F_NOOWED     an answer is in the broker's memory alone until it is sent
 *  F_TWOWRITES  the records and what is owed are two commits
 *  F_DROPFIRST  the keeper drops a descriptor before the ledger says that the memory is being freed
 *  F_PUTLATE    the keeper gets a descriptor after the commit of the record that names it
 *  F_UNREAD     the successor starts before the keeper has read what the dead broker sent it
 *  F_UNRECORDED an ALLOCATE is sent before the ledger says that memory is being made
 *  F_NOCLOSE    a descriptor without a record stays at the keeper
 *  F_FREEFIRST  a RELEASE is sent before the ledger says so
 *  F_GONE       the record of memory is gone when the RELEASE is decided, not when the owner has answered
 *  F_WORDFIRST  an unlink stores the board's word before the commit
 *  F_OWEDFIRST  the successor sends what is owed before it has written the board's words
 *  F_NOTOLD     the successor does not send the notices again
 *  F_NOWAITS    a request that waits is in the broker's memory alone
 *  F_LATEZERO   the next owner is started when the lane has ended, not when the process has
 *  F_WHOSE      with OVERLAP, the ledger does not say which owner has a job
 *  F_HELD       with OVERLAP, memory is released while the process of an owner before may still have it
 *  F_TWICE      the successor sends jobs again without asking the owner what it has done
 *  F_QUEUE      the owner keeps the orders of the dead broker that it has not begun
 *  F_ACKFIRST   a result is acknowledged before its commit
 *  F_NEWNUMBER  the successor gives a new number to a job that the owner may have done
 *  F_SPEND      a ticket's spend and its grant are two commits
 *  F_KILLS      a kill counts as a try of the message in hand, and after two its session is cut
 *  F_DEADFIRST  the successor ends the sessions of dead processes before it handles what is in hand
 *  F_TWOBROKERS the keeper starts the next broker before the last one is proven dead
 */
#ifndef CRASHES
#define CRASHES 1
#endif
#ifndef ITERS
#define ITERS 2
#endif
#ifndef LIMIT
#define LIMIT 2
#endif
#ifndef DEATHS
#define DEATHS 0
#endif
#ifdef IPC
#define BY_DESCRIPTOR false
#else
#define BY_DESCRIPTOR true
#endif
#define NA 2                           /* allocations; 1 is made by the create, if it makes one */
#define NO (DEATHS+1)                  /* owners, one after the other */
#ifdef F_LATEZERO
#define NP (LIMIT+1)                   /* pieces of memory that the device has; the dead owner's are there, too */
#else
#define NP LIMIT
#endif
#define NIL 255

mtype = { ACQUIRE, REDEEM, CLOSED, UNLINK, DRAIN, CREATE, GRANT, REFUSED, DONE, NOTICE, NOTHING, ALLOCATE, ZERO, RELEASE };

/* The clients' sockets; 0: the client, 1: the maker. The messages of a session are numbered. */
chan up[2] = [3] of { mtype, byte, byte };                     /* type, number, grant */
chan down[2] = [4] of { mtype, byte, byte, byte, byte };       /* type, number of the request, grant, serial, piece + 1 */

/* ---- the device ---- */
byte bytes[NP];                        /* 0: zeroes; else the buffer that wrote them */
byte tenant[NP];                       /* allocation + 1 whose memory it is; 0: it is free */
byte refs[NP];                         /* descriptors, mappings, and the owner's memory */
#define unref(p) refs[p]--; if :: !refs[p] -> tenant[p]=0; bytes[p]=0 :: else fi

/* ---- the ledger ---- */
#define NONE 0
#define MAKING 1
#define USED 2
#define ZEROING 3
#define SPARE 4
#define FREEING 5
#define FREED 6
byte state[NA];
#ifdef OVERLAP
byte by[NA];                           /* the owner that has the job under way, or had it when it died; + 1 */
/* It can go to the owner at hand. A RELEASE frees memory only when no owner before has it. */
#ifdef F_HELD
#define OTHERS false
#else
#define OTHERS (at && !gone[at-1])
#endif
#define HANDS(a) (lane && PENDING(a) && by[a]!=at+1 && !LOST(a) && (!by[a] || gone[by[a]-1]) && !(state[a]==FREEING && OTHERS))
#define GIVEN(a) (by[a]==at+1)
/* It was dropped and not released, and has ended with its owner. */
#define LOST(a) (lane && state[a]==FREEING && !kept[a] && by[a] && by[a]!=at+1 && gone[by[a]-1])
#define given_back(a) by[a]=0
#else
#define HANDS(a) false
#define GIVEN(a) true
#define LOST(a) false
#define given_back(a) skip
#endif
byte job[NA];                          /* number of the allocation's last job, which is under way if PENDING */
#define PENDING(a) (state[a]==MAKING || state[a]==ZEROING || state[a]==FREEING)
#define RECORDED(a) (state[a]==USED || state[a]==ZEROING || state[a]==SPARE)   /* the record implies a descriptor */
#define LIVE 1
#define DRAINING 2
#define OVER 3
byte buffer[3];                        /* state of the buffer with that serial */
byte on2;                              /* the allocation of buffer 2; buffer 1 is in allocation 0 */
#define ON(s) ((s)==1 -> 0 : on2)
byte grant[2], serial[2];              /* a session's grant, with its mapping: number of its request, serial of its buffer; 0: none */
mtype hand; byte hand_c, hand_n, hand_g;       /* the request in hand: type, session, number, grant or serial */
mtype owed[2]; byte owed_n[2];         /* the answer that a session is owed: type, number of its request */
byte drain, create;                    /* number of the request that waits; 0: none */
bit over[2];                           /* the session has ended */
bit spent;                             /* the ticket */
byte tries;                            /* of the request in hand; F_KILLS alone */

/* ---- what else outlives a broker ---- */
byte kept[NA];                         /* the keeper's descriptors: piece + 1 */
byte word[3];                          /* the board */
byte has[NO*NA];                       /* the owner's memory: piece + 1 */
byte result[NO*NA];                    /* number of the job that it has done, until that is acknowledged */
chan orders[NO] = [4] of { mtype, byte, byte };                /* kind, allocation, number */
bit asked[NO], listed[NO];             /* a broker has come; the owner has dropped the orders of the one before, and says what it has and has done */
bit ended[NO], gone[NO];               /* its lane; its process */
byte owner;                            /* the one that was started last */
byte left;                             /* kills of the broker that are still to come */

/* ---- the clients' processes ---- */
byte mapped[2];                        /* piece + 1 */
bit dead;                              /* the client's */

/* ---- what is asserted about ---- */
byte handled[2];                       /* number of the last message of the session that has taken effect */
byte unlinked;                         /* the highest serial of which a process knows that it is unlinked */
byte last[NO*NA];                      /* number of the last job that the owner has begun for the allocation */
byte acquired; bit finished;           /* the client's acquires that have returned; the maker has had all its answers */
byte X;

#ifdef F_UNREAD
#define PIECE(a) (late[a] -> late[a] : kept[a])
#else
#define PIECE(a) (BY_DESCRIPTOR -> kept[a] : has[owner*NA+a])
#endif
#define NAMED (buffer[2]==LIVE -> 2 : (buffer[1]==LIVE -> 1 : 0))
#define GRANTED(s) ((grant[0] && serial[0]==s) || (grant[1] && serial[1]==s))
#define OPEN(a) ((grant[0] && ON(serial[0])==a) || (grant[1] && ON(serial[1])==a))
#define HELD(a) (state[a]!=NONE && state[a]!=FREED)

/* ---- the broker: what a commit changes (registry, memory, requests; ledger) ---- */

inline stage(c_, type, n_) { assert(owed[c_]==NOTHING); owed[c_]=type; owed_n[c_]=n_ }

inline release(a_) {
	state[a_]=FREEING; job[a_]++
#ifdef F_GONE
	; if :: drain && a_==0 -> stage(1, DONE, drain); drain=0 :: else fi
#endif
	}

/* A buffer without name and grants has ended. */
inline buffer_end(s) {
	buffer[s]=OVER;
	if :: state[ON(s)]=ZEROING; job[ON(s)]++
	   :: release(ON(s)) fi }

inline create_try() {
	if
	:: create && state[0]==SPARE && state[1]!=MAKING -> state[0]=USED; on2=0; buffer[2]=LIVE; stage(1, DONE, create); create=0
	:: create && state[0]!=SPARE && state[1]==NONE && (LIMIT>1 || !HELD(0)) -> state[1]=MAKING; job[1]++
	:: else fi }

inline job_done(a_) {
	given_back(a_);
	if
	:: state[a_]==MAKING -> state[a_]=USED; on2=a_; buffer[2]=LIVE; stage(1, DONE, create); create=0
	:: state[a_]==ZEROING || state[a_]==FREEING ->
		state[a_]=(state[a_]==ZEROING -> SPARE : FREED);
		if :: drain && a_==0 -> stage(1, DONE, drain); drain=0 :: else fi;
		create_try()
	fi }

inline grant_end(c_) {
	told[c_]=0;
	if :: buffer[serial[c_]]==DRAINING && !(grant[1-c_] && serial[1-c_]==serial[c_]) -> X=serial[c_]; grant[c_]=0; serial[c_]=0; buffer_end(X); X=0
	   :: else -> grant[c_]=0; serial[c_]=0 fi }

inline handle() {
	/* No message is lost, none takes effect twice. The CLOSED of a GRANT that nobody waits for has no number. */
	if :: hand_n -> assert(hand_n==handled[hand_c]+1); handled[hand_c]=hand_n :: else fi;
	if
	:: (hand==ACQUIRE || hand==REDEEM) ->
		if
		:: NAMED && !(hand==REDEEM && spent) -> assert(!grant[hand_c]); grant[hand_c]=hand_n; serial[hand_c]=NAMED; spent=(hand==REDEEM || spent); stage(hand_c, GRANT, hand_n)
		:: else -> assert(hand!=REDEEM || !NAMED); stage(hand_c, REFUSED, hand_n)   /* a ticket is not spent without its grant */
		fi
	:: hand==CLOSED && grant[hand_c]==hand_g -> grant_end(hand_c)
	:: hand==CLOSED && grant[hand_c]!=hand_g -> skip
	:: (hand==UNLINK || hand==DRAIN) ->
		if :: hand==DRAIN -> drain=hand_n :: else -> stage(1, DONE, hand_n) fi;
		assert(buffer[hand_g]==LIVE);
		if :: GRANTED(hand_g) -> buffer[hand_g]=DRAINING :: else -> buffer_end(hand_g) fi
	:: hand==CREATE -> create=hand_n; create_try()
	fi }

/* ---- the broker: what the ledger says and the world lacks ---- */

#define WORDS (word[1]!=buffer[1] || word[2]!=buffer[2])
#define OWED (owed[0]!=NOTHING || owed[1]!=NOTHING)
#define TOLD(c) (!grant[c] || buffer[serial[c]]!=DRAINING || told[c])
/* A descriptor without a record; or of memory that is being freed, when the owner has its own. */
#ifdef F_NOCLOSE
#define CLOSES(a) (kept[a] && !taken[a] && state[a]==FREEING && lane && has[at*NA+a])
#else
#define CLOSES(a) (kept[a] && !taken[a] && (state[a]==FREEING -> lane && GIVEN(a) && has[at*NA+a] : !RECORDED(a)))
#endif
#define DONE_NOW(a) (PENDING(a) && result[at*NA+a]==job[a])
#ifdef F_FREEFIRST
#define ACKS(a) (lane && result[at*NA+a] && !DONE_NOW(a) && early!=a+1)
#else
#define ACKS(a) (lane && result[at*NA+a] && !DONE_NOW(a))
#endif
#ifdef F_UNREAD
#define UNREAD(a) late[a]
#else
#define UNREAD(a) false
#endif
#define ORDERS(a) (lane && PENDING(a) && !sent[a] && !result[at*NA+a] && !((kept[a] || UNREAD(a)) && state[a]==FREEING) && !taken[a] && GIVEN(a))
#define JOBS(a) (CLOSES(a) || ACKS(a) || ORDERS(a) || taken[a] || LATE(a) || HANDS(a) || LOST(a))
#if defined(F_WORDFIRST) || defined(F_SPEND) || defined(F_TWOWRITES) || defined(F_KILLS) || defined(F_DROPFIRST) || defined(F_FREEFIRST)
#define EARLY early
#define HALF
#else
#define EARLY false
#endif
#define UP_TO_DATE (!EARLY && !WORDS && !OWED && TOLD(0) && TOLD(1) && !JOBS(0) && !JOBS(1))
#ifdef F_PUTLATE
#define LATE(a) (late[a] && !taken[a])
#else
#define LATE(a) false
#endif

inline drop(a_) { if :: kept[a_] -> unref(kept[a_]-1); kept[a_]=0 :: else fi }
inline put(a_) { drop(a_); kept[a_]=has[at*NA+a_]; refs[kept[a_]-1]++ }

inline send(c_) {
	if :: owed[c_]==GRANT -> down[c_]!GRANT,owed_n[c_],grant[c_],serial[c_],PIECE(ON(serial[c_]))
	   :: else -> down[c_]!owed[c_],owed_n[c_],0,0,0 fi;
	said[c_]=1 }
inline notice(c_) { down[c_]!NOTICE,0,grant[c_],0,0; told[c_]=1 }
inline order(a_) {
	sent[a_]=1;
	if :: state[a_]==MAKING -> orders[at]!ALLOCATE,a_,job[a_]
	   :: state[a_]==ZEROING -> orders[at]!ZERO,a_,job[a_]
	   :: state[a_]==FREEING -> orders[at]!RELEASE,a_,job[a_] fi }
/* So far the successor's order: words, answers, notices; then what the keeper and the owner must do. */
#define REST word[1]==buffer[1] && word[2]==buffer[2] && !OWED && TOLD(0) && TOLD(1)

/* What an owner that comes after another gets of what the keeper has. What was dropped and not released has ended with its owner. */
inline adopt(a_) {
	if :: gone[at] -> skip
	   :: !gone[at] && kept[a_] && (RECORDED(a_) || state[a_]==FREEING) && !has[at*NA+a_] -> has[at*NA+a_]=kept[a_]; refs[kept[a_]-1]++
#ifndef OVERLAP
	   :: !gone[at] && BY_DESCRIPTOR && !kept[a_] && state[a_]==FREEING && !has[at*NA+a_] && !result[at*NA+a_] -> job_done(a_)
#endif
	   :: else fi }

inline close_step(a_) { atomic { REST && CLOSES(a_) -> drop(a_) } }
inline ack_step(a_) { atomic { REST && !CLOSES(a_) && ACKS(a_) -> result[at*NA+a_]=0 } }
inline order_step(a_) { atomic { REST && !CLOSES(a_) && ORDERS(a_) -> order(a_) } }
inline taken_step(a_) { atomic { REST && taken[a_] -> taken[a_]=0; sent[a_]=0; job_done(a_) } }
/* New memory: the keeper gets the descriptor, and then the ledger the record. */
inline result_step(a_) { atomic { UP_TO_DATE && hand==NOTHING && lane && DONE_NOW(a_) && !gone[at] ->
#ifdef F_ACKFIRST
	result[at*NA+a_]=0; taken[a_]=1;
#endif
	if
	:: BY_DESCRIPTOR && state[a_]==MAKING ->
#if defined(F_PUTLATE) || defined(F_UNREAD)
		if :: late[a_] -> unref(late[a_]-1) :: else fi;
		late[a_]=has[at*NA+a_]; refs[late[a_]-1]++;
#else
		put(a_);
#endif
		taken[a_]=1
	:: else ->
#ifndef F_ACKFIRST
		sent[a_]=0; job_done(a_)
#endif
	fi } }
#ifdef F_UNREAD
inline late_step(a_) { atomic { late[a_] -> drop(a_); kept[a_]=late[a_]; late[a_]=0 } }
#else
inline late_step(a_) { atomic { REST && LATE(a_) -> drop(a_); kept[a_]=late[a_]; late[a_]=0 } }
#endif
#ifdef OVERLAP
inline hands_step(a_) { atomic { REST && HANDS(a_) -> by[a_]=at+1 } }
inline lost_step(a_) { atomic { REST && LOST(a_) -> job_done(a_) } }
#endif
inline evict_step(a_) { atomic { UP_TO_DATE && hand==NOTHING && state[a_]==SPARE && !create ->
#if defined(F_DROPFIRST)
	drop(a_); early=a_+1
#elif defined(F_FREEFIRST)
	if :: lane -> orders[at]!RELEASE,a_,job[a_]+1; early=a_+1 :: else -> release(a_) fi
#else
	release(a_)
#endif
	} }
inline session_end(c_) { over[c_]=1; owed[c_]=NOTHING; owed_n[c_]=0; said[c_]=0; if :: grant[c_] -> grant_end(c_) :: else fi }
#define hand_clear() hand=NOTHING; hand_c=0; hand_n=0; hand_g=0; tries=0

/* The end of a broker. */
inline memory_lost() {
#ifdef F_NOHAND
	hand_clear();
#endif
#ifdef F_NOOWED
	owed[0]=NOTHING; owed[1]=NOTHING;
#endif
#ifdef F_TWOWRITES
	if :: early -> owed[0]=NOTHING; owed[1]=NOTHING :: else fi;
#endif
#ifdef F_NOWAITS
	drain=0; if :: state[1]!=MAKING -> create=0 :: else fi;
#endif
#ifdef F_UNRECORDED
	if :: state[1]==MAKING -> state[1]=NONE :: else fi;
#endif
#ifdef F_PUTLATE
	if :: late[0] -> unref(late[0]-1); late[0]=0 :: else fi; if :: late[1] -> unref(late[1]-1); late[1]=0 :: else fi;
#endif
#ifdef HALF
	early=0;
#endif
#ifdef F_WHOSE
	by[0]=0; by[1]=0;
#endif
	at=NIL; lane=0; sent[0]=0; sent[1]=0; taken[0]=0; taken[1]=0; said[0]=0; said[1]=0; told[0]=0; told[1]=0 }
/* It asks each owner what that has and has done, and sends it nothing before it knows. */
inline ask_owner() {
	at=owner; sent[0]=0; sent[1]=0;
#ifdef F_TWICE
	lane=1
#else
	lane=0; asked[at]=1; listed[at]=0
#endif
	}

proctype Broker() {
	byte at=NIL;                           /* the owner that it has asked */
	bit lane;                              /* that has told */
	bit sent[NA], taken[NA];               /* a job's order, a job's result */
	bit said[2], told[2];                  /* an answer; a notice */
#if defined(F_DROPFIRST) || defined(F_FREEFIRST)
	byte a;
#endif
#if defined(F_PUTLATE) || defined(F_UNREAD)
	byte late[NA];
#endif
#ifdef HALF
	byte early;                            /* a mistake is half done */
#endif

	goto load;
end:	do
	/* SIGKILL, and the load of the next broker. Nothing that another process does between the two is seen by either. */
	:: atomic { left -> left--; memory_lost();
load:
		assert(!BY_DESCRIPTOR || ((!RECORDED(0) || kept[0]) && (!RECORDED(1) || kept[1])));   /* a record implies its descriptor */
#ifdef F_NOTOLD
		if :: handled[0] || handled[1] -> told[0]=1; told[1]=1 :: else fi;
#endif
#ifdef F_NEWNUMBER
		if :: PENDING(0) -> job[0]++ :: else fi; if :: PENDING(1) -> job[1]++ :: else fi;
#endif
#ifdef F_DEADFIRST
		if :: dead && !over[0] -> session_end(0) :: else fi;
#endif
#ifdef F_KILLS
		if :: hand!=NOTHING && tries==2 -> over[hand_c]=1; hand_clear() :: else fi;
#endif
#ifdef F_OWEDFIRST
		if :: owed[0]!=NOTHING -> send(0) :: else fi; if :: owed[1]!=NOTHING -> send(1) :: else fi;
#endif
		ask_owner() }

	/* the board's words, answers, notices */
#ifdef F_WORDFIRST
	:: atomic { word[1]!=buffer[1] && !early -> word[1]=buffer[1] }
	:: atomic { word[2]!=buffer[2] && !early -> word[2]=buffer[2] }
#else
	:: atomic { word[1]!=buffer[1] -> word[1]=buffer[1] }
	:: atomic { word[1]==buffer[1] && word[2]!=buffer[2] -> word[2]=buffer[2] }
#endif
#ifdef F_TWOWRITES
	:: atomic { early -> early=0 }
#define WRITTEN !early
#else
#define WRITTEN true
#endif
	:: atomic { !WORDS && WRITTEN && owed[0]!=NOTHING && !said[0] -> send(0) }
	:: atomic { said[0] -> owed[0]=NOTHING; owed_n[0]=0; said[0]=0 }
	:: atomic { !WORDS && WRITTEN && owed[0]==NOTHING && owed[1]!=NOTHING && !said[1] -> send(1) }
	:: atomic { said[1] -> owed[1]=NOTHING; owed_n[1]=0; said[1]=0 }
	:: atomic { !WORDS && !OWED && !TOLD(0) -> notice(0) }
	:: atomic { !WORDS && !OWED && TOLD(0) && !TOLD(1) -> notice(1) }

	/* descriptors and jobs */
	:: close_step(0) :: ack_step(0) :: order_step(0) :: taken_step(0)
	:: close_step(1) :: ack_step(1) :: order_step(1) :: taken_step(1)
#ifdef OVERLAP
	:: hands_step(0) :: lost_step(0) :: hands_step(1) :: lost_step(1)
#endif
#if defined(F_PUTLATE) || defined(F_UNREAD)
	:: late_step(0) :: late_step(1)
#endif

	/* the request in hand; then what is new */
#ifdef F_WORDFIRST
	:: atomic { UP_TO_DATE && (hand==UNLINK || hand==DRAIN) && !early -> early=1; word[hand_g]=DRAINING }
	:: atomic { hand!=NOTHING && (early || (UP_TO_DATE && hand!=UNLINK && hand!=DRAIN)) -> handle(); hand_clear(); early=0 }
#else
#ifdef F_SPEND
	:: atomic { UP_TO_DATE && hand==REDEEM && NAMED && !spent -> spent=1; early=1 }
	:: atomic { early -> early=0; spent=0; handle(); hand_clear() }
	:: atomic { UP_TO_DATE && hand!=NOTHING && !(hand==REDEEM && NAMED && !spent) -> handle(); hand_clear() }
#else
#ifdef F_KILLS
	:: atomic { UP_TO_DATE && hand!=NOTHING && !early -> tries++; early=1 }
	:: atomic { early -> early=0; handle(); hand_clear() }
#else
	:: atomic { UP_TO_DATE && hand!=NOTHING -> handle(); hand_clear()
#ifdef F_TWOWRITES
		; early=OWED
#endif
		}
#endif
#endif
#endif
	/* The kernel writes what it hands out into the ledger. */
	:: atomic { UP_TO_DATE && hand==NOTHING && !over[0] && nempty(up[0]) -> up[0]?hand,hand_n,hand_g; hand_c=0 }
	:: atomic { UP_TO_DATE && hand==NOTHING && !over[1] && nempty(up[1]) -> up[1]?hand,hand_n,hand_g; hand_c=1 }
	:: result_step(0) :: result_step(1)
	:: evict_step(0) :: evict_step(1)
#if defined(F_DROPFIRST) || defined(F_FREEFIRST)
	:: atomic { early -> a=early-1; early=0; release(a);
#ifdef F_FREEFIRST
		sent[a]=1;
#endif
		a=0 }
#endif
#ifdef DIES
	:: atomic { UP_TO_DATE && hand==NOTHING && dead && !over[0] -> session_end(0) }
#endif
	:: atomic { UP_TO_DATE && at!=owner -> ask_owner() }
	:: atomic { UP_TO_DATE && at==owner && !lane && listed[at] -> lane=1; adopt(0); adopt(1) }
	od }

#if DEATHS
/* Starts the next owner when the process of the last one has ended. */
proctype Keeper() {
end:	do
#if defined(F_LATEZERO) || defined(OVERLAP)
	:: atomic { ended[owner] && owner+1<NO -> owner++; run Owner(owner) }
#else
	:: atomic { gone[owner] && owner+1<NO -> owner++; run Owner(owner) }
#endif
	od }
#endif

/* ---- the owner ---- */

proctype Owner(byte o) {
	mtype t; byte a, n, p;
end:	do
	:: atomic { !ended[o] && nempty(orders[o]) -> orders[o]?t,a,n;
		assert(n>last[o*NA+a]); last[o*NA+a]=n;                        /* no job is done twice */
		if
		:: t==ALLOCATE -> p=0; do :: p<NP && refs[p] -> p++ :: else -> break od;
			assert(p<NP);                                  /* there is room where the ledger says so */
			refs[p]=1; tenant[p]=a+1; bytes[p]=0; has[o*NA+a]=p+1; p=0
		:: t==ZERO -> assert(has[o*NA+a]); goto zeroing
		:: t==RELEASE -> p=has[o*NA+a]; assert(p);
			assert(mapped[0]!=p && mapped[1]!=p && !OPEN(a));      /* nothing is freed that a process has */
			has[o*NA+a]=0; unref(p-1); p=0
		fi }
outcome:	atomic { if :: gone[o] -> goto ends :: else -> result[o*NA+a]=n; t=NOTHING; a=0; n=0 fi }
	:: atomic { !ended[o] && asked[o] -> asked[o]=0;
#ifndef F_QUEUE
		do :: orders[o]?_,_,_ :: empty(orders[o]) -> break od;
#endif
		listed[o]=1 }
	:: atomic { ended[o] -> goto ends }
	od;
zeroing: atomic { if :: gone[o] -> goto ends
		  :: else -> p=has[o*NA+a];
			assert(mapped[0]!=p && mapped[1]!=p && !OPEN(a));      /* ... or zeroed */
			bytes[p-1]=0; p=0; goto outcome fi };
ends:	skip }

#if DEATHS
proctype KillOwner() {
	byte a;
	ended[0]=1;
		atomic { do :: a<NA -> if :: has[a] -> unref(has[a]-1); has[a]=0 :: else fi; a++ :: else -> break od; a=0; gone[0]=1; asked[0]=0; listed[0]=0;
		result[0]=0; result[1]=0; last[0]=0; last[1]=0; do :: orders[0]?_,_,_ :: empty(orders[0]) -> break od } }
#endif

/* ---- the clients ---- */

#ifdef DIES
#define LIVING !dead
#else
#define LIVING true
#endif

inline ask(c_, type, g_) { q++; up[c_]!type,q,g_; waits=q; floor=unlinked }
inline refuse_grant(c_, g_) { up[c_]!CLOSED,0,g_ }
inline know_unlinked(s_) { unlinked=(s_>unlinked -> s_ : unlinked) }

inline mapping_open(c_) {
	assert(piece && tenant[piece-1]==ON(b)+1);                    /* its memory is there */
	assert(b>floor);                                              /* it was not unlinked before the acquire began */
	floor=0;
	m=g; s=b; mapped[c_]=piece; refs[piece-1]++ }
inline mapping_use(c_) {
	assert(!bytes[mapped[c_]-1] || bytes[mapped[c_]-1]==s);        /* no bytes of the buffer before */
	bytes[mapped[c_]-1]=s; used=1 }
inline mapping_close(c_) {
	assert(!used || bytes[mapped[c_]-1]==s);                       /* and nothing that lands late */
	assert(tenant[mapped[c_]-1]==ON(s)+1);
	used=0; noticed=0; unref(mapped[c_]-1); mapped[c_]=0; s=0;
	q++; up[c_]!CLOSED,q,m; m=0 }

/* A message that answers no request that waits. */
inline on_other(c_) {
	if
#ifdef F_DUP
	:: t==GRANT -> refuse_grant(c_, g)
#else
	:: t==GRANT && g!=m -> refuse_grant(c_, g)
#endif
	:: t==NOTICE && g==m -> noticed=1
	:: else fi }
#define RECEIVED t=NOTHING; n=0; g=0; b=0; piece=0

/* Whoever finds a word that is not LIVE knows that its buffer is unlinked. */
proctype Client() {
	mtype t; byte n, g, b, piece;         /* a message */
	byte m, s; bit used, noticed;          /* the grant that it has mapped, and its buffer */
	byte q, waits, floor;
end:	do
	:: atomic { LIVING && !waits && acquired<ITERS && !(m && noticed && word[s]!=LIVE) ->
		if
		:: m && word[s]==LIVE -> assert(s>unlinked); acquired++; mapping_use(0)
		:: m && word[s]!=LIVE && !noticed -> know_unlinked(s); noticed=1     /* a step later its mapping is closed */
#ifdef TICKET
		:: !m && acquired+1==ITERS -> ask(0, REDEEM, 0)
		:: !m && acquired+1<ITERS -> ask(0, ACQUIRE, 0)
#else
		:: !m -> ask(0, ACQUIRE, 0)
#endif
		fi }
	:: atomic { LIVING && nempty(down[0]) -> down[0]?t,n,g,b,piece;
		if
		:: n==waits && t==GRANT -> waits=0; mapping_open(0);
			if :: word[s]==LIVE -> acquired++; mapping_use(0)
			   :: else -> know_unlinked(s); mapping_close(0);
#ifdef TICKET
				if :: acquired+1==ITERS -> acquired++ :: else fi
#endif
			fi
		:: n==waits && t==REFUSED -> waits=0; floor=0; acquired++
		:: else -> on_other(0)
		fi; RECEIVED }
	:: atomic { LIVING && m && (noticed || acquired<ITERS) -> mapping_close(0) }
#ifdef DIES
	:: atomic { !dead -> dead=1; if :: m -> unref(mapped[0]-1); mapped[0]=0 :: else fi; m=0; s=0; used=0; noticed=0; waits=0; floor=0; acquired=ITERS;
		do :: down[0]?_,_,_,_,_ :: empty(down[0]) -> break od }
#endif
	od }

inline await(c_) { do
	:: waits -> atomic { down[c_]?t,n,g,b,piece;
		if :: n==waits && t==GRANT -> waits=0; mapping_open(c_); mapping_use(c_)
		   :: n==waits && t==DONE -> waits=0; floor=0
		   :: n==waits && t==REFUSED -> assert(false)
		   :: else -> on_other(c_) fi; RECEIVED }
	:: !waits -> break od }

/* The owner of the buffers. Nobody else unlinks them, so what it acquires is there. */
proctype Maker() {
	mtype t; byte n, g, b, piece, m, s, q, waits, floor; bit used, noticed;
#ifdef DRAINS
	atomic { ask(1, DRAIN, 1) }; await(1);
	atomic { X=0; do :: X<NP -> assert(bytes[X]!=1); X++ :: else -> break od; X=0; know_unlinked(1) };  /* freed or zeroed */
#else
	atomic { ask(1, UNLINK, 1) }; await(1);
	atomic { know_unlinked(1) };
#endif
	atomic { ask(1, CREATE, 0) }; await(1);
	atomic { ask(1, ACQUIRE, 0) }; await(1);
	atomic { mapping_close(1) };
	atomic { ask(1, UNLINK, 2) }; await(1);
	atomic { know_unlinked(2); finished=1 };
end:	do
	:: atomic { down[1]?t,n,g,b,piece -> on_other(1); RECEIVED }
	od }

init { atomic {
	state[0]=USED; buffer[1]=LIVE; word[1]=LIVE; has[0]=1; tenant[0]=1; refs[0]=1;
#ifndef IPC
	kept[0]=1; refs[0]=2;
#endif
	hand=NOTHING; owed[0]=NOTHING; owed[1]=NOTHING;
	if :: left=CRASHES
#if CRASHES>1
	   :: left=1
#endif
	   :: left=0 fi;
#if DEATHS
	run KillOwner(); run Keeper();
#endif
	run Owner(0); run Client(); run Maker(); run Broker();
#ifdef F_TWOBROKERS
	run Broker()
#endif
	};
	timeout;
	atomic {
		assert(acquired==ITERS && finished);                           /* nobody waits for ever */
		assert(buffer[1]==OVER && buffer[2]==OVER && word[1]==OVER && word[2]==OVER);
		assert(!HELD(0) && !HELD(1) && !kept[0] && !kept[1] && !result[owner*NA] && !result[owner*NA+1]);
		X=0; do :: X<NP -> assert(!refs[X]); X++ :: else -> break od; X=0;    /* nothing has leaked */
		assert(hand==NOTHING && owed[0]==NOTHING && owed[1]==NOTHING && !drain && !create);
		assert(empty(up[1]) && (dead || empty(up[0])))
	} }
