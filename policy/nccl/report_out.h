/*
 * report_out.h - text put together in a buffer of a fixed size.
 *
 * No malloc, no locale: the decimal point is a point. What does not fit is left out, and `cut` says so; `text` always
 * ends in 0.
 */
#ifndef TURBO_NCCL_REPORT_OUT_H
#define TURBO_NCCL_REPORT_OUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct out {
	char *text;
	unsigned size, used; /* bytes; `used` is without the final 0 */
	bool cut;
};

void out_begin(struct out *o, char *text, unsigned size);

/* When something was left out, the text ends in "..". */
void out_end_cut(struct out *o);

/* Texts of our own. */
void out_string(struct out *o, const char *s);
void out_format(struct out *o, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/*
 * Texts of others: up to their 0, or `most` bytes. What a terminal would obey (control characters, marks that turn the
 * direction of writing) and what is no UTF-8 is shown as \xNN. Where `columns` is not 0 and the text is longer, its
 * end is kept (`last`) or its beginning, with ".." for the rest.
 */
void out_name(struct out *o, const char *s, size_t most);
enum out_keep { OUT_FIRST, OUT_LAST };
void out_name_fit(struct out *o, const char *s, size_t most, unsigned columns, enum out_keep keep);

/* "0.4 s", "12 s", "4 min 12 s", "3 h 5 min"; short: "4m12s", "3h05m". */
void out_age(struct out *o, uint64_t ns);
void out_age_short(struct out *o, uint64_t ns);
/* "512 B", "16.0 KiB", "128 MiB". */
void out_size(struct out *o, uint64_t bytes);

/* Columns since the byte `from`. */
unsigned out_columns(const struct out *o, unsigned from);
/* Blanks, until there are `columns` since `from`. */
void out_pad(struct out *o, unsigned from, unsigned columns);

/* ---- JSON: commas by themselves ---- */

struct out_json {
	struct out *o;
	bool comma; /* something stands before, in the same object or list */
};
/* `key` NULL: in a list. */
void json_begin(struct out_json *j, const char *key, char bracket);
void json_end(struct out_json *j, char bracket);
void json_put_number(struct out_json *j, const char *key, int64_t value);
void json_put_bool(struct out_json *j, const char *key, bool value);
void json_put_null(struct out_json *j, const char *key);
/* Of others: as out_name(), then quoted. */
void json_put_text(struct out_json *j, const char *key, const char *s, size_t most);

#endif
