/* weak.c - calls what is there; libturbo exports what the provider lacks, and answers "not found". */
#include <stddef.h>
#include <stdio.h>

__attribute__((weak)) int cuMemAlloc_v2(void **out, size_t bytes);
__attribute__((weak)) int cuMemcpyHtoD_v2(unsigned long long to, const void *from, size_t bytes);
__attribute__((weak)) int ncclGetVersion(int *version);
__attribute__((weak)) const char *ncclGetErrorString(int result);

int main(void)
{
	void *out;
	int version = 0;

	printf("cuMemAlloc_v2: %d\n", cuMemAlloc_v2 ? cuMemAlloc_v2(&out, 1) : 500);
	printf("cuMemcpyHtoD_v2: %d\n", cuMemcpyHtoD_v2 ? cuMemcpyHtoD_v2(0, &out, sizeof(out)) : 500);
	printf("ncclGetVersion: %d\n", ncclGetVersion ? ncclGetVersion(&version) : 5);
	printf("ncclGetErrorString: %s\n", ncclGetErrorString && !ncclGetErrorString(5) ? "no text" : "a text");
	return 0;
}
