/* own.c - a program that exports a cuInit of its own: that is the one it must find. */
#include <dlfcn.h>
#include <stdio.h>

int cuInit(unsigned int flags);
int cuInit(unsigned int flags)
{
	return 7000 + (int)flags;
}

static void show(const char *what, void *fn)
{
	printf("%s: %s\n", what, fn == (void *)cuInit ? "the program's" : fn ? "another" : "NULL");
}

int main(void)
{
	void *library = dlopen("libasker.so", RTLD_NOW);
	void *(*ask)(void *, const char *) =
		library ? (void *(*)(void *, const char *))dlsym(library, "ask") : NULL;

	if (!ask)
		return 1;
	show("RTLD_DEFAULT", dlsym(RTLD_DEFAULT, "cuInit"));
	show("dlopen(NULL)", dlsym(dlopen(NULL, RTLD_NOW), "cuInit"));
	show("a library's RTLD_DEFAULT", ask(RTLD_DEFAULT, "cuInit"));
	show("RTLD_NEXT", dlsym(RTLD_NEXT, "cuInit"));
	return 0;
}
