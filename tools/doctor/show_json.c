/* show_json.c - the findings for programs. README.md names the keys. */
#include <string.h>

#include "doctor.h"
#include "tools/timeline/json.h"

static void one(struct json *j, const struct finding *f)
{
	const struct doctor_row *row = &doctor_table[f->id];
	json_open(j, '{');
	json_string(j, "id", row->name);
	json_string(j, "subject", doctor_subject_names[f->subject]);
	json_string(j, "title", row->title);
	json_string(j, "level", doctor_levels[f->level]);
	json_string(j, "where", f->where);
	json_string(j, "seen", f->seen);
	json_string(j, "why", row->why);
	json_string(j, "do", f->level < DOCTOR_WARN ? "" : *f->todo ? f->todo : row->todo);
	json_key(j, "values");
	json_open(j, '{');
	for (unsigned i = 0; i < f->values; i++) {
		json_key(j, f->value[i].name);
		json_value(j, f->value[i].value, 15);
	}
	json_close(j, '}');
	json_close(j, '}');
}

void doctor_show_json(const struct doctor *d, FILE *to)
{
	struct json j = {.to = to};
	unsigned count = atomic_load_explicit(&d->board->findings, memory_order_acquire),
			 of[DOCTOR_FAIL + 1] = {0};
	for (unsigned i = 0; i < count; i++)
		of[d->board->finding[i].level]++;
	json_open(&j, '{');
	json_string(&j, "version", TURBO_VERSION);
	json_int(&j, "status", doctor_status(d));
	json_key(&j, "count");
	json_open(&j, '{');
	for (int level = DOCTOR_FAIL; level >= DOCTOR_NOT_HERE; level--)
		json_uint(&j, doctor_levels[level], of[level]);
	json_close(&j, '}');
	json_key(&j, "findings");
	json_open(&j, '[');
	for (int id = 0; id < DOCTOR_FINDINGS; id++)
		for (unsigned i = 0; i < count; i++)
			if ((int)d->board->finding[i].id == id)
				one(&j, &d->board->finding[i]);
	json_close(&j, ']');
	json_close(&j, '}');
	fputc('\n', to);
}
