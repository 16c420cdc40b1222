/* SPDX-License-Identifier: Apache-2.0 */
/*
 * owner.pml - the death of the owner of the device memory, as broker/ implements it, for spin. README.md beside it says
 * what is modelled, what is not, and how to run it; run.sh runs it in the suite.
 *
 * The broker makes NB buffers in at most NA allocations (NA is NB or more), LIMIT of them at a time, and unlinks each buffer at any
 * moment. It orders from the owner what that needs; the device has PIECES pieces of memory, one for an allocation. NC clients acquire
 * a live buffer ITERS times in all, write it, read it, and then close their mapping or keep it for the next buffer of the allocation.
 * The owner carries out one order after the other, and dies DEATHS times between any two steps: first its lane ends, then its process,
 * and in between it goes on with the orders that it has. IPC has a bit for each allocation that has no descriptor.
 * ADOPTFAILS: an owner may fail to take memory over. NOFD=n: the descriptor of new memory may fail to arrive, n times. NONEXT: the
 * broker may start no other owner. ENDS: run.sh searches for a run without an end.
 * A step carries the name of the function that does it. One statement is one step that others can come between; what one handler of
 * the broker's loop does is one atomic step. What is received and not carried out at a death is as if it were not received.
 *
 * An order is named by its allocation and a number, which counts the jobs of the allocation. Memory is named by its allocation, which
 * has its memory made once. No name is used again, which is all that the numbers of order.h are for.
 *
 * Without a flag it is the right protocol. Each flag makes one mistake, and must give a counterexample:
 *  F_EOF        the next owner is started when the lane has ended, not when the process has
 *  F_ZEROONCE   a ZERO that was not answered counts as carried out
 *  F_ADDRESS    a RELEASE names memory by the address that it had in the owner that made it
 *  F_DROP       orders that were not answered are not sent again
 *  F_TWICE      an ALLOCATE whose answer is read after the lane's end is sent again all the same
 *  F_ADOPTLAST  the next owner gets its adoptions after all other orders
 *  F_ADOPTAGAIN the third owner gets the adoptions of the second one beside its own
 *  F_NOADOPT    the next owner adopts nothing
 *  F_OLDLANE    the lane of the dead owner is read on when the next one has started
 *  F_UNKNOWN    a RELEASE of memory that the owner does not know fails
 *  F_NAMES      buffers of memory without a descriptor keep their names when the owner dies
 *  F_SPARE      memory without a descriptor serves new buffers though its owner has died
 *  F_REFUSED    memory whose descriptor did not arrive is not freed
 *  F_UNZEROED   a range or pooled memory that could not be zeroed serves the next buffer
 */
#ifndef NA
#define NA 3
#endif
#ifndef PIECES
#define PIECES 2
#endif
#ifndef LIMIT
#define LIMIT PIECES
#endif
#ifndef NB
#define NB 3
#endif
#ifndef NC
#define NC 1
#endif
#ifndef ITERS
#define ITERS 2
#endif
#ifndef DEATHS
#define DEATHS 1
#endif
#ifndef IPC
#define IPC 0
#endif
#define NO (DEATHS+1)                  /* owners, one after the other */
#define BY_DESCRIPTOR(a) (!((IPC>>(a))&1))

mtype = { ALLOCATE, ADOPT, ZERO, RELEASE };

/* The device. A piece is free when nobody refers to it; it keeps some bytes. */
#define FRESH 255
byte bytes[PIECES]=FRESH;              /* 0: zeroes; else the buffer that wrote them */
byte tenant[PIECES];                   /* allocation + 1 whose memory it is */
byte refs[PIECES];                     /* owners, descriptors (also those under way) and mappings */
#define unref(p) refs[p]--; tenant[p]=(refs[p] -> tenant[p] : 0); bytes[p]=(refs[p] -> bytes[p] : FRESH)

/* The owners, and their lanes. A descriptor is the number of its piece + 1. */
bit ended[NO];                         /* the lane has ended */
bit gone[NO];                          /* so has the process, as its pidfd says */
bit shut[NO];                          /* the broker has closed its end */
byte at[NO*NA];                        /* piece + 1 of the memory that the owner has; 0: it does not know it */
#define CAP (2*NA)                     /* a job and an adoption of each allocation */
chan orders[NO] = [CAP] of { mtype, byte, byte, byte };    /* kind, memory, number, descriptor */
chan answers[NO] = [CAP] of { byte, byte, byte, byte };    /* memory, number, error, descriptor */
#define OK 0
#define ENOENT 1
#define EIO 2
#define ADOPTION 200                   /* number of an ADOPT */

