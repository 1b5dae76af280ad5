/*
 * hooks.c - the table of hooked symbols, and looking one up by name.
 *
 * No header of a provider is included here: the table only needs the addresses of our own
 * definitions, so each is declared under a name of ours with the symbol as assembler name.
 */
#include "hooks.h"

#include <stddef.h>

#include "guard.h"
#include "real.h"
#include "stats.h"
#include "stub_offsets.h"
#include "text.h"

_Static_assert(offsetof(struct stats_area, lanes) == STUB_LANES_OFF, "STUB_LANES_OFF");
_Static_assert(offsetof(struct turbo_tls, lane) == STUB_TLS_LANE, "STUB_TLS_LANE");
_Static_assert(sizeof(real_fn[0]) == 8, "a slot is 8 bytes");

#define HOOK_ROW_HOOK(sym, lib, taker) extern void hook_body_##sym(void) __asm__(#sym);
#define HOOK_ROW_COUNT(sym, lib, taker) extern void hook_body_##sym(void) __asm__(#sym);
#define HOOK_ROW_PASS(sym, lib, taker)
#include "hook_table.inc"
#undef HOOK_ROW_HOOK
#undef HOOK_ROW_COUNT
#undef HOOK_ROW_PASS

/* Linked with -Bsymbolic-functions: the addresses are ours, whoever else exports the name. */
const struct hook_row hook_table[HOOK_COUNT] = {
#define HOOK_ROW_HOOK(sym, lib, taker) \
	[HOOK_##sym] = {#sym, (void *)hook_body_##sym, HOOK_LIB_##lib, HOOK_HOW_HOOK, taker},
#define HOOK_ROW_COUNT(sym, lib, taker) \
	[HOOK_##sym] = {#sym, (void *)hook_body_##sym, HOOK_LIB_##lib, HOOK_HOW_COUNT, taker},
#define HOOK_ROW_PASS(sym, lib, taker) [HOOK_##sym] = {#sym, NULL, HOOK_LIB_##lib, HOOK_HOW_PASS, taker},
#include "hook_table.inc"
};

/*
 * Every dlsym of the program asks here, mostly for names that are nobody's: cu..., Cu...,
 * nccl... and pnccl... are searched for, anything else is turned away by its first bytes.
 */
static bool may_be_known(const char *name)
{
	if (name[0] == 'c' || name[0] == 'C')
		return name[1] == 'u';
	if (name[0] == 'p')
		name++;
	return text_begins(name, "nccl");
}

const struct hook_row *hook_find(const char *name)
{
	if (!name || !may_be_known(name))
		return NULL;
	size_t low = 0, high = HOOK_COUNT;
	while (low < high) {
		size_t middle = low + (high - low) / 2;
		int order = text_order(name, hook_table[middle].name);
		if (order == 0)
			return &hook_table[middle];
		if (order < 0)
			high = middle;
		else
			low = middle + 1;
	}
	return NULL;
}
