/* summary.c - a heading, then each policy's lines, indented, at most 80 columns wide. */
#include "summary.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "life.h"
#include "log_sink.h"
#include "options.h"
#include "../policy/policy.h"

#define COLUMNS 80
#define NAME_COLUMNS 9

static const char nothing[] = "nothing was sped up; TURBO_LOG=info and `turbo stats` say why";

struct text {
	size_t used;
	char buf[3072]; /* less than PIPE_BUF: one write stays in one piece */
};

static void add_line(struct text *t, const char *name, const char *line, size_t len)
{
	size_t room = sizeof(t->buf) - t->used;
	int n;

	if (len > COLUMNS - NAME_COLUMNS - 2)
		len = COLUMNS - NAME_COLUMNS - 2;
	n = snprintf(t->buf + t->used, room, "  %-*.*s%.*s\n", NAME_COLUMNS, NAME_COLUMNS - 1, name, (int)len,
				 line);
	if (n > 0 && (size_t)n < room)
		t->used += (size_t)n; /* a line that does not fit is left out whole */
}

static void add_policy(struct text *t, const struct policy *policy)
{
	char lines[1024];
	const char *name = policy->name;
	char *line = lines;
	int len = policy->summary(lines, (int)sizeof(lines) - 1);

	if (len <= 0)
		return;
	lines[len < (int)sizeof(lines) ? len : (int)sizeof(lines) - 1] = '\0';
	while (*line) {
		size_t n = strcspn(line, "\n");
		if (n)
			add_line(t, name, line, n);
		name = "";
		line += n + (line[n] == '\n');
	}
}

void summary_print(bool always)
{
	struct text t;
	size_t heading;

	if (!life_cuda() || option_get(OPT_SUMMARY) == 0)
		return;
	t.used = heading = (size_t)snprintf(t.buf, sizeof(t.buf), "libturbo[%d]: summary of %.40s\n",
										(int)getpid(), program_invocation_short_name);
	for (int i = 0; i < policy_count; i++)
		if (policy_table[i]->summary)
			add_policy(&t, policy_table[i]);
	if (t.used == heading && always)
		t.used += (size_t)snprintf(t.buf + heading, sizeof(t.buf) - heading, "  %s\n", nothing);
	if (t.used > heading)
		log_emit(t.buf, t.used);
}
