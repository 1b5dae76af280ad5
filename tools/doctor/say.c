/* say.c - findings, said by a probe into memory that the command shares with it. */
#include <stdarg.h>
#include <string.h>

#include "doctor.h"
#include "tools/timeline/trace_impl.h"

/* Texts come from command lines, paths and drivers: they go to terminals and into JSON. */
static void put(char *to, size_t size, const char *fmt, va_list ap)
{
	int n = vsnprintf(to, size, fmt, ap);
	if (n < 0)
		*to = '\0';
	else if ((size_t)n >= size)
		memcpy(to + size - 4, "...", 4);
	trace_printable(to, strlen(to));
}

struct finding *doctor_say(struct doctor *d, enum doctor_id id, enum doctor_level level, const char *where,
						   const char *fmt, ...)
{
	static struct finding lost; /* beyond the last place, or of a subject that nobody asked for */
	unsigned n = atomic_load_explicit(&d->board->findings, memory_order_relaxed);
	bool wanted = id == F_unanswered || d->subjects & 1u << doctor_table[id].subject;
	struct finding *f = wanted && n < DOCTOR_MOST ? &d->board->finding[n] : &lost;
	va_list ap;

	memset(f, 0, sizeof(*f));
	f->id = id;
	f->level = level;
	f->subject = doctor_table[id].subject;
	snprintf(f->where, sizeof(f->where), "%s", where ? where : "");
	trace_printable(f->where, strlen(f->where));
	va_start(ap, fmt);
	put(f->seen, sizeof(f->seen), fmt, ap);
	va_end(ap);
	if (f != &lost)
		atomic_store_explicit(&d->board->findings, n + 1, memory_order_release);
	return f;
}

void doctor_do(struct finding *f, const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	put(f->todo, sizeof(f->todo), fmt, ap);
	va_end(ap);
}

void doctor_value(struct finding *f, const char *name, double value)
{
	if (f->values == DOCTOR_VALUES)
		return;
	snprintf(f->value[f->values].name, sizeof(f->value[0].name), "%s", name);
	f->value[f->values++].value = value;
}

enum doctor_level doctor_worst(const struct doctor *d)
{
	unsigned n = atomic_load_explicit(&d->board->findings, memory_order_acquire);
	enum doctor_level worst = DOCTOR_OK;
	for (unsigned i = 0; i < n; i++)
		if (d->board->finding[i].level > worst)
			worst = d->board->finding[i].level;
	return worst;
}

int doctor_status(const struct doctor *d)
{
	enum doctor_level worst = doctor_worst(d);
	return worst == DOCTOR_FAIL ? 2 : worst == DOCTOR_WARN ? 1 : 0;
}
