/*
 * python.c - the interpreter that CMD, or `python3` here, would be, and what it knows of PyTorch without importing it.
 */
#include <stdlib.h>
#include <string.h>

#include "../turbo/turbo.h"
#include "doctor.h"

/* The Makefile rebuilds this file when look.py changes. */
__asm__(".pushsection .rodata\n"
		"doctor_script: .incbin \"tools/doctor/look.py\"\n"
		".byte 0\n"
		".popsection\n");
extern const char doctor_script[] __attribute__((visibility("hidden")));

#define PREFIX_MOST 24

const char *const doctor_kind_names[DOCTOR_KINDS] = {"driver", "CUDA runtime", "cuDNN", "NCCL", "CUPTI"};

static const char *base_of(const char *path)
{
	const char *slash = strrchr(path, '/');
	return slash ? slash + 1 : path;
}

enum doctor_kind doctor_kind_of(const char *path)
{
	static const char *const names[DOCTOR_KINDS] = {"libcuda", "libcudart", "libcudnn", "libnccl",
													"libcupti"};
	const char *base = base_of(path);
	for (int i = 0; i < DOCTOR_KINDS; i++) {
		size_t n = strlen(names[i]);
		/* A wheel may put a hash before the end: libcudart-1b5ec7d1.so.12. */
		if (!strncmp(base, names[i], n) &&
			(!strncmp(base + n, ".so", 3) || (base[n] == '-' && strstr(base + n, ".so"))))
			return (enum doctor_kind)i;
	}
	return DOCTOR_KINDS;
}

void doctor_library_add(struct doctor_library *list, unsigned *count, unsigned most, const char *path)
{
	enum doctor_kind kind = doctor_kind_of(path);
	if (kind == DOCTOR_KINDS || *count >= most || strlen(path) >= sizeof(list->path))
		return;
	for (unsigned i = 0; i < *count; i++)
		if (!strcmp(list[i].path, path))
			return;
	list[*count].kind = kind;
	strcpy(list[*count].path, path);
	(*count)++;
}

/* python3.11, not python3-config. */
static bool is_python(const char *path)
{
	const char *base = base_of(path);
	size_t n = !strncmp(base, "python", 6) ? 6 : !strncmp(base, "pypy", 4) ? 4 : 0;
	return n && strspn(base + n, "0123456789.t") == strlen(base + n);
}

/* Programs that start the rest of their line here, once: what is before python is kept. */
static bool is_wrapper(const char *path)
{
	static const char *const names[] = {"env",     "nice",   "ionice",     "numactl", "taskset", "time",
										"timeout", "stdbuf", "setpriv",    "uv",      "poetry",  "pipenv",
										"pdm",     "conda",  "micromamba", "mamba"};
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (!strcmp(base_of(path), names[i]))
			return true;
	return false;
}

/* CMD up to and with its interpreter; 0: it names none. */
static int words_to_python(char **cmd)
{
	int i = 0;
	if (cmd[0] && !is_python(cmd[0]) && !is_wrapper(cmd[0]))
		return 0;
	while (cmd[i] && !is_python(cmd[i]))
		i++;
	return cmd[i] ? i + 1 : 0;
}

char **doctor_python(struct doctor *d)
{
	static char *prefix[PREFIX_MOST + 8];
	static struct program program;
	static char *const usual[] = {(char *)"python3", (char *)"python"};
	int words = d->cmd ? words_to_python(d->cmd) : 0;
	if (words > PREFIX_MOST)
		words = 0;
	memset(prefix, 0, sizeof(prefix));
	if (words) {
		memcpy(prefix, d->cmd, (size_t)words * sizeof(*prefix));
		return prefix;
	}
	if (d->cmd && program_inspect(d->cmd[0], &program) == 0 && is_python(program.image)) {
		prefix[0] = program.image;
		return prefix;
	}
	for (int i = 0; i < 2; i++)
		if (program_inspect(usual[i], &program) == 0) {
			prefix[0] = usual[i];
			return prefix;
		}
	return NULL;
}

int doctor_look(struct doctor *d, const char *mode, const char *preload, doctor_line *out, doctor_line *err,
				void *arg)
{
	char **argv = doctor_python(d);
	int n = 0;
	if (!argv)
		return -1;
	while (argv[n])
		n++;
	if (!strcmp(mode, "import")) {
		argv[n++] = (char *)"-X";
		argv[n++] = (char *)"importtime";
	}
	argv[n++] = (char *)"-c";
	argv[n++] = (char *)doctor_script;
	argv[n++] = (char *)mode;
	argv[n] = NULL;
	setenv("PYTHONDONTWRITEBYTECODE", "1", 1);
	struct doctor_start s = {.argv = argv, .preload = preload, .out = out, .err = err, .arg = arg};
	return doctor_start(&s);
}

struct found {
	struct doctor *d;
	bool torch;
	char main[1024]; /* libtorch_cuda.so */
	char said[200];  /* the last line on stderr */
};