/* The broker */
#define NONE 0
#define MAKING 1
#define IN_USE 2
#define IDLE 3
#define EVICTED 4
#define FREEING 5
#define POOLED 6
#define FREED 7
#define FAILED 8                       /* its RELEASE failed: no other owner was started */
byte state[NA];
byte memory_fd[NA];                    /* the allocation's descriptor */
byte maker[NA];                        /* owner that made memory without a descriptor */
bit private[NA], keeps[NA], busy[NA], vacant[NA];
byte opened[NA], grants[NA];           /* mappings, and grants of the buffer */
bit unadopted[NA];                     /* its adoption failed */
#define bNONE 0
#define bCREATING 1
#define bLIVE 2
#define bDRAINING 3
byte bstate[NA], buffer[NA];           /* the buffer in it */
byte made;
#define jNONE 0
#define jHELD 1
#define jSENT 2
mtype kind_of[NA]; byte jstate[NA];
byte number[NA], finished[NA];         /* of its last job that was submitted, and that was done */
bit unusable[NA];
byte owner;                            /* the owner that is served, or was */
bit lost, starting, failed;
byte refusals;

/* The clients */
byte mapped[NC];                       /* piece + 1 */

byte X;

#ifdef F_ADDRESS
byte address[NO*NA];                   /* at which the owner has the memory, from 1 on */
byte known_at[NA];                     /* ... as the broker was told when it was made */
#define NAMED(a) (kind_of[a]==RELEASE -> (a)+16*known_at[a] : (a))
/* lowest free address of owner o */
inline address_take(o, a) {
	address[(o)*NA+a]=1;
	X=0; do
	:: X<NA -> if :: X!=a && at[(o)*NA+X] && address[(o)*NA+X]==address[(o)*NA+a] -> address[(o)*NA+a]++; X=0 :: else -> X++ fi
	:: else -> break od; X=0 }
#else
#define NAMED(a) (a)
#define address_take(o, a) skip
#endif

/* ---- jobs.c ---- */

/* An owner that has ended is noticed when its answers are read. A RELEASE takes the descriptor along, if it arrives. */
inline send_order(a) {
	jstate[a]=jSENT;
	if
	:: !gone[owner] && !shut[owner] && kind_of[a]==RELEASE -> orders[owner]!RELEASE,NAMED(a),number[a],memory_fd[a]; memory_fd[a]=0
	:: !gone[owner] && !shut[owner] && kind_of[a]!=RELEASE -> orders[owner]!kind_of[a],NAMED(a),number[a],0
	:: else fi }
/* What becomes of a RELEASE that no owner gets. */
inline descriptor_done(a) { if :: memory_fd[a] -> unref(memory_fd[a]-1); memory_fd[a]=0 :: else fi }
inline jobs_submit(a, kind) {
	number[a]++; kind_of[a]=kind; jstate[a]=jHELD;
	if :: !lost && !failed -> send_order(a) :: else fi }

inline adopt(a) {
	if :: memory_fd[a] && kind_of[a]!=RELEASE && !gone[owner] -> refs[memory_fd[a]-1]++; orders[owner]!ADOPT,a,ADOPTION,memory_fd[a]
	   :: else fi }
inline adopt_all() {
#ifndef F_NOADOPT
	adopt(0);
#if NA>1
	adopt(1);
#endif
#if NA>2
	adopt(2);
#endif
#endif
	skip }

/* ---- memory.c, reclaim.c and pool.c ---- */

inline give_back(a) { state[a]=FREEING; keeps[a]=0; jobs_submit(a, RELEASE) }

inline reclaim_release(a) {
	state[a]=FREEING; vacant[a]=0;
	if :: !private[a] -> keeps[a]=1; jobs_submit(a, ZERO)
	   :: keeps[a]=0; jobs_submit(a, RELEASE) fi }

