/* SAN: plain ENV: TURBO_RUN=1 TURBO_HOSTMEM=on TURBO_HOSTMEM_MIN_MB=1 TURBO_HOSTMEM_CACHE_MB=256 TURBO_COPY=off BARE */
/*
 * Every function of the malloc family, of random sizes, on threads, with forks, against a shadow of what each block must
 * hold: its bytes, its alignment, its zeros, room for as much as was asked for. SEED and SOAK_S as for all random tests.
 */
#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define THREADS 4
#define BLOCKS 64
#define MIB ((size_t)1 << 20)

struct block {
	unsigned char *p;
	size_t bytes;
	unsigned char mark;
};

struct worker {
	unsigned seed, operations;
	struct block block[BLOCKS];
};

static _Atomic unsigned long total, large;

#define CHECK(what, ...)                              \
	do {                                              \
		if (!(what)) {                                \
			printf("line %d: %s: ", __LINE__, #what); \
			printf(__VA_ARGS__);                      \
			puts("");                                 \
			fflush(stdout);                           \
			_exit(1);                                 \
		}                                             \
	} while (0)

static unsigned draw(struct worker *w, unsigned n)
{
	return (unsigned)rand_r(&w->seed) % n;
}

static size_t draw_size(struct worker *w)
{
	switch (draw(w, 20)) {
	case 0: return (size_t)draw(w, 6 * MIB) + MIB / 2;
	case 1: return MIB * (1 + draw(w, 6)) - draw(w, 3);
	case 2: return draw(w, 1u << 20);
	case 3: return 0;
	default: return draw(w, 600);
	}
}

/* Some places of a block, its ends among them. */
static void mark(struct block *b)
{
	for (size_t i = 0; i < b->bytes; i += 1 + b->bytes / 16)
		b->p[i] = (unsigned char)(b->mark + i);
	if (b->bytes)
		b->p[b->bytes - 1] = b->mark;
}

static void look(const struct block *b, size_t bytes, const char *after)
{
	for (size_t i = 0; i < bytes && i + 1 < b->bytes; i += 1 + b->bytes / 16)
		CHECK(b->p[i] == (unsigned char)(b->mark + i), "%s: byte %zu of %zu", after, i, b->bytes);
	if (b->bytes && bytes >= b->bytes)
		CHECK(b->p[b->bytes - 1] == b->mark, "%s: the last byte of %zu", after, b->bytes);
}

static void *take(struct worker *w, size_t bytes)
{
	static const size_t aligns[] = {16, 64, 4096, MIB * 2, MIB * 4};
	size_t align = aligns[draw(w, 5)];
	void *p = NULL;

	switch (draw(w, 8)) {
	case 0: p = malloc(bytes); break;
	case 1:
		p = calloc(bytes / 8 + 1, 8);
		for (size_t i = 0; i < bytes; i += 1 + bytes / 64)
			CHECK(((char *)p)[i] == 0, "calloc of %zu: byte %zu", bytes, i);
		break;
	case 2: p = realloc(NULL, bytes); break;
	case 3: p = reallocarray(NULL, bytes / 4 + 1, 4); break;
	case 4:
		CHECK(posix_memalign(&p, align, bytes) == 0 && (!bytes || (uintptr_t)p % align == 0),
			  "posix_memalign(%zu)", align);
		break;
	case 5:
		p = aligned_alloc(align, bytes);
		CHECK((!bytes || (uintptr_t)p % align == 0), "aligned_alloc(%zu)", align);
		break;
	case 6:
		p = memalign(align, bytes);
		CHECK((!bytes || (uintptr_t)p % align == 0), "memalign(%zu)", align);
		break;
	default: p = valloc(bytes); CHECK((!bytes || (uintptr_t)p % 4096 == 0), "valloc");
	}
	CHECK(p || !bytes, "no memory for %zu", bytes);
	CHECK(!p || malloc_usable_size(p) >= bytes, "%zu usable of %zu", malloc_usable_size(p), bytes);
	return p;
}

static void operation(struct worker *w)
{
	struct block *b = &w->block[draw(w, BLOCKS)];
	size_t bytes = draw_size(w), old = b->bytes;

	total++;
	large += bytes >= MIB;
	if (!b->p) {
		*b = (struct block){take(w, bytes), bytes, (unsigned char)rand_r(&w->seed)};
		mark(b);
		return;
	}
	look(b, b->bytes, "later");
	if (draw(w, 3) == 0 && bytes) {
		unsigned char *p = realloc(b->p, bytes);
		CHECK(p, "realloc to %zu", bytes);
		b->p = p;
		look(b, bytes < old ? bytes : old, "realloc");
		b->bytes = bytes;
		mark(b);
		return;
	}
	errno = 56;
	free(b->p);
	CHECK(errno == 56, "free changes errno");
	*b = (struct block){0};
}

/* The child uses and frees what its parent had, and takes more. */
static void fork_once(struct worker *w)
{
	pid_t pid = fork();
	int status;
	if (pid == 0) {
		for (int i = 0; i < 200; i++)
			operation(w);
		for (int i = 0; i < BLOCKS; i++)
			free(w->block[i].p);
		_exit(0);
	}
	CHECK(pid > 0 && waitpid(pid, &status, 0) == pid && status == 0, "a forked child: status %x", status);
}

static void *work(void *arg)
{
	struct worker *w = arg;
	for (unsigned i = 0; i < w->operations; i++) {
		operation(w);
		if (draw(w, 20000) == 0)
			fork_once(w);
	}
	for (int i = 0; i < BLOCKS; i++) {
		look(&w->block[i], w->block[i].bytes, "at the end");
		free(w->block[i].p);
		w->block[i] = (struct block){0};
	}
	return NULL;
}

/* What no allocator may answer but one way. */
static void edges(void)
{
	void *p = NULL;
	volatile size_t huge = SIZE_MAX / 2, most = SIZE_MAX;

	CHECK(!malloc(huge) && errno == ENOMEM, "malloc of half of everything");
	CHECK(!malloc(most), "malloc of everything");
	CHECK(!calloc(huge, 4) && !calloc(most, most), "calloc that overflows");
	CHECK(!reallocarray(NULL, huge, 4), "reallocarray that overflows");
	CHECK(posix_memalign(&p, 3, 8 * MIB) == EINVAL && posix_memalign(&p, 4, 8 * MIB) == EINVAL,
		  "posix_memalign with a bad alignment");
	free(NULL);
	CHECK(malloc_usable_size(NULL) == 0, "usable size of nothing");
	p = malloc(8 * MIB);
	CHECK(!realloc(p, huge), "realloc to half of everything");
	memset(p, 1, 8 * MIB); /* still there */
	free(p);
}

int main(void)
{
	static struct worker worker[THREADS];
	const char *given = getenv("SEED"), *soak = getenv("SOAK_S");
	unsigned seed = given ? (unsigned)strtoul(given, NULL, 0) : (unsigned)time(NULL);
	time_t until = time(NULL) + (soak ? atoi(soak) : 0);
	pthread_t thread[THREADS];

	edges();
	do {
		printf("seed %u\n", seed);
		for (unsigned i = 0; i < THREADS; i++) {
			worker[i].seed = seed++;
			worker[i].operations = 15000;
			CHECK(pthread_create(&thread[i], NULL, work, &worker[i]) == 0, "no thread");
		}
		for (unsigned i = 0; i < THREADS; i++)
			pthread_join(thread[i], NULL);
	} while (!given && time(NULL) < until);
	printf("%lu operations, %lu of large blocks\n", total, large);
	return 0;
}
