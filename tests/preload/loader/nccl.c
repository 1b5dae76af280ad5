/*
 * nccl.c - a libnccl.so.2 in name only. Its functions call each other as exported symbols,
 * which an interposer sees. WHO says which copy it is; MOVED puts the functions elsewhere in a
 * file of the same size.
 */
extern void nccl_loading(void) __attribute__((weak));

#ifdef MOVED
__attribute__((used)) static int padding(int a)
{
	int volatile b = a;

	return b * 3 + b / 7;
}
#endif

int ncclGetVersion(int *version)
{
	*version = WHO;
	return 0;
}

int ncclCommCount(void *comm, int *count)
{
	int volatile status = ncclGetVersion(count);

	(void)comm;
	return status;
}

/* What a call finds while the library is being loaded. */
static int seen_at_load;

__attribute__((constructor)) static void at_load(void)
{
	if (nccl_loading)
		nccl_loading();
	ncclGetVersion(&seen_at_load);
}

/* The last call of a copy that goes away. */
__attribute__((destructor)) static void at_unload(void)
{
	int seen = 0;

	ncclGetVersion(&seen);
	if (seen != WHO)
		__builtin_trap();
}

int nccl_seen_at_load(void)
{
	return seen_at_load;
}

int nccl_own_call(void)
{
	int count = 0;

	ncclCommCount((void *)0, &count);
	return count;
}