/* bNONE or bDRAINING: no name. The buffer that is left in it ends with the allocation. */
inline memory_decide_free(a) {
	if
	:: opened[a] && state[a]==IN_USE && bstate[a]==bNONE && !busy[a] ->
		if :: vacant[a] && !private[a] -> state[a]=IDLE :: else -> private[a]=1; state[a]=EVICTED fi
	:: !opened[a] && !busy[a] && (state[a]==IN_USE || state[a]==IDLE || state[a]==EVICTED) &&
	   (bstate[a]==bNONE || bstate[a]==bDRAINING) -> bstate[a]=bNONE; buffer[a]=0; reclaim_release(a)
	:: else fi }

inline registry_end_buffer(a) {
	if
	:: bstate[a]==bDRAINING && !grants[a] ->
		if
		:: !opened[a] -> memory_decide_free(a)
		:: opened[a] && !private[a] -> bstate[a]=bNONE; buffer[a]=0; busy[a]=1; jobs_submit(a, ZERO)      /* buffer_leave */
		:: opened[a] && private[a] -> if :: state[a]!=EVICTED -> state[a]=EVICTED :: else fi /* memory_evict */
		fi
	:: else fi }

inline manage_unlink(a) { bstate[a]=bDRAINING; registry_end_buffer(a) }
inline evict_idle(a) { private[a]=1; state[a]=EVICTED }

inline clean_done(a, e) {
	assert(e!=ENOENT || !BY_DESCRIPTOR(a) || unadopted[a]);        /* memory by descriptors goes on */
	busy[a]=0;
#ifdef F_UNZEROED
	vacant[a]=1;
#else
	vacant[a]=(e==OK);
#endif
	memory_decide_free(a) }

/* What is over is set to 0, or it would be a state of its own. */
inline allocation_free(a, e) {
	state[a]=(e==OK -> FREED : FAILED); kind_of[a]=0; number[a]=0; finished[a]=0; unusable[a]=0; private[a]=0; unadopted[a]=0;
	buffer[a]=0; maker[a]=0; vacant[a]=0 }

inline release_done(a, e) {
	if
	:: kind_of[a]==ZERO ->
		assert(e!=ENOENT || !BY_DESCRIPTOR(a) || unadopted[a]);
		if
#ifdef F_UNZEROED
		:: keeps[a] -> state[a]=POOLED
		:: else -> give_back(a)
#else
		:: e==OK && keeps[a] -> state[a]=POOLED
		:: else -> give_back(a)                                /* must_be_freed */
#endif
		fi
	:: kind_of[a]==RELEASE -> allocation_free(a, e)
	fi }

inline creation_fail(a, e) { bstate[a]=bNONE; allocation_free(a, e) }
inline on_allocated(a, e, fd, o) {
	if
	:: e==OK -> state[a]=IN_USE; memory_fd[a]=fd; maker[a]=(BY_DESCRIPTOR(a) -> 0 : o); bstate[a]=bLIVE
	:: else -> creation_fail(a, OK)
	fi }

inline job_done(a, e, fd, o) {
	assert(finished[a]+1==number[a]); finished[a]=number[a];       /* done() is called once */
	if
	:: kind_of[a]==ALLOCATE -> on_allocated(a, e, fd, o)
	:: kind_of[a]==ZERO && state[a]!=FREEING -> clean_done(a, e)
	:: kind_of[a]!=ALLOCATE && state[a]==FREEING -> release_done(a, e)
	:: kind_of[a]==RELEASE && unusable[a] -> creation_fail(a, e) /* say_unusable */
	fi }

inline retire(a) {
	assert(state[a]!=IDLE && state[a]!=POOLED);                    /* spare memory was given back: no buffer takes it */
	unadopted[a]=1; private[a]=1 }

/* take_number: a job that waits for an answer with this number, or none */
inline finish(a, n, e, fd, o) {
	if
	:: n==ADOPTION -> if :: e -> retire(a) :: else fi
	:: n!=ADOPTION && jstate[a]==jSENT && number[a]==n ->
#ifndef F_UNKNOWN
		if :: kind_of[a]==RELEASE && e==ENOENT -> e=OK :: else fi;
#endif
		if
#ifdef NOFD
		:: fd && refusals<NOFD -> refusals++; unref(fd-1); fd=0;        /* refuse_memory */
#ifdef F_REFUSED
			jstate[a]=jNONE; e=EIO; job_done(a, e, fd, o)
#else
			assert(finished[a]+1==number[a]); finished[a]=number[a]; unusable[a]=1; jobs_submit(a, RELEASE)
#endif
#endif
		:: jstate[a]=jNONE; job_done(a, e, fd, o)
		fi
	:: else -> if :: fd -> unref(fd-1) :: else fi
	fi }

