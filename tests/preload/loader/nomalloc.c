/*
 * nomalloc.c - once told so, this program's malloc family gives nothing: lookups must still
 * work, hooked ones too, because libturbo allocates nothing.
 */
#include <dlfcn.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stddef.h>
#include <string.h>
#include <unistd.h>

static bool broken;
static char pool[1 << 20] __attribute__((aligned(16)));
static size_t used;

void *malloc(size_t bytes)
{
	size_t at = __atomic_fetch_add(&used, (bytes + 31) / 16 * 16, __ATOMIC_RELAXED);

	if (broken || at + bytes > sizeof(pool)) {
		errno = ENOMEM;
		return NULL;
	}
	return pool + at;
}

void *calloc(size_t n, size_t size)
{
	return malloc(n * size);
} /* the pool is used once: zero */
void *realloc(void *old, size_t bytes)
{
	void *new = malloc(bytes);

	if (new &&old)
		memmove(new, old, bytes); /* reads past the old block, never past the pool's end */
	return new;
}
void free(void *block)
{
	(void)block;
}

static void say(const char *what, bool good)
{
	char line[80];
	int length = snprintf(line, sizeof(line), "%s: %s\n", what, good ? "ok" : "failed");

	if (write(1, line, (size_t)length) != length)
		_exit(1);
}

int main(void)
{
	void *handle = dlopen("libcuda.so.1", RTLD_NOW);

	if (!handle)
		return 1;
	broken = true;
	void *length = dlsym(RTLD_DEFAULT, "strlen");
	void *init = dlsym(handle, "cuInit");
	void *missing = dlsym(handle, "cuNoSuchThing");
	void *again = dlsym(handle, "cuInit");
	say("strlen", length && ((size_t(*)(const char *))length)("four") == 4);
	say("cuInit", init && ((int (*)(unsigned int))init)(0) == 100);
	say("missing", !missing);
	say("cuInit again", again == init);
	say("strlen again", dlsym(RTLD_NEXT, "strlen") != NULL);
	return 0;
}
