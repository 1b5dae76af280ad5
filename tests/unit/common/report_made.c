/* report_made.c - see report_made.h. */
#include "report_made.h"

#include <stdio.h>
#include <string.h>

#include "judge_world.h"

static struct judge_finding finding;

const struct made_case made_cases[] = {
	{.name = "dead", .world = "comm A 0 1; A all_reduce 4194304 : d2.4 d2.4; A all_gather 16384 : s2.1 s2.1; P1 dead 0.4", .exit_signal = 9, .dumps = true},
	{.name = "dead", .world = "comm A 0 1 2 3 4 5; A all_reduce 4194304 : d2.4 d2.4 d2.4 d2.4 d2.4 d2.4; A all_gather 16384 : s2.1 - s2.1 s2.1 s2.1 i2.1; P1 dead 0.4", .exit_signal = 0, .dumps = true},
	{.name = "mismatch", .world = "comm A 0 1; A all_reduce 16384 : d2 d2;A all_reduce 16384 : s1 s1=all_gather/4096", .dumps = true},
	{.name = "mismatch", .world = "comm A 0 1; A send 0>1 65536 : s1 s1=recv/32768"},
	{.name = "cycle", .world = "comm A 0 1; comm B 0 1; A all_reduce 64 : s5 -; B all_gather 64 : - s6; P0 wait gpu 5; P1 wait gpu 6", .dumps = true},
	{.name = "stopped", .world = "comm A 0 1 2; A all_reduce 64 : s80 s80 -; P2 stopped 70"},
	{.name = "stopped", .world = "comm A 0 1 2; A all_reduce 64 : s80 s80 -; P2 idle 75", .dumps = true},
	{.name = "timeout", .world = "comm A 0 1 2; A all_reduce 64 : s80 s80 -"},
	{.name = "timeout", .world = "comm A 0; A all_reduce 64 : i50; P0 wait gpu 50"},
	{.name = "timeout", .world = "comm A 0 1; A all_reduce 1073741824 : s100 s100"},
	{.name = "transport", .world = "comm A 0 1; A all_reduce 1048576 : s20 s17"},
	{.name = "held", .world = "comm A 0 1; A all_reduce 1048576 : s40 i40"},
	{.name = "laggard", .world = "comm A 0 1 2; A all_reduce 1048576 : s45 s40 -", .dumps = true},
	{.name = "laggard", .world = "comm A 0 1 2 3; A all_reduce 1048576 : s45 s40 - -; P2 child; P3 disk 10"},
	{.name = "laggard", .world = "comm A 0 1 of 8; A all_reduce 1048576 : s45 s40"},
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
	*r = (struct report){.world = w, .finding = &finding, .real = 1796076824000000000u, .timeout = limits.user};
}
