/*
 * pickle.c - the pickle machine: opcodes over a stack, marks and a memo.
 *
 * Opcodes as in Python's Lib/pickletools.py.
 */
#include "pickle_stack.h"

#include <string.h>

/* ---- values ---- */

static bool push_value(struct pickle *p, struct pickle_value v)
{
	pickle_ref ref = 0;
	return pickle_make(p, v, &ref) && pickle_push(p, ref);
}

static bool push_int(struct pickle *p, int64_t n)
{
	return push_value(p, (struct pickle_value){.type = PICKLE_INT, .integer = n});
}

static bool push_bool(struct pickle *p, bool b)
{
	return push_value(p, (struct pickle_value){.type = PICKLE_BOOL, .integer = b});
}

static bool push_empty(struct pickle *p, enum pickle_type type)
{
	return push_value(p, (struct pickle_value){.type = (uint8_t)type});
}

static bool push_unsigned(struct pickle *p, unsigned bytes)
{
	uint64_t n;
	return pickle_take_number(p, bytes, &n) && push_int(p, (int64_t)n);
}

/* Two's complement of any length. */
static bool push_long(struct pickle *p, unsigned length_bytes)
{
	uint64_t n, value = 0;
	if (!pickle_take_number(p, length_bytes, &n))
		return false;
	const unsigned char *b = pickle_take(p, n);
	if (!b)
		return false;
	if (n > 8)
		return push_empty(p, PICKLE_BIG);
	for (unsigned i = 0; i < 8; i++)
		value |= (uint64_t)(i < n ? b[i] : n && b[n - 1] & 0x80 ? 0xff : 0) << 8 * i;
	return push_int(p, (int64_t)value);
}

static bool push_float(struct pickle *p)
{
	const unsigned char *b = pickle_take(p, 8);
	uint64_t bits = 0;
	struct pickle_value v = {.type = PICKLE_FLOAT};
	for (unsigned i = 0; b && i < 8; i++)
		bits = bits << 8 | b[i];
	memcpy(&v.real, &bits, sizeof(v.real));
	return b && push_value(p, v);
}

static bool push_text(struct pickle *p, enum pickle_type type, unsigned length_bytes)
{
	struct pickle_value v = {.type = (uint8_t)type};
	uint64_t n;
	if (!pickle_take_number(p, length_bytes, &n) || !(v.text = (const char *)pickle_take(p, n)))
		return false;
	v.count = (size_t)n;
	return push_value(p, v);
}

/* ---- containers ---- */

/* A container of the n topmost values, which it takes from the stack. */
static bool gather(struct pickle *p, enum pickle_type type, size_t n)
{
	pickle_ref ref = 0;
	if (!pickle_make(p, (struct pickle_value){.type = (uint8_t)type}, &ref) ||
		(n && !pickle_add_items(p, ref, p->stack + p->stacked - n, n)))
		return false;
	p->stacked -= n;
	return pickle_push(p, ref);
}

static bool gather_tuple(struct pickle *p, size_t n)
{
	return pickle_needs(p, n) && gather(p, PICKLE_TUPLE, n);
}

static bool gather_marked(struct pickle *p, enum pickle_type type)
{
	size_t n = 0;
	if (!pickle_take_mark(p, &n))
		return false;
	if (type == PICKLE_DICT && n % 2)
		return pickle_fail(p, p->at - 1, "a key without a value");
	return gather(p, type, n);
}

/* Adds the n topmost values to the container of that type below them. */
static bool add(struct pickle *p, enum pickle_type type, size_t n)
{
	if (!pickle_needs(p, n + 1))
		return false;
	pickle_ref to = p->stack[p->stacked - n - 1];
	if (p->value[to].type != type)
		return pickle_fail(p, p->at - 1, "items for something that is no container of theirs");
	if (type == PICKLE_DICT && n % 2)
		return pickle_fail(p, p->at - 1, "a key without a value");
	if (!pickle_add_items(p, to, p->stack + p->stacked - n, n))
		return false;
	p->stacked -= n;
	return true;
}

