/*
 * cmd_doctor.c - `turbo doctor`: the check before the code is blamed. What it looks at is in tools/doctor.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "arguments.h"
#include "../doctor/doctor.h"
#include "turbo.h"

#define COLUMNS 100

struct wish {
	struct doctor doctor;
	bool json, list, markdown;
};

static int take_only(struct wish *wish, const char *list)
{
	wish->doctor.subjects = 0;
	for (size_t n; *list; list += n + (list[n] == ',')) {
		int s = 0;
		n = strcspn(list, ",");
		while (s < DOCTOR_SUBJECTS &&
			   (strlen(doctor_subject_names[s]) != n || strncmp(doctor_subject_names[s], list, n)))
			s++;
		if (s == DOCTOR_SUBJECTS)
			return usage_error("doctor", "no subject '%.*s'; --list names them", (int)n, list);
		wish->doctor.subjects |= 1u << s;
	}
	return wish->doctor.subjects ? 0 : usage_error("doctor", "--only names no subject");
}

static int take_value(void *to, const char *name, const char *value)
{
	struct wish *wish = to;
	char *end;
	if (!strcmp(name, "--only"))
		return take_only(wish, value);
	if (!strcmp(name, "--data")) {
		wish->doctor.data = value;
	} else if (!strcmp(name, "--root")) {
		wish->doctor.root = value;
	} else {
		wish->doctor.deadline = strtod(value, &end);
		if (end == value || *end || !(wish->doctor.deadline > 0) || wish->doctor.deadline > 86400)
			return usage_error("doctor", "--deadline takes seconds, not '%s'", value);
	}
	return 0;
}

static bool take_flag(void *to, const char *name)
{
	struct wish *wish = to;
	if (!strcmp(name, "--json"))
		wish->json = true;
	else if (!strcmp(name, "--quick"))
		wish->doctor.quick = true;
	else if (!strcmp(name, "--list"))
		wish->list = true;
	else if (!strcmp(name, "--markdown"))
		wish->list = wish->markdown = true;
	else
		return false;
	return true;
}

static int take_rest(void *to, const char *text)
{
	(void)to;
	return usage_error("doctor", "CMD stands behind --: turbo doctor -- %s ...", text);
}

static void progress(const char *what)
{
	if (what)
		fprintf(stderr, "\r\033[Kasking %s ...", what);
	else
		fprintf(stderr, "\r\033[K");
	fflush(stderr);
}

static unsigned columns(void)
{
	struct winsize size;
	if (!isatty(STDOUT_FILENO) || ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col < 60)
		return COLUMNS;
	return size.ws_col < COLUMNS ? size.ws_col : COLUMNS;
}

static bool colourful(void)
{
	const char *no = getenv("NO_COLOR"), *term = getenv("TERM");
	return isatty(STDOUT_FILENO) && !(no && *no) && !(term && !strcmp(term, "dumb"));
}

static int list(const struct wish *wish)
{
	if (wish->json)
		doctor_list_json(stdout);
	else if (wish->markdown)
		doctor_list_markdown(stdout);
	else
		doctor_list(stdout, columns());
	return finish_output("doctor");
}

static int examine(struct wish *wish)
{
	struct doctor *d = &wish->doctor;
	struct doctor_look look = {.to = stdout, .colour = colourful(), .columns = columns()};
	d->board = mmap(NULL, sizeof(*d->board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (d->board == MAP_FAILED)
		return failure("doctor", "no memory");
	doctor_run(d, isatty(STDERR_FILENO) ? progress : NULL);
	if (wish->json)
		doctor_show_json(d, stdout);
	else
		doctor_show(d, &look);
	int status = doctor_status(d), wrote = finish_output("doctor");
	return wrote > status ? wrote : status;
}

int cmd_doctor(int argc, char **argv)
{
	static const char *const valued[] = {"--only", "--data", "--root", "--deadline", NULL};
	static const struct arguments_taker taker = {
		.command = "doctor", .valued = valued, .value = take_value, .flag = take_flag, .rest = take_rest};
	struct wish wish = {.doctor = {.root = "", .subjects = ~0u}};
	int mine = 1;
	if (argc == 3 && !strcmp(argv[1], "--worker"))
		return doctor_worker(argv[2]);
	while (mine < argc && strcmp(argv[mine], "--"))
		mine++;
	if (mine + 1 < argc)
		wish.doctor.cmd = argv + mine + 1;
	else if (mine < argc)
		return usage_error("doctor", "no CMD behind --");
	int status = arguments_take(&taker, &wish, mine, argv);
	if (status)
		return status;
	return wish.list ? list(&wish) : examine(&wish);
}
