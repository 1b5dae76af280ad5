/*
 * nccl_register.c - what a libnccl.so.2 in name only makes of registrations: its number (WHO) and
 * the arguments that it got. With USER: a library linked with it, which calls it.
 */
#include <stddef.h>

struct registration {
	int who, flags;
	void *comm, *buffer;
	size_t bytes;
	void **handle;
};

int ncclCommRegister(void *comm, void *buffer, size_t bytes, void **handle);
int ncclCommWindowRegister(void *comm, void *buffer, size_t bytes, void **window, int flags);

#ifdef USER
int user_register(void *comm, void *buffer, size_t bytes, void **handle)
{
	int volatile status = ncclCommRegister(comm, buffer, bytes, handle);

	return status;
}
#else
struct registration nccl_seen;

int ncclCommRegister(void *comm, void *buffer, size_t bytes, void **handle)
{
	nccl_seen = (struct registration){WHO, -1, comm, buffer, bytes, handle};
	return 100 + WHO;
}

int pncclCommRegister(void *comm, void *buffer, size_t bytes, void **handle)
{
	nccl_seen = (struct registration){WHO, -2, comm, buffer, bytes, handle};
	return 200 + WHO;
}

int ncclCommWindowRegister(void *comm, void *buffer, size_t bytes, void **window, int flags)
{
	nccl_seen = (struct registration){WHO, flags, comm, buffer, bytes, window};
	return 300 + WHO;
}
#endif