static bool add_marked(struct pickle *p, enum pickle_type type)
{
	size_t n = 0;
	return pickle_take_mark(p, &n) && add(p, type, n);
}

/* ---- the memo ---- */

static bool remember(struct pickle *p, uint64_t index)
{
	if (!pickle_needs(p, 1))
		return false;
	/* Writers count up from 0, two bytes at least for each. */
	if (index > p->at)
		return pickle_fail(p, p->at, "memo index %llu is too large", (unsigned long long)index);
	while (p->memos <= index) {
		if (!pickle_reserve((void **)&p->memo, p->memos, &p->memo_room, sizeof(*p->memo)))
			return pickle_no_memory(p);
		p->memo[p->memos++] = UINT32_MAX;
	}
	p->memo[index] = p->stack[p->stacked - 1];
	return true;
}

static bool recall(struct pickle *p, uint64_t index)
{
	if (index >= p->memos || p->memo[index] == UINT32_MAX)
		return pickle_fail(p, p->at, "memo index %llu was never set", (unsigned long long)index);
	return pickle_push(p, p->memo[index]);
}

static bool memo_numbered(struct pickle *p, unsigned bytes, bool (*what)(struct pickle *, uint64_t))
{
	uint64_t index;
	return pickle_take_number(p, bytes, &index) && what(p, index);
}

/* ---- opcodes ---- */

enum done { NOT_MINE, DONE, FAILED };

#define DO(x) return (x) ? DONE : FAILED

static enum done scalar(struct pickle *p, unsigned char op)
{
	uint64_t n;
	switch (op) {
	case 'N': DO(push_empty(p, PICKLE_NONE));
	case 0x88: DO(push_bool(p, true));
	case 0x89: DO(push_bool(p, false));
	case 'J': DO(pickle_take_number(p, 4, &n) && push_int(p, (int32_t)(uint32_t)n));
	case 'K': DO(push_unsigned(p, 1));
	case 'M': DO(push_unsigned(p, 2));
	case 0x8a: DO(push_long(p, 1));
	case 0x8b: DO(push_long(p, 4));
	case 'G': DO(push_float(p));
	case 0x8c: DO(push_text(p, PICKLE_TEXT, 1));
	case 'X': DO(push_text(p, PICKLE_TEXT, 4));
	case 0x8d: DO(push_text(p, PICKLE_TEXT, 8));
	case 'U': DO(push_text(p, PICKLE_TEXT, 1)); /* Python 2 */
	case 'T': DO(push_text(p, PICKLE_TEXT, 4));
	case 'C': DO(push_text(p, PICKLE_BYTES, 1));
	case 'B': DO(push_text(p, PICKLE_BYTES, 4));
	case 0x8e: DO(push_text(p, PICKLE_BYTES, 8));
	case 0x96: DO(push_text(p, PICKLE_BYTES, 8));
	default: return NOT_MINE;
	}
}

static enum done container(struct pickle *p, unsigned char op)
{
	switch (op) {
	case ']': DO(push_empty(p, PICKLE_LIST));
	case ')': DO(push_empty(p, PICKLE_TUPLE));
	case '}': DO(push_empty(p, PICKLE_DICT));
	case 0x8f: DO(push_empty(p, PICKLE_SET));
	case 'l': DO(gather_marked(p, PICKLE_LIST));
	case 't': DO(gather_marked(p, PICKLE_TUPLE));
	case 'd': DO(gather_marked(p, PICKLE_DICT));
	case 0x91: DO(gather_marked(p, PICKLE_SET));
	case 0x85: DO(gather_tuple(p, 1));
	case 0x86: DO(gather_tuple(p, 2));
	case 0x87: DO(gather_tuple(p, 3));
	case 'a': DO(add(p, PICKLE_LIST, 1));
	case 's': DO(add(p, PICKLE_DICT, 2));
	case 'e': DO(add_marked(p, PICKLE_LIST));
	case 'u': DO(add_marked(p, PICKLE_DICT));
	case 0x90: DO(add_marked(p, PICKLE_SET));
	default: return NOT_MINE;
	}
}

