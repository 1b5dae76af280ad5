/*
 * static_client.cu - a program with the CUDA runtime linked in (nvcc -cudart static).
 *
 * Its driver calls leave through a dlsym and a cuGetProcAddress of its own. Built twice, with
 * the legacy and with the per-thread default stream.
 */
#include <cuda_runtime.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string>
#include <unistd.h>
#include <vector>

#define TRY(call)                                                                         \
	do {                                                                                  \
		cudaError_t e_ = (call);                                                          \
		if (e_ != cudaSuccess) {                                                          \
			fprintf(stderr, "static_client: %s: %s\n", #call, cudaGetErrorString(e_));    \
			exit(e_ == cudaErrorNoDevice || e_ == cudaErrorInsufficientDriver ? 77 : 1);  \
		}                                                                                 \
	} while (0)

__global__ void add(float *p, size_t n)
{
	for (size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x; i < n; i += size_t(gridDim.x) * blockDim.x)
		p[i] += 1;
}

static void snapshot()
{
	std::string out = getenv("COVERAGE_OUT");
	void *lib = dlopen(getenv("CUDA_INJECTION64_PATH"), RTLD_NOW | RTLD_NOLOAD);
	auto dump = lib ? (int (*)(const char *))dlsym(lib, "cuptitrace_dump") : nullptr;
	if (!dump || dump((out + ".cupti0").c_str()))
		exit(1);
	std::string command = std::string("env -u LD_PRELOAD -u CUDA_INJECTION64_PATH '") + getenv("GPU_TEST_TURBO") +
	                      "' stats " + std::to_string(getpid()) + " --json --all > '" + out + ".turbo'";
	if (system(command.c_str()) || dump((out + ".cupti1").c_str()))
		exit(1);
}

int main()
{
	const size_t n = 8 << 20;
	std::vector<float> host(n, 1), back(n);
	float *d, *d2, *pinned;
	cudaStream_t s;
	TRY(cudaStreamCreate(&s));
	TRY(cudaMalloc(&d, n * sizeof(float)));
	TRY(cudaMallocAsync(&d2, n * sizeof(float), s));
	TRY(cudaMallocHost(&pinned, n * sizeof(float)));
	for (int i = 0; i < 3; i++) {
		TRY(cudaMemcpy(d, host.data(), n * sizeof(float), cudaMemcpyHostToDevice));
		add<<<128, 256, 0, s>>>(d, n);
		TRY(cudaMemcpyAsync(d2, d, n * sizeof(float), cudaMemcpyDeviceToDevice, s));
		TRY(cudaMemcpyAsync(pinned, d2, n * sizeof(float), cudaMemcpyDeviceToHost, s));
		TRY(cudaStreamSynchronize(s));
		TRY(cudaMemcpy(back.data(), d, n * sizeof(float), cudaMemcpyDefault));
		TRY(cudaMemcpyAsync(d, host.data(), n * sizeof(float), cudaMemcpyHostToDevice));
		TRY(cudaDeviceSynchronize());
	}
	TRY(cudaHostRegister(host.data(), n * sizeof(float), 0));
	TRY(cudaHostUnregister(host.data()));
	TRY(cudaFreeAsync(d2, s));
	TRY(cudaStreamSynchronize(s));
	TRY(cudaFree(d));
	TRY(cudaFreeHost(pinned));
	if (back[5] != 2)
		return 1;
	snapshot();
	return 0;
}
