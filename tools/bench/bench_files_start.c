/*
 * bench_files_start.c - the second start of a Python program with many imports from a cold cache, with what was learned at the
 * first; and an import-heavy program from a warm one.
 */
#include "bench_cold.h"

#define ROUNDS 7

static const char program[] =
	"import sys, importlib, pkgutil\n"
	"skip = {'idlelib', 'turtle', 'antigravity', 'this', 'tkinter', 'turtledemo', 'test', 'lib2to3', 'msilib', 'winreg'}\n"
	"names = getattr(sys, 'stdlib_module_names', None) or {m.name for m in pkgutil.iter_modules()}\n"
	"for name in sorted(names):\n"
	"    if name in skip or name.startswith('_'):\n"
	"        continue\n"
	"    try:\n"
	"        module = importlib.import_module(name)\n"
	"        for below in pkgutil.iter_modules(getattr(module, '__path__', []), name + '.'):\n"
	"            if not any(word in below.name for word in ('__main__', 'test', 'idle')):\n"
	"                importlib.import_module(below.name)\n"
	"    except BaseException:\n"
	"        pass\n"
	"for name in ('numpy', 'torch'):\n"
	"    try:\n"
	"        importlib.import_module(name)\n"
	"    except BaseException:\n"
	"        pass\n";

static void nothing(void) {}

static void drop(void)
{
	cold_drop();
}

int main(void)
{
	char python[4096] = "", script[4096], *argv[] = {python, script, NULL};
	int missed = 0;
	FILE *f = popen("python3 -c 'import sys; print(sys.executable)' 2>/dev/null", "r");
	if (f && fgets(python, sizeof(python), f))
		python[strcspn(python, "\n")] = '\0';
	if (f)
		pclose(f);
	if (!*python || !cold_can_drop()) {
		puts(*python ? "bench_files_start: caches cannot be dropped here: left out"
					 : "bench_files_start: no python3");
		return 0;
	}
	mkdir(cold_dir(""), 0700);
	setenv("XDG_CACHE_HOME", cold_dir("cache"), 1);
	mkdir(cold_dir("cache"), 0700);
	setenv("TURBO_FILES", "prefetch", 1);
	strcpy(script, cold_dir("imports.py"));
	f = fopen(script, "w");
	if (!f || fputs(program, f) < 0 || fclose(f) != 0)
		return 2;
	cold_run(false, argv); /* bytecode is compiled */
	cold_run(true, argv);  /* and the start learned */
	cold_heading("start of a Python program with many imports", ROUNDS);
	missed += cold_compare("second start, cold", 1.3, ROUNDS, drop, argv);
	missed += cold_compare("second start, warm", 0.97, ROUNDS, nothing, argv);
	puts("");
	cold_remove();
	return missed != 0;
}
