/*
 * agree.pml - policy/nccl/agree.c and the caller that agree.h asks for, as a model for spin.
 *
 * N ranks make K operations each. Any rank may at any point queue an operation, cut before it, launch it alone, drain, or
 * leave. The names are the code's; README.md says which line is which. Each read and write of shared memory is a step.
 *
 * What must hold, whatever the interleaving: the ranks' launches are the same, one by one; a group holds only what its rank has
 * queued, and nothing that its rank wanted apart; nobody waits for another rank, and what was queued goes out.
 *
 * -DN=2 -DK=4 -DSLOTS=8     ranks, operations, slots of the ring
 * -DCRASH=1                 so many ranks may die, at any step
 * -DCUTS -DALONE -DLEAVE    the program may do that; -DMESSAGES: ranks also wait for each other's host messages
 * -DBAD_...                 one rule broken: spin must find a counterexample
 */
#ifndef N
#define N 2
#endif
#ifndef K
#define K 4
#endif
#ifndef SLOTS
#define SLOTS 8
#endif
#ifndef CRASH
#define CRASH 0
#endif

/* Shared: struct agree_area. */
byte safe[N], used[N];
byte tag[SLOTS], length[SLOTS]; /* one word in the code: both change in one step */
bool joined[N];

/* Of each rank, under its lock: struct agree, and the caller's queue. */
byte queued[N], launched[N], next_slot[N];
bool left[N], locked[N], dead[N];
bool apart[N * (K + 1)], single[N * (K + 1)]; /* this rank's operation must begin its group, be it */
byte crashes;

/* What the devices see: the end of each launch. */
byte launches[N];
byte end[N * (K + 1)];
bool told[N]; /* MESSAGES: the rank has launched its first operation and said so */

#define SLOT (next_slot[r] % SLOTS)
#define COMMITTED (tag[SLOT] == next_slot[r] + 1)
#if defined(BAD_UNLOGGED) || defined(BAD_COMMITTED_ALONE)
#define SEEN false /* they do not look there first */
#else
#define SEEN COMMITTED
#endif
inline lock() { atomic { !locked[r] -> locked[r] = 1 } }
inline unlock() { locked[r] = 0 }

/* A launch of `n` operations: on no rank may it differ from the others' of the same number. */
inline launch(n)
{
	d_step {
		e = launched[r] + n;
		assert(e <= queued[r]);
		assert(n == 1 || !single[r * (K + 1) + launched[r] + 1]);
		i = launched[r] + 2;
		do
		:: i <= e -> assert(!apart[r * (K + 1) + i] && !single[r * (K + 1) + i]); i++
		:: else -> break
		od;
		end[r * (K + 1) + launches[r]] = e;
		i = 0;
		do
		:: i < N ->
			assert(launches[i] <= launches[r] || end[i * (K + 1) + launches[r]] == e);
			i++
		:: else -> break
		od;
		launches[r]++;
		launched[r] = e;
		told[r] = 1;
		i = 0; e = 0
	}
}

/* least_safe(): one rank after another, so it may be old by the time it is used. */
inline least_safe()
{
	least = 255;
	do
	:: i < N ->
		d_step {
			if
#ifdef BAD_JOINED_ONLY
			:: joined[i] && safe[i] < least -> least = safe[i]
#else
			:: safe[i] < least -> least = safe[i]
#endif
			:: else
			fi;
			i++
		}
	:: else -> i = 0; break
	od;
	skip
}

/* propose() */
inline propose()
{
	if
	:: queued[r] == launched[r] + 1 -> mine = 1
	:: else ->
		least_safe();
#ifdef BAD_WAIT
		safe[N - 1 - r] >= queued[r];
		least = queued[r];
#endif
#ifdef BAD_BEYOND
		least = queued[r];
#endif
		d_step {
			if
			:: least > queued[r] -> least = queued[r]
			:: else
			fi;
			if
			:: least > launched[r] + 1 -> mine = least - launched[r]
			:: else -> mine = 1
			fi;
			least = 0
		}
	fi
}

/* agree_step() and the launch. What is seen in the slot at first stays so; what is not may come until the compare-and-swap. */
inline step()
{
	if
	:: left[r] -> launch(1)
	:: else ->
		if
		:: SEEN -> mine = length[SLOT]
		:: else -> propose()
		fi;
		beside = 0;
#ifdef BAD_UNLOGGED
		beside = (mine == 1);
#endif
#ifdef BAD_COMMITTED_ALONE
		beside = (mine == 1 && COMMITTED);
		next_slot[r] = next_slot[r] + beside;
#endif
		if
		:: beside -> launch(1)
		:: else ->
			decide();
			launch(mine);
			d_step { next_slot[r]++; used[r] = next_slot[r] }
		fi;
		d_step { mine = 0; beside = 0 }
	fi
}