/* ---- devices.c ---- */

/* What is in the sockets when the last end is closed. */
inline answers_close(o) {
	shut[o]=1;
	do :: answers[o]?a,n,e,fd -> if :: fd -> unref(fd-1) :: else fi :: empty(answers[o]) -> break od;
	a=0; n=0; e=0; fd=0 }

inline lane_lose(a) {
	if
	:: jstate[a]==jSENT ->
#ifdef F_DROP
		jstate[a]=jNONE
#else
		jstate[a]=jHELD
#endif
	:: else fi }
/* retire_named: spare memory is given back, and memory without a descriptor serves no new buffers */
inline retire_named(a) {
#ifdef F_SPARE
	skip
#else
	if :: state[a]==POOLED -> give_back(a)
	   :: state[a]==IDLE -> evict_idle(a)
	   :: else fi;
	keeps[a]=0;
	if :: !BY_DESCRIPTOR(a) && state[a]!=NONE && state[a]!=MAKING && state[a]<FREEING -> private[a]=1 :: else fi
#endif
	}
inline orphans_unlink(a) {
#ifndef F_NAMES
	if :: !BY_DESCRIPTOR(a) && bstate[a]==bLIVE -> manage_unlink(a) :: else fi;
#endif
	skip }
inline on_lost() {
	lost=1;
	lane_lose(0); retire_named(0); orphans_unlink(0);
#if NA>1
	lane_lose(1); retire_named(1); orphans_unlink(1);
#endif
#if NA>2
	lane_lose(2); retire_named(2); orphans_unlink(2);
#endif
	skip }

inline resume(a) {
	if
#ifdef F_ZEROONCE
	:: jstate[a]==jHELD && kind_of[a]==ZERO -> jstate[a]=jNONE; job_done(a, OK, 0, owner)
	:: jstate[a]==jHELD && kind_of[a]!=ZERO -> send_order(a)
#else
	:: jstate[a]==jHELD -> send_order(a)
#endif
	:: else fi }
inline jobs_resume() {
	resume(0);
#if NA>1
	resume(1);
#endif
#if NA>2
	resume(2);
#endif
	skip }

inline serve_again() {
	starting=0;
#ifdef F_ADOPTLAST
	lost=0; jobs_resume(); adopt_all()
#else
	adopt_all(); lost=0; jobs_resume()
#endif
#ifdef F_ADOPTAGAIN
	; if :: owner>1 -> adopt_all() :: else fi
#endif
	}

#ifdef F_EOF
#define OVER(o) ended[o]
#else
#define OVER(o) gone[o]
#endif

/* A create takes idle or pooled memory, or has memory made where the device has room. */
#define ROOM ((state[0]!=NONE && state[0]!=FREED)+(NA>1 && state[1%NA]!=NONE && state[1%NA]!=FREED)+ \
	      (NA>2 && state[2%NA]!=NONE && state[2%NA]!=FREED) < LIMIT)
inline creation_begin(a) {
	atomic { made<NB && (state[a]==IDLE || state[a]==POOLED) ->
		made++; buffer[a]=made; vacant[a]=0; keeps[a]=0; state[a]=IN_USE; bstate[a]=bLIVE }
}
inline creation_make(a, before) {
	atomic { made<NB && state[a]==NONE && before && ROOM ->
		made++; buffer[a]=made; state[a]=MAKING; bstate[a]=bCREATING; jobs_submit(a, ALLOCATE) }
}
inline unlink(a) { atomic { bstate[a]==bLIVE -> manage_unlink(a) } }
inline evict(a) {
	atomic { if :: state[a]==IDLE -> evict_idle(a) :: state[a]==POOLED -> give_back(a)
	       fi }
}
inline fail(a) { atomic { failed && jstate[a]==jHELD -> descriptor_done(a); jstate[a]=jNONE; job_done(a, EIO, 0, owner) } }

#define resolved(a) assert(finished[a]==number[a] && jstate[a]==jNONE);                     /* no order is lost */ \
	assert(state[a]==NONE || state[a]==FREED || (failed && state[a]==FAILED));          /* the account is balanced */ \
	assert(!at[owner*NA+a] && !memory_fd[a])

