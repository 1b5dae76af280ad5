/*
 * kernel_fit.c - a kernel's name in a column: what tells it apart remains. That is the functor among its template
 * arguments, not the name that it shares with a hundred others, nor what holds the pointers.
 */
#include <string.h>

#include "text.h"

#define FIT_MAX 512
#define NAME_LEAST 12  /* columns of the name before its arguments */
#define NAME_ENOUGH 20 /* … with which it is not worth dropping types */

/* Which arguments say little: switches and what holds the pointers; … and numbers; … and plain types. */
enum { DROP_HOLDERS, DROP_NUMBERS, DROP_TYPES };

struct fit {
	char text[FIT_MAX];
	size_t used, name; /* name: how much of it is the name before the arguments */
	int drop;
};

static void put(struct fit *f, const char *s, size_t n)
{
	if (n > sizeof(f->text) - 1 - f->used)
		n = sizeof(f->text) - 1 - f->used;
	memcpy(f->text + f->used, s, n);
	f->used += n;
	f->text[f->used] = '\0';
}

/* One of a list of words, up to its end or its own arguments. */
static bool among(const char *s, const char *end, const char *const *words)
{
	const char *open = memchr(s, '<', (size_t)(end - s));
	size_t n = (size_t)((open ? open : end) - s);
	for (; *words; words++)
		if (strlen(*words) == n && !memcmp(*words, s, n))
			return true;
	return false;
}

static bool says_little(const char *s, const char *end, int drop)
{
	static const char *const holders[] = {"true",
										  "false",
										  "...",
										  "array",
										  "OffsetCalculator",
										  "TrivialOffsetCalculator",
										  "LoadWithoutCast",
										  "StoreWithoutCast",
										  "LoadWithCast",
										  "StoreWithCast",
										  "TensorListMetadata",
										  "TensorListScalarListMetadata",
										  "FusedOptimizerTensorListMetadata",
										  NULL};
	static const char *const types[] = {"float",         "double",        "half",       "Half",
										"__half",        "BFloat16",      "bfloat16_t", "half_t",
										"__nv_bfloat16", "bool",          "char",       "signed char",
										"unsigned char", "short",         "int",        "unsigned int",
										"long",          "unsigned long", "complex",    NULL};
	if (s == end || among(s, end, holders))
		return true;
	if (drop >= DROP_NUMBERS && strchr("-0123456789", *s))
		return true;
	while (end > s && strchr("*& ", end[-1])) /* "float const*" */
		end--;
	if (end - s > 6 && !memcmp(end - 6, " const", 6))
		end -= 6;
	return drop == DROP_TYPES && among(s, end, types);
}

/* Where the argument that begins at `s` ends. */
static const char *argument_end(const char *s, const char *end)
{
	int depth = 0;
	for (; s < end && !(depth == 0 && *s == ','); s++)
		depth += *s == '<' || *s == '(' || *s == '{' ? 1 : *s == '>' || *s == ')' || *s == '}' ? -1 : 0;
	return s;
}

static void simplify(struct fit *f, const char *s, const char *end, int level)
{
	/* They only hold what is done. */
	static const char *const wrappers[] = {"gpu_kernel_impl", "gpu_kernel_impl_nocast", "ReduceOp",
										   "func_wrapper_t", NULL};
	const char *open = memchr(s, '<', (size_t)(end - s));
	if (!open || end[-1] != '>') {
		put(f, s, (size_t)(end - s));
		return;
	}
	bool wraps = level && among(s, open, wrappers);
	unsigned kept = 0;
	if (!wraps)
		put(f, s, (size_t)(open - s));
	if (!level)
		f->name = f->used;
	for (const char *from = open + 1, *to; from < end && !(wraps && kept); from = to + 1) {
		from += strspn(from, " ");
		to = argument_end(from, end - 1);
		if (says_little(from, to, wraps ? DROP_TYPES : f->drop))
			continue;
		if (!wraps)
			put(f, kept ? ", " : "<", kept ? 2 : 1);
		simplify(f, from, to, level + 1);
		kept++;
	}
	if (!kept && wraps)
		put(f, s, (size_t)(open - s));
	if (kept && !wraps)
		put(f, ">", 1);
}

/* The name shortened, the arguments whole: false when that leaves less than `least` columns of it (0: it is not
 * shortened). */
static bool join(const struct fit *f, int width, int least, char *out, size_t size)
{
	char name[FIT_MAX];
	int room = width - (int)(f->used - f->name);
	if ((int)f->used > width && (!least || room < least))
		return false;
	snprintf(name, sizeof(name), "%.*s", (int)f->name, f->text);
	char fitted[FIT_MAX];
	text_fit(name, room, fitted, sizeof(fitted));
	snprintf(out, size, "%s%s", fitted, f->text + f->name);
	return true;
}

void text_kernel(const char *short_name, int width, char *out, size_t size)
{
	size_t n = strlen(short_name);
	const char *open = strchr(short_name, '<');
	if ((int)n <= width || n >= FIT_MAX || !open || open == short_name || short_name[n - 1] != '>') {
		text_fit(short_name, width, out, size);
		return;
	}
	static const int least[] = {[DROP_HOLDERS] = 0, [DROP_NUMBERS] = NAME_ENOUGH, [DROP_TYPES] = NAME_LEAST};
	for (int drop = DROP_HOLDERS; drop <= DROP_TYPES; drop++) {
		struct fit f = {.drop = drop};
		simplify(&f, short_name, short_name + n, 0);
		if (join(&f, width, least[drop], out, size))
			return;
		if (drop < DROP_TYPES)
			continue;
		/* As much as there is room for after the shortest name. */
		char name[FIT_MAX], fitted[FIT_MAX];
		snprintf(name, sizeof(name), "%.*s", (int)f.name, f.text);
		text_fit(name, NAME_LEAST, fitted, sizeof(fitted));
		strncat(fitted, f.text + f.name, sizeof(fitted) - strlen(fitted) - 1);
		text_fit(fitted, width, out, size);
	}
}