/* decide(): the group of whoever is first. */
inline decide()
{
#ifdef BAD_STORE
	beside = COMMITTED;
	d_step {
		if
		:: beside -> mine = length[SLOT]
		:: else -> tag[SLOT] = next_slot[r] + 1; length[SLOT] = mine
		fi
	}
#else
#ifdef BAD_TWO_STORES
	d_step {
		if
		:: COMMITTED -> beside = 1
		:: else -> tag[SLOT] = next_slot[r] + 1; length[SLOT] = 0
		fi
	};
	if
	:: beside -> length[SLOT] != 0 -> mine = length[SLOT]
	:: else -> length[SLOT] = mine
	fi
#else
	d_step {
		if
		:: COMMITTED -> mine = length[SLOT]
		:: else -> tag[SLOT] = next_slot[r] + 1; length[SLOT] = mine
		fi
	}
#endif
#endif
}

inline drain()
{
	do
	:: launched[r] < queued[r] -> step()
	:: else -> break
	od
}

/* has_room() */
inline look_for_room()
{
	least = 255;
	do
	:: i < N ->
		d_step {
			if
			:: used[i] < least -> least = used[i]
			:: else
			fi;
			i++
		}
	:: else -> i = 0; break
	od;
	skip;
#ifdef BAD_FULL_WAITS
	used[N - 1 - r] + SLOTS > next_slot[r] + (queued[r] - launched[r]);
	least = 255;
#endif
#ifdef BAD_OVERWRITE
	least = 255;
#endif
	d_step { room = (next_slot[r] + (queued[r] - launched[r]) < least + SLOTS); least = 0 }
}

/* agree_queue(), and what its caller does when it says no. */
inline queue()
{
	look_for_room();
	if
	:: left[r] || !room ->
#ifndef BAD_LEAVE_PENDING
		drain();
#endif
		left[r] = 1;
		queued[r]++;
		drain()
	:: else ->
		queued[r]++;
		safe[r] = queued[r]
	fi;
	room = 0
}

/*
 * A rank is a sequence of pieces of work under its lock, whoever of its threads does them: its program queues, and at any point
 * the program or the helper takes a step. What a drain does is steps.
 */
#ifdef MESSAGES
/* The host of the last rank makes its second operation when the first rank has launched something, and says so. */
#define MAY_QUEUE (queued[r] < K && (r != N - 1 || queued[r] != 1 || told[0] || dead[0]))
#else
#define MAY_QUEUE (queued[r] < K)
#endif

#ifdef BAD_NO_HELPER
#define MAY_STEP (launched[r] < queued[r] && queued[r] < K)
#define MAY_END (queued[r] == K)
#else
#ifdef BAD_FOLLOWER
#define MAY_STEP (launched[r] < queued[r] && COMMITTED)
#else
#define MAY_STEP (launched[r] < queued[r])
#endif
#define MAY_END (queued[r] == K && launched[r] == K)
#endif

proctype rank(byte r)
{
	byte i, e, least, mine;
	bool room, beside;
#ifdef BAD_LATE_ZERO
	/* One that comes late clears the log. */
	if
	:: r == N - 1 ->
		do
		:: i < SLOTS -> d_step { tag[i] = 0; length[i] = 0; i++ }
		:: else -> i = 0; break
		od
	:: else
	fi;
#endif
	joined[r] = 1;
	{
		do
		:: MAY_QUEUE ->
			lock();
			if
			:: queue()
#ifdef CUTS
			:: skip ->
#ifdef BAD_PUBLISH_FIRST
				apart[r * (K + 1) + queued[r] + 1] = 1;
				queue();
				drain()
#else
				drain();
				apart[r * (K + 1) + queued[r] + 1] = 1;
				queue()
#endif
#endif
#ifdef ALONE
			:: skip ->
				drain();
				single[r * (K + 1) + queued[r] + 1] = 1;
				queue();
#ifndef BAD_ALONE_STAYS
				drain()
#endif
#endif
#ifdef LEAVE
			:: !left[r] ->
#ifndef BAD_LEAVE_PENDING
				drain();
#endif
				left[r] = 1
#endif
#ifdef BAD_UNCOUNTED
			/* One rank launches it beside the log, and the others count it. */
			:: r == 0 -> drain(); queued[r]++; launch(1)
#endif
			fi;
			unlock()
		:: MAY_STEP ->
			lock();
			step();
			unlock()
		:: MAY_END -> break
		od
	} unless { dead[r] }
}

#ifdef BAD_NO_MUTEX
/* A second thread of a rank, which takes no lock. */
proctype another(byte r)
{
	byte i, e, least, mine;
	bool beside;
	{
		do
		:: MAY_STEP -> step()
		:: MAY_END -> break
		od
	} unless { dead[r] }
}
#endif

#if CRASH
proctype reaper()
{
	byte r;
	do
	:: crashes < CRASH ->
		select(r : 0 .. N - 1);
		dead[r] = 1;
		crashes++
	:: break
	od
}
#endif

init
{
	byte r;
	atomic {
		do
		:: r < N -> run rank(r); r++
		:: else -> r = 0; break
		od;
#if CRASH
		run reaper();
#endif
#ifdef BAD_NO_MUTEX
		run another(0);
#endif
		skip
	};
	_nr_pr == 1;
	/* Nobody waits, nothing is lost. */
	do
	:: r < N -> assert(dead[r] || launched[r] == K); r++
	:: else -> break
	od
}