static bool pop(struct pickle *p)
{
	if (!pickle_above_mark(p) && p->marks) {
		p->marks--;
		return true;
	}
	if (!pickle_needs(p, 1))
		return false;
	p->stacked--;
	return true;
}

static bool pop_marked(struct pickle *p)
{
	size_t n = 0;
	if (!pickle_take_mark(p, &n))
		return false;
	p->stacked -= n;
	return true;
}

static bool frame(struct pickle *p)
{
	uint64_t n;
	if (!pickle_take_number(p, 8, &n))
		return false;
	return n <= p->size - p->at || pickle_fail(p, p->at, "the file ends in the middle of a frame");
}

static enum done machine(struct pickle *p, unsigned char op)
{
	switch (op) {
	case '(': DO(pickle_put_mark(p));
	case '0': DO(pop(p));
	case '1': DO(pop_marked(p));
	case '2': DO(pickle_needs(p, 1) && pickle_push(p, p->stack[p->stacked - 1]));
	case 'q': DO(memo_numbered(p, 1, remember));
	case 'r': DO(memo_numbered(p, 4, remember));
	case 0x94: DO(remember(p, p->memos));
	case 'h': DO(memo_numbered(p, 1, recall));
	case 'j': DO(memo_numbered(p, 4, recall));
	case 0x95: DO(frame(p));
	default: return NOT_MINE;
	}
}

static const char *name_of(unsigned char op)
{
	static const struct {
		unsigned char op;
		const char *name;
	} live[] = {
		{'c', "GLOBAL"},    {0x93, "STACK_GLOBAL"}, {'R', "REDUCE"},
		{'b', "BUILD"},     {0x81, "NEWOBJ"},       {0x92, "NEWOBJ_EX"},
		{'i', "INST"},      {'o', "OBJ"},           {'P', "PERSID"},
		{'Q', "BINPERSID"}, {0x82, "EXT1"},         {0x83, "EXT2"},
		{0x84, "EXT4"},     {0x97, "NEXT_BUFFER"},  {0x98, "READONLY_BUFFER"},
	};
	for (size_t i = 0; i < sizeof(live) / sizeof(live[0]); i++)
		if (live[i].op == op)
			return live[i].name;
	return NULL;
}

static bool step(struct pickle *p, unsigned char op)
{
	enum done done = scalar(p, op);
	if (done == NOT_MINE)
		done = container(p, op);
	if (done == NOT_MINE)
		done = machine(p, op);
	if (done != NOT_MINE)
		return done == DONE;
	const char *name = name_of(op);
	if (name)
		return pickle_fail(p, p->at - 1, "opcode %s makes a Python object: only plain data is read", name);
	return pickle_fail(p, p->at - 1, "unknown opcode 0x%02x", op);
}

bool pickle_load(struct pickle *p, const void *data, size_t size, pickle_ref *root)
{
	const unsigned char *b;
	*p = (struct pickle){.data = data, .size = size};
	if (size < 2 || p->data[0] != 0x80)
		return pickle_fail(p, 0, "not a pickle of protocol 2 or later");
	if (p->data[1] < 2 || p->data[1] > 5)
		return pickle_fail(p, 1, "pickle protocol %u is not known", p->data[1]);
	p->at = 2;
	while ((b = pickle_take(p, 1))) {
		if (*b == '.')
			break;
		if (!step(p, *b))
			return false;
	}
	if (!b)
		return false;
	if (p->marks || p->stacked != 1)
		return pickle_fail(p, p->at - 1, "%zu values at the end, not one", p->stacked);
	if (p->at != p->size)
		return pickle_fail(p, p->at, "there is something behind the end");
	*root = p->stack[0];
	return true;
}
