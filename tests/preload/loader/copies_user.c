/* copies_user.c - a library that is linked with NCCL, or with the driver (-DCUDA). */
#include <stddef.h>

#ifdef CUDA
int cuMemAlloc_v2(void **pointer, size_t size);

int user_asks(void)
{
	return cuMemAlloc_v2(NULL, 0);
}
#else
int ncclGetVersion(int *version);

int user_asks(void)
{
	int version = 0;

	ncclGetVersion(&version);
	return version;
}
#endif