proctype Broker() {
	byte a, n, e, fd;
	do
	:: creation_begin(0) :: creation_make(0, true) :: unlink(0) :: evict(0)
#if NA>1
	:: creation_begin(1) :: creation_make(1, state[0]!=NONE) :: unlink(1) :: evict(1)
#endif
#if NA>2
	:: creation_begin(2) :: creation_make(2, state[1]!=NONE) :: unlink(2) :: evict(2)
#endif
	/* on_readable: an answer, or the lane's end. Another lane's end may be read before this one's answers. */
	:: atomic { !lost && nempty(answers[owner]) -> answers[owner]?a,n,e,fd;
#ifdef F_ADDRESS
		if :: n!=ADOPTION && a>15 -> known_at[a%16]=a/16 :: else fi; a=a%16;
#endif
		finish(a, n, e, fd, owner); a=0; n=0; e=0; fd=0 }
	:: atomic { !lost && ended[owner] -> on_lost() }
#ifdef F_TWICE
	:: atomic { lost && !starting && nempty(answers[owner]) -> answers[owner]?a,n,e,fd;
		if :: n==number[a] && kind_of[a]==ALLOCATE && jstate[a]==jHELD -> job_done(a, e, fd, owner)
		   :: else -> if :: fd -> unref(fd-1) :: else fi fi; a=0; n=0; e=0; fd=0 }
#endif
#ifdef F_OLDLANE
	:: atomic { owner && nempty(answers[owner-1]) -> answers[owner-1]?a,n,e,fd;
		finish(a, n, e, fd, owner-1); a=0; n=0; e=0; fd=0 }
#endif
	/* on_gone, on_again */
	:: atomic { lost && !starting && !failed && OVER(owner) && owner+1<NO ->
#ifndef F_OLDLANE
		answers_close(owner);
#endif
		owner++; starting=1; run Owner(owner) }
	/* on_begun: it has answered, or has ended before */
	:: atomic { starting -> serve_again() }
	:: atomic { starting && ended[owner] -> starting=0 }
#ifdef NONEXT
	:: atomic { lost && !starting && !failed -> failed=1 }   /* devices_fail, at its earliest: in replace */
	:: atomic { failed && gone[owner] && !shut[owner] -> answers_close(owner) }                   /* devices_end */
	:: fail(0)
#if NA>1
	:: fail(1)
#endif
#if NA>2
	:: fail(2)
#endif
#endif
	:: timeout -> break
	od;
	/* nothing can move any more */
	atomic {
		assert(made==NB && (!lost || failed));
		resolved(0);
#if NA>1
		resolved(1);
#endif
#if NA>2
		resolved(2);
#endif
		X=0; do :: X<NC -> assert(!mapped[X]); X++ :: else -> break od;
		X=0; do :: X<PIECES -> assert(!refs[X]); X++ :: else -> break od; X=0   /* nothing has leaked */
	}
}

/* ---- owner.c and serve.c ---- */

inline held_find() {
#ifdef F_ADDRESS
	if
	:: !where -> p=at[o*NA+a]; h=a
	:: else -> p=0; X=0; do :: X<NA -> if :: at[o*NA+X] && address[o*NA+X]==where -> p=at[o*NA+X]; h=X :: else fi; X++ :: else -> break od; X=0
	fi
#else
	p=at[o*NA+a]; h=a
#endif
	}
inline make() {
	p=0; do :: p<PIECES && refs[p] -> p++ :: else -> break od;
	assert(p<PIECES);                                                  /* what is free to the broker is free */
	refs[p]=1; tenant[p]=a+1; p++; at[o*NA+a]=p; address_take(o, a) }
inline release() {
	assert(tenant[p-1]==a+1);                                      /* it is the memory that the order means */
	X=0; do :: X<NC -> assert(mapped[X]!=p); X++ :: else -> break od; X=0;
	at[o*NA+h]=0; unref(p-1) }
inline adopt_memory() {
	if
	:: true -> assert(!at[o*NA+a]); at[o*NA+a]=fd; address_take(o, a)
#ifdef ADOPTFAILS
	:: true -> unref(fd-1); e=EIO
#endif
	fi; fd=0 }
