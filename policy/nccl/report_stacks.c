/* report_stacks.c - see report_stacks.h. */
#include "report_stacks.h"

#include <string.h>

#define LONGEST 600 /* bytes of a line that are looked at */

static bool takes(struct report_frame *f, const char *word, enum report_frame_kind kind)
{
	size_t n = strlen(word);

	if (f->bytes < n || memcmp(f->text, word, n) != 0)
		return false;
	f->kind = kind;
	f->text += n;
	f->bytes -= n;
	return true;
}

static void take_thread(struct report_frame *f)
{
	uint64_t n = 0;

	while (f->bytes && *f->text >= '0' && *f->text <= '9' && n <= UINT32_MAX) {
		n = n * 10 + (uint64_t)(*f->text - '0');
		f->text++;
		f->bytes--;
	}
	if (f->bytes && *f->text == ' ') {
		f->text++;
		f->bytes--;
	}
	f->thread = n <= UINT32_MAX ? (uint32_t)n : 0;
}

bool report_next_frame(struct report_lines *l, struct report_frame *f)
{
	if (l->at >= l->end)
		return false;
	size_t left = (size_t)(l->end - l->at);
	const char *end = memchr(l->at, '\n', left);
	size_t bytes = end ? (size_t)(end - l->at) : left;

	*f = (struct report_frame){.text = l->at, .bytes = bytes < LONGEST ? bytes : LONGEST};
	l->at += bytes + (end != NULL);
	if (takes(f, "thread ", FRAME_THREAD))
		take_thread(f);
	else if (!takes(f, "  python ", FRAME_PYTHON) && !takes(f, "  native ", FRAME_NATIVE))
		takes(f, "  note ", FRAME_NOTE);
	return true;
}

struct report_lines report_site(const struct flight_page *page, uint32_t site)
{
	if (site == 0 || site > FLIGHT_SITE_BYTES)
		return (struct report_lines){NULL, NULL};
	const char *text = page->sites + site - 1;

	return (struct report_lines){text, text + strnlen(text, FLIGHT_SITE_BYTES - (site - 1))};
}

struct report_lines report_dump(const struct report *r, const struct flight_page *page)
{
	const struct flight_dump *d = &page->dump;
	uint32_t version = atomic_load_explicit(&d->version, memory_order_relaxed);

	if (version == 0 || (version & 1) || d->made == 0 || (r->asked && d->made < r->asked))
		return (struct report_lines){NULL, NULL};
	return (struct report_lines){
		d->text, d->text + strnlen(d->text, d->bytes < sizeof(d->text) ? d->bytes : sizeof(d->text))};
}

struct report_lines report_dump_thread(const struct report *r, const struct flight_page *page,
									   uint32_t thread)
{
	struct report_lines l = report_dump(r, page), part = {NULL, NULL};
	struct report_frame f;

	while (l.at < l.end) {
		const char *from = l.at;
		report_next_frame(&l, &f);
		if (f.kind == FRAME_THREAD && part.at) {
			part.end = from;
			return part;
		}
		if (f.kind == FRAME_THREAD && f.thread == thread)
			part = (struct report_lines){l.at, l.end};
	}
	return part;
}

/* ---- frames ---- */

static const char *last_of(const char *s, size_t bytes, char c)
{
	while (bytes > 0)
		if (s[--bytes] == c)
			return s + bytes;
	return NULL;
}

/* FILE:LINE FUNCTION in two; a function's name has no blank. */
static size_t place_bytes(const struct report_frame *f)
{
	const char *blank = last_of(f->text, f->bytes, ' ');

	return blank ? (size_t)(blank - f->text) : f->bytes;
}

static bool installed(const struct report_frame *f)
{
	static const char *const part[] = {"site-packages/", "dist-packages/", "/lib/python3", "<frozen ",
									   "/torch/"};
	size_t bytes = place_bytes(f);

	for (unsigned i = 0; i < sizeof(part) / sizeof(part[0]); i++)
		if (memmem(f->text, bytes, part[i], strlen(part[i])))
			return true;
	return false;
}

void report_python_frame(struct out *o, const struct report_frame *f)
{
	size_t place = place_bytes(f);

	if (place + 1 < f->bytes) {
		out_name(o, f->text + place + 1, f->bytes - place - 1);
		out_string(o, " (");
	}
	out_name(o, f->text, place);
	if (place + 1 < f->bytes)
		out_string(o, ")");
}

static void put_own(struct out *o, const struct report_frame *f, unsigned columns)
{
	size_t place = place_bytes(f);
	const char *slash = last_of(f->text, place, '/');
	const char *file = slash ? slash + 1 : f->text;
	unsigned from = o->used, used;

	out_name_fit(o, file, place - (size_t)(file - f->text), columns, OUT_LAST);
	used = out_columns(o, from);
	if (place + 1 >= f->bytes)
		return;
	const char *name = f->text + place + 1;
	size_t bytes = f->bytes - place - 1;
	const char *dot = last_of(name, bytes, '.');
	if (used + 4 + bytes > columns && dot) { /* step, of Trainer.step */
		bytes -= (size_t)(dot + 1 - name);
		name = dot + 1;
	}
	if (used + 4 + bytes <= columns) {
		out_string(o, " in ");
		out_name(o, name, bytes);
	}
}

bool report_own_frame(struct out *o, struct report_lines l, unsigned columns)
{
	struct report_frame f, first = {.kind = FRAME_OTHER};

	while (report_next_frame(&l, &f)) {
		if (f.kind == FRAME_NATIVE && first.kind == FRAME_OTHER)
			first = f;
		if (f.kind != FRAME_PYTHON)
			continue;
		if (!installed(&f)) {
			put_own(o, &f, columns);
			return true;
		}
		if (first.kind != FRAME_PYTHON)
			first = f;
	}
	if (first.kind == FRAME_OTHER)
		return false;
	if (first.kind == FRAME_PYTHON)
		put_own(o, &first, columns);
	else
		out_name_fit(o, first.text, first.bytes, columns, OUT_FIRST);
	return true;
}
