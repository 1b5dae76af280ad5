/* list.c - everything that is looked at: for people, for README.md, for the test. */
#include <string.h>

#include "doctor.h"
#include "tools/timeline/json.h"

static const char *levels_of(const struct doctor_row *row)
{
	bool warn = row->levels & 1u << DOCTOR_WARN, fail = row->levels & 1u << DOCTOR_FAIL;
	return warn && fail ? "warn, fail" : warn ? "warn" : fail ? "fail" : "";
}

void doctor_list(FILE *to, unsigned columns)
{
	(void)columns;
	for (int s = 0; s < DOCTOR_SUBJECTS; s++) {
		fprintf(to, "%s%s (--only %s)\n", s ? "\n" : "", doctor_subjects[s], doctor_subject_names[s]);
		for (int i = 0; i < DOCTOR_FINDINGS; i++)
			if ((int)doctor_table[i].subject == s)
				fprintf(to, "  %-35s %s%s%s\n", doctor_table[i].title, levels_of(&doctor_table[i]),
						doctor_table[i].values ? " when " : "",
						doctor_table[i].values ? doctor_table[i].values : "");
	}
}

/* A | would end the cell. */
static void cell(FILE *to, const char *text)
{
	fputs("| ", to);
	for (; *text; text++)
		fprintf(to, *text == '|' ? "\\|" : "%c", *text);
	fputc(' ', to);
}

void doctor_list_markdown(FILE *to)
{
	fputs("| subject | finding | id | can be | why it matters | what to do |\n|---|---|---|---|---|---|\n",
		  to);
	for (int i = 0; i < DOCTOR_FINDINGS; i++) {
		const struct doctor_row *row = &doctor_table[i];
		char what[200], levels[200];
		snprintf(what, sizeof(what), "%s%s%s", row->variable ? "`" : "", row->title,
				 row->variable ? "`" : "");
		snprintf(levels, sizeof(levels), "%s%s%s", levels_of(row), row->values ? ": " : "",
				 row->values ? row->values : "");
		cell(to, doctor_subject_names[row->subject]);
		cell(to, what);
		fprintf(to, "| `%s` ", row->name);
		cell(to, levels);
		cell(to, row->why);
		cell(to, row->todo);
		fputs("|\n", to);
	}
}

void doctor_list_json(FILE *to)
{
	struct json j = {.to = to};
	json_open(&j, '[');
	for (int i = 0; i < DOCTOR_FINDINGS; i++) {
		const struct doctor_row *row = &doctor_table[i];
		json_open(&j, '{');
		json_string(&j, "id", row->name);
		json_string(&j, "subject", doctor_subject_names[row->subject]);
		json_string(&j, "title", row->title);
		json_key(&j, "levels");
		json_open(&j, '[');
		for (int level = DOCTOR_WARN; level <= DOCTOR_FAIL; level++)
			if (row->levels & 1u << level)
				json_text(&j, doctor_levels[level]);
		json_close(&j, ']');
		json_string(&j, "variable", row->variable ? row->variable : "");
		json_string(&j, "values", row->values ? row->values : "");
		json_string(&j, "why", row->why);
		json_string(&j, "do", row->todo);
		json_close(&j, '}');
	}
	json_close(&j, ']');
	fputc('\n', to);
}