inline answer_order() {
	if :: shut[o] -> skip
	   :: else -> if :: kind==ALLOCATE && BY_DESCRIPTOR(a) -> fd=p; refs[p-1]++ :: else fi;
#ifdef F_ADDRESS
		answers[o]!a+16*address[o*NA+a],n,e,fd
#else
		answers[o]!a,n,e,fd
#endif
	fi; p=0; fd=0; e=OK; n=0; a=0; h=0 }

proctype Owner(byte o) {
	mtype kind; byte a, n, fd, p, e, h;
#ifdef F_ADDRESS
	byte where;
#endif
	do
	:: atomic { orders[o]?kind,a,n,fd ->
#ifdef F_ADDRESS
		where=a/16; a=a%16;
#endif
		if
		:: kind==ALLOCATE -> make(); bytes[p-1]=0
		:: kind==ADOPT -> adopt_memory()
		:: kind==ZERO -> held_find(); if :: p -> goto zeroing :: else -> e=ENOENT fi
		:: kind==RELEASE -> held_find(); if :: p -> release() :: else -> e=ENOENT fi;
			if :: fd -> unref(fd-1); fd=0 :: else fi
		fi }
answer:	atomic { if :: gone[o] -> goto over :: else -> answer_order() fi }
	:: gone[o] -> break
	od;
zeroing: atomic { if
		:: gone[o] -> goto over
		:: else -> assert(tenant[p-1]==a+1); bytes[p-1]=0; goto answer
		fi };
over:	skip
}

/* The lane ends at any moment, and some time after it the process. Also before it has begun. */
proctype Kill() {
	byte o, i, fd;
	do
	:: atomic { o<DEATHS && o==owner -> ended[o]=1 };
		atomic { gone[o]=1;
			do :: i<NA -> if :: at[o*NA+i] -> unref(at[o*NA+i]-1); at[o*NA+i]=0 :: else fi; i++ :: else -> break od; i=0;
			do :: orders[o]?_,_,_,fd -> if :: fd -> unref(fd-1) :: else fi :: empty(orders[o]) -> break od; fd=0;
			o++ }
	:: o==DEATHS -> break
	od
}

/* ---- the clients ---- */

inline grant_open(a_) {
	atomic { it<ITERS && bstate[a_]==bLIVE && (!has || a==a_) ->
		assert(BY_DESCRIPTOR(a_) || maker[a_]==owner);         /* its memory has not ended */
		a=a_; it++; serial=buffer[a]; grants[a]++;
		if :: !has -> has=1; opened[a]++; if :: BY_DESCRIPTOR(a) -> refs[memory_fd[a]-1]++; fd=memory_fd[a] :: else fi
		   :: else fi }
}
/* BY_DESCRIPTOR: the descriptor came with the GRANT. Otherwise only a living owner's memory can be opened. */
inline open_mapping() {
	if :: mapped[c] -> skip
	   :: !mapped[c] && BY_DESCRIPTOR(a) -> mapped[c]=fd; fd=0
	   :: !mapped[c] && !BY_DESCRIPTOR(a) && !gone[maker[a]] -> mapped[c]=at[maker[a]*NA+a]; assert(mapped[c]); refs[mapped[c]-1]++
	   :: else fi }
inline write() {
	assert(!bytes[mapped[c]-1] || bytes[mapped[c]-1]==serial);             /* nothing of the buffer before */
	bytes[mapped[c]-1]=serial }
inline mapping_closed() {
	if :: mapped[c] -> unref(mapped[c]-1); mapped[c]=0 :: else fi;
	has=0; opened[a]--;
	memory_decide_free(a);
	a=0; serial=0 }

proctype Client(byte c) {
	byte a, fd, it, serial; bit has;
end:	do
	:: if :: grant_open(0)
#if NA>1
	   :: grant_open(1)
#endif
#if NA>2
	   :: grant_open(2)
#endif
	   fi;
		atomic { open_mapping(); if :: mapped[c] -> write() :: else fi };
		if
		:: mapped[c] ->
			atomic { assert(bytes[mapped[c]-1]==serial);           /* and nothing that lands late */
				grants[a]--;
				if :: true -> registry_end_buffer(a); serial=0  /* QUIESCED */
				   :: true -> mapping_closed() fi }
		:: else -> atomic { grants[a]--; mapping_closed() }            /* it asks again */
		fi
	:: atomic { has -> mapping_closed() }
	od
}

init { atomic { run Owner(0); run Kill(); run Client(0);
#if NC>1
	run Client(1);
#endif
	run Broker() } }