static void take(void *arg, char *line)
{
	struct found *v = arg;
	struct doctor_facts *facts = &v->d->board->facts;
	char *f[5];
	doctor_fields(line, f, 5);
	if (!strcmp(f[0], "python")) {
		snprintf(facts->python, sizeof(facts->python), "%s", f[2]);
		doctor_say(v->d, F_python, DOCTOR_OK, NULL, "%s, %s", f[1], f[2]);
	} else if (!strcmp(f[0], "torch")) {
		bool cuda = *f[2] != '\0';
		v->torch = true;
		snprintf(facts->torch_folder, sizeof(facts->torch_folder), "%s", f[3]);
		snprintf(facts->torch_cuda, sizeof(facts->torch_cuda), "%s", f[2]);
		snprintf(v->main, sizeof(v->main), "%s", f[4]);
		doctor_say(v->d, F_torch, cuda || !facts->expected ? DOCTOR_OK : DOCTOR_WARN, NULL, "%s, %s%s, in %s",
				   f[1], cuda ? "built for CUDA " : "built without CUDA", f[2], f[3]);
	} else if (!strcmp(f[0], "wheel")) {
		doctor_library_add(facts->wheel, &facts->wheels, sizeof(facts->wheel) / sizeof(facts->wheel[0]),
						   f[1]);
	}
}

static void take_error(void *arg, char *line)
{
	struct found *v = arg;
	if (*line)
		snprintf(v->said, sizeof(v->said), "%s", line);
}

struct listing {
	struct doctor *d;
	char missing[400];
};

/* A line of the loader's list: "\tNAME => PATH (0x...)", or "=> not found". */
static void take_listed(void *arg, char *line)
{
	struct listing *v = arg;
	struct doctor_facts *facts = &v->d->board->facts;
	char name[256] = "", path[1024] = "";
	if (sscanf(line, " %255s => %1023s", name, path) != 2)
		return;
	/* The driver's own library comes with the driver. */
	if (!strcmp(path, "not") && strcmp(name, "libcuda.so.1")) {
		size_t used = strlen(v->missing);
		snprintf(v->missing + used, sizeof(v->missing) - used, "%s%s", used ? ", " : "", name);
	} else {
		doctor_library_add(facts->library, &facts->libraries,
						   sizeof(facts->library) / sizeof(facts->library[0]), path);
	}
}

/* What the loader would load for `image`, by its own list, as ldd shows it; nothing of it is run. */
static void list(struct doctor *d, const char *interp, const char *image)
{
	struct listing v = {.d = d};
	struct doctor_start s = {
		.argv = (char *[]){(char *)interp, (char *)image, NULL}, .out = take_listed, .arg = &v};
	setenv("LD_TRACE_LOADED_OBJECTS", "1", 1);
	doctor_start(&s);
	unsetenv("LD_TRACE_LOADED_OBJECTS");
	if (*v.missing)
		doctor_say(d, F_missing_library, DOCTOR_FAIL, NULL, "%s needs %s, which the loader does not find",
				   image, v.missing);
	else
		doctor_say(d, F_missing_library, DOCTOR_OK, NULL, "all are found");
}

static bool is_shell(const char *path)
{
	static const char *const names[] = {"sh", "bash", "dash", "zsh", "ksh", "fish", "busybox"};
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (!strcmp(base_of(path), names[i]))
			return true;
	return is_wrapper(path);
}

/* True when CMD has nothing to do with Python. */
static bool look_at_program(struct doctor *d)
{
	static struct program program;
	static struct elf_facts elf;
	int err = program_inspect(d->cmd[0], &program);
	if (err) {
		doctor_say(d, F_python, DOCTOR_FAIL, NULL, "CMD %s: %s", d->cmd[0], strerror(err));
		return true;
	}
	if (is_python(program.image) || is_python(program.path) || is_shell(program.image))
		return false;
	if (elf_read(program.image, &elf) > 0 && elf.native && elf.interp[0])
		list(d, elf.interp, program.image);
	doctor_say(d, F_python, DOCTOR_NOT_HERE, NULL, "%s is no Python program", d->cmd[0]);
	return true;
}

void probe_python(struct doctor *d)
{
	static struct found v;
	static struct elf_facts elf;
	v.d = d;
	if (d->cmd && look_at_program(d))
		return;
	int status = doctor_look(d, "find", NULL, take, take_error, &v);
	if (status == -1)
		doctor_say(d, F_python, DOCTOR_NOT_HERE, NULL, "no python3 in PATH");
	else if (status != 0)
		doctor_say(d, F_python, DOCTOR_FAIL, NULL, "%s does not run (status %d): %s", doctor_python(d)[0],
				   status, v.said);
	else if (!v.torch)
		doctor_say(d, F_torch, DOCTOR_NOT_HERE, NULL, "not installed for this Python");
	if (*v.main && elf_read("/proc/self/exe", &elf) > 0 && elf.interp[0])
		list(d, elf.interp, v.main);
}
