/*
 * nccl.c - a libnccl.so.2 in name only. Its functions call each other as exported symbols,
 * which an interposer sees.
 */
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
	ncclGetVersion(&seen_at_load);
}

int nccl_seen_at_load(void)
{
	return seen_at_load;
}
