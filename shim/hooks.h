/*
 * hooks.h - the one table of calls that reach us.
 *
 * shim/hooks.def has one row a function; shim/hooks.awk expands it into
 * build/gen/ (hook_ids.h, hook_table.inc, hook_stubs.S, exports.map).
 * A row says how a symbol is treated:
 *
 *   hook   a C body in shim/ with the symbol's own name takes the call
 *   count  a generated stub counts the call and jumps to the real function,
 *          arguments untouched, so no prototype is needed
 *   pass   listed so that the table accounts for the whole header; neither
 *          exported nor replaced
 */
#ifndef TURBO_HOOKS_H
#define TURBO_HOOKS_H

#include <stddef.h>
#include <stdint.h>

#include "hook_ids.h" /* generated: enum hook_id, HOOK_COUNT */

#define TURBO_EXPORT __attribute__((visibility("default")))

enum hook_lib { HOOK_LIB_CUDA, HOOK_LIB_NCCL, HOOK_LIB_CUPTI, HOOK_LIB_COUNT };
enum hook_how { HOOK_HOW_HOOK, HOOK_HOW_COUNT, HOOK_HOW_PASS };

/* One exported symbol of a provider. The table is sorted by name (strcmp). */
struct hook_row {
	const char *name;  /* exact symbol, ABI suffix included */
	void *ours;        /* our body or stub; NULL for pass */
	uint8_t lib;       /* enum hook_lib */
	uint8_t how;       /* enum hook_how */
	const char *taker; /* policy that takes it, or "-" */
};

/* Indexed by enum hook_id; ids are assigned in name order. */
extern const struct hook_row hook_table[HOOK_COUNT];

/* Row of an exact name, or NULL. Any thread; no locks, no allocation. */
const struct hook_row *hook_find(const char *name);

static inline enum hook_id hook_id_of(const struct hook_row *row)
{
	return (enum hook_id)(row - hook_table);
}

#endif
