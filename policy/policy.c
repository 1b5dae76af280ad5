/* policy.c - the table of policies.def, and the walks over it. */
#include "policy.h"

#define POLICY(symbol) extern const struct policy symbol;
#include "policies.def"
#undef POLICY

const struct policy *const policy_table[] = {
#define POLICY(symbol) &symbol,
#include "policies.def"
#undef POLICY
};

const int policy_count = sizeof(policy_table) / sizeof(policy_table[0]);

/* Calls one member of every policy that has it, in table order. */
#define WALK(member, ...)                             \
	do {                                              \
		for (int i = 0; i < policy_count; i++)        \
			if (policy_table[i]->member)              \
				policy_table[i]->member(__VA_ARGS__); \
	} while (0)

void policies_start(void)
{
	WALK(start);
}

void policies_cuda_ready(void)
{
	WALK(cuda_ready);
}

void policies_context_gone(void *ctx, int device)
{
	WALK(context_gone, ctx, device);
}

void policies_quiet(bool on)
{
	WALK(quiet, on);
}

void policies_fork_child(void)
{
	WALK(fork_child);
}

void policies_stop(void)
{
	WALK(stop);
}
