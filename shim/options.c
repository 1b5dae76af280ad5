/*
 * options.c - the environment, checked against the table of options.def.
 *
 * No allocation and no library state but the values themselves: `turbo run`
 * uses the same parser on the environment it is about to pass on.
 */
#include "options.h"

#include <string.h>

const struct option_row option_table[OPT_COUNT] = {
#define OPTION(id, name, kind, values, safe, max, off, text) \
	[OPT_##id] = {name, kind, values, safe, max, off, text},
#include "options.def"
#undef OPTION
};

/* Names that carry the prefix without being options: marks that libturbo and `turbo run`
 * leave for child processes. */
static const char *const known_marks[] = {"TURBO_RUN", "TURBO_ENGAGED", "TURBO_WARNED"};

/* Written by options_parse() (constructor, one thread), constant afterwards. */
static struct option_value {
	const char *text;
	int64_t number;
	bool set;
} values[OPT_COUNT];

/* ---- values ---- */

/* Decimal digits only: no sign, blank, suffix or overflow. */
static bool parse_digits(const char *s, size_t len, int64_t *out)
{
	int64_t n = 0;

	if (len == 0)
		return false;
	for (size_t i = 0; i < len; i++) {
		if (s[i] < '0' || s[i] > '9')
			return false;
		if (__builtin_mul_overflow(n, 10, &n) || __builtin_add_overflow(n, s[i] - '0', &n))
			return false;
	}
	*out = n;
	return true;
}

/* `word` is one alternative of a row's value list: a word to match or a range. */
static bool match_alternative(const struct option_row *row, const char *word, size_t len, int index,
							  const char *text, int64_t *number)
{
	const char *dots = memmem(word, len, "..", 2);
	int64_t lo, hi;

	if (row->kind == OPTION_NUMBER && dots) {
		if (!parse_digits(word, (size_t)(dots - word), &lo) ||
			!parse_digits(dots + 2, (size_t)(word + len - dots - 2), &hi))
			return false;
		return parse_digits(text, strlen(text), number) && *number >= lo && *number <= hi;
	}
	if (strlen(text) != len || memcmp(text, word, len) != 0)
		return false;
	if (row->kind == OPTION_ENUM)
		*number = index;
	else
		*number = strcmp(text, "auto") == 0 ? OPTION_AUTO : 0;
	return true;
}

static bool parse_value(const struct option_row *row, const char *text, int64_t *number)
{
	const char *word = row->values;

	if (row->kind == OPTION_PATH) {
		*number = 0;
		return true;
	}
	for (int index = 0;; index++) {
		size_t len = strcspn(word, "|");
		if (match_alternative(row, word, len, index, text, number))
			return true;
		if (word[len] == '\0')
			return false;
		word += len + 1;
	}
}

static void set_value(enum option_id id, const char *text, bool set)
{
	values[id].text = text;
	values[id].set = set;
	if (!parse_value(&option_table[id], text, &values[id].number))
		values[id].number = 0; /* a default in the table that the table forbids: a test refuses it */
}

/* ---- names ---- */

#define NAME_MAX_BYTES 64

/* Edit distance, given up (returning more than `limit`) for names longer than any option. */
static int name_distance(const char *a, size_t a_len, const char *b)
{
	int row[NAME_MAX_BYTES + 1];
	size_t b_len = strlen(b);

	if (a_len > NAME_MAX_BYTES || b_len > NAME_MAX_BYTES)
		return NAME_MAX_BYTES;
	for (size_t j = 0; j <= b_len; j++)
		row[j] = (int)j;
	for (size_t i = 1; i <= a_len; i++) {
		int diagonal = row[0];
		row[0] = (int)i;
		for (size_t j = 1; j <= b_len; j++) {
			int best = diagonal + (a[i - 1] != b[j - 1]);
			diagonal = row[j];
			if (row[j] + 1 < best)
				best = row[j] + 1;
			if (row[j - 1] + 1 < best)
				best = row[j - 1] + 1;
			row[j] = best;
		}
	}
	return row[b_len];
}

static bool name_is(const char *name, size_t len, const char *known)
{
	return strlen(known) == len && memcmp(name, known, len) == 0;
}

static int find_option(const char *name, size_t len)
{
	for (int i = 0; i < OPT_COUNT; i++)
		if (name_is(name, len, option_table[i].name))
			return i;
	return -1;
}

static bool is_mark(const char *name, size_t len)
{
	for (size_t i = 0; i < sizeof(known_marks) / sizeof(known_marks[0]); i++)
		if (name_is(name, len, known_marks[i]))
			return true;
	return false;
}

static const char *nearest_option(const char *name, size_t len)
{
	const char *nearest = NULL;
	int best = 3; /* two edits are a slip of the keyboard, three another word */

	for (int i = 0; i < OPT_COUNT; i++) {
		int distance = name_distance(name, len, option_table[i].name);
		if (distance < best) {
			best = distance;
			nearest = option_table[i].name;
		}
	}
	return nearest;
}

/* ---- the callback ---- */

static void append(char *buf, size_t size, const char *text)
{
	size_t used = strlen(buf);
	size_t len = strlen(text);

	if (used + len >= size)
		len = size - used - 1;
	memcpy(buf + used, text, len);
	buf[used + len] = '\0';
}

static void report_unknown(const char *entry, size_t name_len, option_bad_fn *bad, void *arg)
{
	char name[NAME_MAX_BYTES + 1];
	char reason[160] = "unknown option; ";
	const char *nearest = nearest_option(entry, name_len);
	size_t copied = name_len < NAME_MAX_BYTES ? name_len : NAME_MAX_BYTES;

	memcpy(name, entry, copied);
	name[copied] = '\0';
	if (nearest) {
		append(reason, sizeof(reason), "did you mean ");
		append(reason, sizeof(reason), nearest);
		append(reason, sizeof(reason), "? ");
	}
	append(reason, sizeof(reason), "see `turbo options`");
	bad(arg, name, entry + name_len + 1, reason);
}

static void report_value(const struct option_row *row, const char *text, option_bad_fn *bad, void *arg)
{
	char reason[160] = "allowed is ";

	append(reason, sizeof(reason), row->values);
	bad(arg, row->name, text, reason);
}

/* ---- parsing ---- */

static const char *preset_default(const struct option_row *row, const char *preset)
{
	if (strcmp(preset, "max") == 0)
		return row->max;
	if (strcmp(preset, "safe") == 0)
		return row->safe;
	return row->off;
}

/* The first "NAME=" entry wins, as getenv() has it. NULL when there is none or it is empty. */
static const char *find_entry(char *const *envp, const char *name)
{
	size_t len = strlen(name);

	for (; envp && *envp; envp++)
		if (strncmp(*envp, name, len) == 0 && (*envp)[len] == '=')
			return (*envp)[len + 1] ? *envp + len + 1 : NULL;
	return NULL;
}

static void take_option(char *const *envp, enum option_id id, const char *fallback, option_bad_fn *bad,
						void *arg)
{
	const struct option_row *row = &option_table[id];
	const char *text = find_entry(envp, row->name);
	int64_t number;

	if (text && parse_value(row, text, &number)) {
		set_value(id, text, true);
		return;
	}
	set_value(id, fallback, false);
	if (text && bad)
		report_value(row, text, bad, arg);
}

static bool first_of_name(char *const *envp, char *const *entry, size_t name_len)
{
	for (; envp != entry; envp++)
		if (strncmp(*envp, *entry, name_len + 1) == 0)
			return false;
	return true;
}

void options_parse(char *const *envp, option_bad_fn *bad, void *arg)
{
	const char *preset;

	take_option(envp, OPT_PRESET, option_table[OPT_PRESET].safe, bad, arg);
	preset = values[OPT_PRESET].text;
	for (int i = 0; i < OPT_COUNT; i++)
		if (i != OPT_PRESET)
			take_option(envp, (enum option_id)i, preset_default(&option_table[i], preset), bad, arg);

	for (char *const *entry = envp; bad && entry && *entry; entry++) {
		size_t name_len = strcspn(*entry, "=");
		if (strncmp(*entry, "TURBO_", 6) != 0 || (*entry)[name_len] != '=')
			continue;
		if (find_option(*entry, name_len) < 0 && !is_mark(*entry, name_len) &&
			first_of_name(envp, entry, name_len))
			report_unknown(*entry, name_len, bad, arg);
	}
}

int64_t option_get(enum option_id id)
{
	return values[id].number;
}

const char *option_text(enum option_id id)
{
	return values[id].text ? values[id].text : option_table[id].off;
}

bool option_is_set(enum option_id id)
{
	return values[id].set;
}
