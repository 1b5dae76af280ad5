/* report_made.c - see report_made.h. */
#include "report_made.h"

#include <stdio.h>
#include <string.h>

#include "judge_world.h"

static struct judge_finding finding;

const struct made_case made_cases[] = {
	{.name = "dead",
	 .line =
		 "nccl: dead: rank 1 (host node-a, pid 1001) was killed by SIGKILL 0.4 s ago; rank 0 waits in all_gather #2 (16.0 KiB) of communicator \"default_pg\" (2 ranks)",
	 .world = "comm A 0 1; A all_reduce 4194304 : d2.4 d2.4; A all_gather 16384 : s2.1 s2.1; P1 dead 0.4",
	 .exit_signal = 9,
	 .dumps = true},
	{.name = "dead",
	 .line =
		 "nccl: dead: rank 1 (host node-a, pid 1001) exited 0.4 s ago; ranks 0 and 2-4 wait in all_gather #2 (16.0 KiB) of communicator \"default_pg\" (6 ranks)",
	 .world =
		 "comm A 0 1 2 3 4 5; A all_reduce 4194304 : d2.4 d2.4 d2.4 d2.4 d2.4 d2.4; A all_gather 16384 : s2.1 - s2.1 s2.1 s2.1 i2.1; P1 dead 0.4",
	 .exit_signal = 0,
	 .dumps = true},
	{.name = "mismatch",
	 .line =
		 "nccl: mismatch: rank 1 (host node-a, pid 1001) called all_gather #2 (4096 float32 = 4.0 KiB) at model.py:31 in forward, rank 0 (pid 1000) all_reduce #2 (16384 float32 = 16.0 KiB, sum) at train.py:88 in Trainer.step, in communicator \"default_pg\" (2 ranks)",
	 .world = "comm A 0 1; A all_reduce 16384 : d2 d2;A all_reduce 16384 : s1 s1=all_gather/4096",
	 .dumps = true},
	{.name = "mismatch",
	 .line =
		 "nccl: mismatch: rank 1 (host node-a, pid 1001) called recv #1 from rank 0 (32768 float32 = 32.0 KiB) at train.py:88 in Trainer.step, rank 0 (pid 1000) send #1 to rank 1 (65536 float32 = 64.0 KiB) at train.py:88 in Trainer.step, in communicator \"default_pg\" (2 ranks)",
	 .world = "comm A 0 1; A send 0>1 65536 : s1 s1=recv/32768"},
	{.name = "cycle",
	 .line =
		 "nccl: cycle: rank 1 (host node-a, pid 1001) waits in all_gather #1 of communicator 00000042 for rank 0 (pid 1000), which waits in all_reduce #1 of \"default_pg\" for pid 1001; it has been so for 5.0 s",
	 .world =
		 "comm A 0 1; comm B 0 1; A all_reduce 64 : s5 -; B all_gather 64 : - s6; P0 wait gpu 5; P1 wait gpu 6",
	 .dumps = true},
	{.name = "stopped",
	 .line =
		 "nccl: stopped: rank 2 (host node-a, pid 1002) has been stopped (SIGSTOP or Ctrl-Z) for 70 s; ranks 0 and 1 wait in all_reduce #1 (64 B) of communicator \"default_pg\" (3 ranks)",
	 .world = "comm A 0 1 2; A all_reduce 64 : s80 s80 -; P2 stopped 70"},
	{.name = "stopped",
	 .line =
		 "nccl: stopped: rank 2 (host node-a, pid 1002) has used no CPU time and done no I/O for 75 s; ranks 0 and 1 wait in all_reduce #1 (64 B) of communicator \"default_pg\" (3 ranks)",
	 .world = "comm A 0 1 2; A all_reduce 64 : s80 s80 -; P2 idle 75",
	 .dumps = true},
	{.name = "timeout",
	 .line =
		 "nccl: timeout: rank 2 (host node-a, pid 1002) has not called all_reduce #1 (64 B) of communicator \"default_pg\" (3 ranks); others have waited for 80 s (TURBO_NCCL_TIMEOUT_S=30)",
	 .world = "comm A 0 1 2; A all_reduce 64 : s80 s80 -"},
	{.name = "timeout",
	 .line =
		 "nccl: timeout: rank 0 (host node-a, pid 1000) called all_reduce #1 (64 B) of communicator \"default_pg\" (1 rank), but its GPU has not begun it after 50 s (TURBO_NCCL_TIMEOUT_S=30)",
	 .world = "comm A 0; A all_reduce 64 : i50; P0 wait gpu 50"},
	{.name = "timeout",
	 .line =
		 "nccl: timeout: all_reduce #1 (1.0 GiB) of communicator \"default_pg\" (2 ranks) has begun on all ranks, but is not done after 100 s (TURBO_NCCL_TIMEOUT_S=30)",
	 .world = "comm A 0 1; A all_reduce 1073741824 : s100 s100"},
	{.name = "transport",
	 .line =
		 "nccl: transport: all_reduce #1 (1.0 MiB) of communicator \"default_pg\" (2 ranks) has begun on the GPUs of all ranks, and none completes for 17 s; rank 0 (host node-a, pid 1000) is one of them",
	 .world = "comm A 0 1; A all_reduce 1048576 : s20 s17"},
	{.name = "held",
	 .line =
		 "nccl: held: rank 1 (host node-a, pid 1001) called all_reduce #1 (1.0 MiB) of communicator \"default_pg\" (2 ranks), but other work on its GPU holds it up; rank 0 waits for 40 s",
	 .world = "comm A 0 1; A all_reduce 1048576 : s40 i40"},
	{.name = "laggard",
	 .line =
		 "nccl: laggard: rank 2 (host node-a, pid 1002) has not called all_reduce #1 (1.0 MiB) of communicator \"default_pg\" (3 ranks): it computes; ranks 0 and 1 wait for 45 s",
	 .world = "comm A 0 1 2; A all_reduce 1048576 : s45 s40 -",
	 .dumps = true},
	{.name = "laggard",
	 .line =
		 "nccl: laggard: rank 2 (host node-a, pid 1002) and 1 other have not called all_reduce #1 (1.0 MiB) of communicator \"default_pg\" (4 ranks); ranks 0 and 1 wait for 45 s",
	 .world = "comm A 0 1 2 3; A all_reduce 1048576 : s45 s40 - -; P2 child; P3 disk 10"},
	{.name = "laggard",
	 .line =
		 "nccl: laggard: 6 ranks that are not here (on another machine, or ended) have not called all_reduce #1 (1.0 MiB) of communicator \"default_pg\" (8 ranks); ranks 0 and 1 wait for 45 s",
	 .world = "comm A 0 1 of 8; A all_reduce 1048576 : s45 s40"},
	{.name = NULL},
};

