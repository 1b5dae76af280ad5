/* LINK: turbo */
/*
 * bench_nccl_flight.c - what recording an NCCL call costs the thread that makes it, with the watchdog off and on, with
 * its stack and without. Events are not in it (bench_nccl_progress.c).
 */
#include <stdlib.h>

#include "bench.h"
#include "policy/nccl/flight_open.h"
#include "policy/nccl/flight_thread.h"
#include "policy/policy.h"

#define BATCHES 25
#define CALLS 20000
#define GROUP 100
#define DEPTH 30
#define LIMIT 300

static int somewhere; /* its address is the handle */
static void *comm = &somewhere;
static struct flight_call what = {
	.function = FLIGHT_ALL_REDUCE, .count = 1000, .type = 7, .peer = -1, .comm = &somewhere};

/* As a hook body does it. */
__attribute__((noinline)) static void call(const void *frame)
{
	struct flight_ticket ticket;

	what.caller = __builtin_return_address(0);
	what.frame = frame;
	flight_begin(&ticket, &what);
	flight_end(&ticket, 0);
}

static void without_stacks(void)
{
	for (int i = 0; i < CALLS; i++)
		call(NULL);
}

static void calls(void)
{
	for (int i = 0; i < CALLS; i++)
		call(__builtin_frame_address(0));
}

static void groups(void)
{
	for (int i = 0; i < CALLS / GROUP; i++) {
		flight_group_start();
		for (int k = 0; k < GROUP; k++)
			call(__builtin_frame_address(0));
		flight_group_end_begin(&what);
		flight_group_end(0);
	}
}

__attribute__((noinline)) static void below(int depth, void (*body)(void))
{
	volatile int frame = depth;

	if (frame > 0)
		below(frame - 1, body);
	else
		body();
	frame = 0;
}

static void deep(void)
{
	below(DEPTH, calls);
}

/* ns a call: the fastest batch, for what the others took more was not the call's doing. */
static double fastest(void (*body)(void))
{
	double best = 1e18;

	for (int b = 0; b < BATCHES; b++) {
		double since = bench_now_ns();
		body();
		double ns = (bench_now_ns() - since) / CALLS;
		best = ns < best ? ns : best;
	}
	return best;
}

static int line(const char *title, void (*body)(void), double limit)
{
	double ns = fastest(body);

	printf("%-60s %8.1f %8.0f  %s\n", title, ns, limit, ns <= limit ? "PASS" : "MISS");
	return ns > limit;
}

static bool make(void)
{
	const char id[128] = "";
	const struct flight_made how = {
		.id = id, .id_bytes = sizeof(id), .function = FLIGHT_INIT, .rank = 0, .ranks = 2, .colour = -1};
	struct flight_comm *place = flight_comm_making(&how);

	if (place)
		flight_comm_made(place, &comm, 0, &what);
	return place && flight_comm_of(comm);
}

int main(void)
{
	int missed = 0;

	printf("recording an NCCL call, ns, fastest of %d batches\n%-60s %8s %8s\n", BATCHES, "", "", "limit");
	missed += line("watchdog off", calls, 10);
	flight_switch(true);
	if (!make())
		return 1;
	missed += line("recorded, without its stack", without_stacks, LIMIT);
	missed += line("recorded, with its stack", calls, LIMIT);
	missed += line("recorded, with a stack of 30 frames more", deep, LIMIT);
	missed += line("recorded, in a group of 100", groups, LIMIT);
	puts("");
	policies_stop();
	return missed != 0;
}