struct judge_finding *made_finding(void)
{
	return &finding;
}

static uint32_t add_site(struct flight_page *page, uint32_t at, const char *text)
{
	strcpy(page->sites + at, text);
	return at + 1;
}

static void add_stacks(unsigned i, bool dump)
{
	static const char *const site[] = {
		"  python /usr/lib/python3/site-packages/torch/distributed/distributed_c10d.py:2501 all_reduce\n"
		"  python /home/u/train/train.py:88 Trainer.step\n  python /home/u/train/train.py:140 <module>\n"
		"  native ncclAllReduce\n  native c10d::ProcessGroupNCCL::allreduce(std::vector<at::Tensor>&)\n",
		"  python /usr/lib/python3/site-packages/torch/distributed/distributed_c10d.py:3001 all_gather\n"
		"  python /home/u/train/model.py:31 forward\n  python /home/u/train/train.py:139 <module>\n"
		"  native ncclAllGather\n"};
	struct flight_page *page = world_page(i);
	uint32_t a = add_site(page, 16, site[0]), b = add_site(page, 1000, site[1]);

	for (unsigned m = 0; m < JUDGE_MEMBERS; m++)
		for (unsigned k = 0; world_member(m)->process == i && k < FLIGHT_OPS; k++)
			world_ops(m)[k].site = world_ops(m)[k].function == FLIGHT_ALL_GATHER ? b : a;
	memset(&page->dump, 0, offsetof(struct flight_dump, text));
	if (!dump)
		return;
	page->dump.version = 2;
	page->dump.made = WORLD_NOW + 300000000;
	page->dump.bytes = (uint32_t)snprintf(
		page->dump.text, sizeof(page->dump.text),
		"thread %u python\n  python /home/u/train/data.py:12 Loader.__next__\n  python /home/u/train/train.py:70 <module>\n"
		"  native __poll\n  native take_gil\nthread 77 pt_nccl_watchdg\n  note it does not answer\n",
		page->pid);
}

void made_report(struct report *r, const struct made_case *c)
{
	static struct judge_limits limits;
	const struct judge_world *w = world_of(c->world);

	limits = judge_limits_default;
	limits.user = strcmp(c->name, "timeout") ? 0 : 30000000000u;
	for (unsigned i = 0; i < w->processes; i++) {
		struct flight_page *page = world_page(i);
		snprintf(page->host, sizeof(page->host), "node-a");
		snprintf(page->command, sizeof(page->command), "python train.py --lr 3e-4");
		world_process(i)->exit_signal = c->exit_signal;
		add_stacks(i, c->dumps && world_process(i)->life != LIFE_DEAD);
	}
	for (unsigned m = 0; m < w->members; m++)
		world_member(m)->name = world_member(m)->key[0] == 'A' ? "default_pg" : "";
	judge_look(w, &limits, &finding);
	*r = (struct report){
		.world = w, .finding = &finding, .real = 1796076824000000000u, .timeout = limits.user};
}
