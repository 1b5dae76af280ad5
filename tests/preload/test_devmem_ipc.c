/* ENV: TURBO_DEVMEM_CACHE_MB=256 BARE */
/*
 * Memory shared between processes, as frameworks do it: base and offset by cuMemGetAddressRange,
 * handle of the base. A block that was handed out again is shared like a fresh one: the same bytes on both
 * sides; when it is freed the driver frees it, and the next one at its address has another handle.
 */
#include "common/copy_fixture.h"
#include "common/modes.h"
#include <cmocka.h>

#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#define BYTES (6 * MIB)
#define LESS (BYTES - 300 * KIB) /* close enough to get the block of BYTES */
#define OFFSET (1 * MIB + 512)

/* What goes through the pipes. */
struct share {
	CUipcMemHandle handle;
	size_t offset, bytes;
	uint32_t seed, answer; /* what the bytes are, what the other process is to write */
};

static int to_other, from_other;

static bool transfer(ssize_t (*call)(int, void *, size_t), int fd, void *data, size_t size)
{
	return call(fd, data, size) == (ssize_t)size;
}

static ssize_t send_some(int fd, void *data, size_t size)
{
	return write(fd, data, size);
}

/* ---- the other process ---- */

/* Opens what it is told of, checks and changes the bytes, closes it. */
static CUresult use_share(const struct share *share)
{
	CUdeviceptr base;
	CUresult r = cu.cuIpcOpenMemHandle_v2(&base, share->handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);

	if (r != CUDA_SUCCESS)
		return r;
	if (device_differs(base + share->offset, share->bytes, share->seed) != -1)
		r = CUDA_ERROR_ILLEGAL_ADDRESS;
	device_write(base + share->offset, share->bytes, share->answer);
	CUresult closed = cu.cuIpcCloseMemHandle(base);
	return r ? r : closed;
}

static int other_process(const char *in, const char *out)
{
	struct share share;

	while (transfer(read, atoi(in), &share, sizeof(share))) {
		CUresult r = use_share(&share);
		if (!transfer(send_some, atoi(out), &r, sizeof(r)))
			return 1;
	}
	return 0;
}

static pid_t start_other(void)
{
	int there[2], back[2];
	char in[16], out[16];

	assert_int_equal(pipe(there), 0);
	assert_int_equal(pipe(back), 0);
	snprintf(in, sizeof(in), "%d", there[0]);
	snprintf(out, sizeof(out), "%d", back[1]);
	pid_t pid = fork();
	if (pid == 0) {
		close(there[1]);
		close(back[0]);
		execl("/proc/self/exe", "test_devmem_ipc", in, out, (char *)NULL);
		_exit(127);
	}
	close(there[0]);
	close(back[1]);
	to_other = there[1];
	from_other = back[0];
	return pid;
}

/* ---- this one ---- */

static uint64_t driver_calls(const char *symbol)
{
	return sim.calls ? sim.calls(symbol) : 0;
}

static bool keeps(void)
{
	const char *mode = getenv("TURBO_DEVMEM");
	return fx.preloaded && mode && strcmp(mode, "off");
}

/* A block that the program has had before, when it keeps any. In some modes it takes a moment until
 * freed memory is nobody's. */
static CUdeviceptr used_block(size_t first, size_t bytes)
{
	for (int i = 0; i < 100; i++) {
		device_free(device_new(first));
		OK(cu.cuCtxSynchronize());
		uint64_t allocs = driver_calls("cuMemAlloc_v2");
		CUdeviceptr p = device_new(bytes);
		if (!keeps() || !sim.calls || driver_calls("cuMemAlloc_v2") == allocs)
			return p;
		device_free(p);
		usleep(2000);
	}
	fail_msg("nothing is handed out again");
	return 0;
}

static struct share share_of(CUdeviceptr at, size_t bytes, uint32_t seed)
{
	struct share share = {.bytes = bytes, .seed = seed, .answer = seed + 1};
	CUdeviceptr base;
	size_t size;

	OK(cu.cuMemGetAddressRange_v2(&base, &size, at));
	assert_true(at - base + bytes <= size);
	OK(cu.cuIpcGetMemHandle(&share.handle, base));
	share.offset = at - base;
	return share;
}

static void both_see_the_same(CUdeviceptr at, size_t bytes, uint32_t seed)
{
	struct share share = share_of(at, bytes, seed);
	CUresult r;

	device_write(at, bytes, share.seed);
	assert_true(transfer(send_some, to_other, &share, sizeof(share)));
	assert_true(transfer(read, from_other, &r, sizeof(r)));
	assert_int_equal(r, CUDA_SUCCESS);
	DEVICE_IS(at, bytes, share.answer);
}

/* The driver frees it, and another handle is for what comes next. What is still kept of that size
 * may be handed out then. */
static void ends_for_good(CUdeviceptr p, size_t bytes)
{
	struct share before = share_of(p, bytes, 0);
	uint64_t frees = driver_calls("cuMemFree_v2");

	device_free(p);
	if (sim.calls)
		assert_int_equal(driver_calls("cuMemFree_v2"), frees + 1);
	p = device_new(bytes);
	struct share after = share_of(p, bytes, 0);
	assert_memory_not_equal(&before.handle, &after.handle, sizeof(before.handle));
	device_free(p);
}

static void a_fresh_block(void **state)
{
	(void)state;
	CUdeviceptr p = device_new(BYTES);
	both_see_the_same(p, BYTES, 10);
	both_see_the_same(p + OFFSET, BYTES - OFFSET, 20);
	ends_for_good(p, BYTES);
}

static void a_block_that_was_used_before(void **state)
{
	(void)state;
	CUdeviceptr p = used_block(BYTES, BYTES);
	both_see_the_same(p, BYTES, 30);
	both_see_the_same(p + OFFSET, 64 * KIB, 40);
	ends_for_good(p, BYTES);
}

static void a_smaller_one_in_it(void **state)
{
	(void)state;
	CUdeviceptr p = used_block(BYTES, LESS);
	both_see_the_same(p, LESS, 50);
	both_see_the_same(p + LESS - 64 * KIB, 64 * KIB, 60);
	ends_for_good(p, LESS);
}

/* Small ones share their page, and so their handle, with others. */
static void a_small_one(void **state)
{
	(void)state;
	CUdeviceptr p = used_block(64 * KIB, 64 * KIB);
	both_see_the_same(p, 64 * KIB, 70);
	device_free(p);
}

/* Whatever question of libturbo's own fails, what the driver has shared is really freed. */
static void a_question_that_fails(void **state)
{
	static const char *const symbols[] = {"cuPointerGetAttributes", "cuMemGetAddressRange_v2"};
	CUipcMemHandle handle;

	(void)state;
	if (!sim.fail_set)
		return;
	for (int i = 0; i < 16; i++) {
		CUdeviceptr p = used_block(BYTES, BYTES);
		sim.fail_set(symbols[i / 8], 1 + i / 2 % 4, CUDA_ERROR_UNKNOWN);
		OK(cu.cuIpcGetMemHandle(&handle, p + (i % 2) * OFFSET));
		sim.fail_clear();
		uint64_t frees = driver_calls("cuMemFree_v2");
		device_free(p);
		assert_int_equal(driver_calls("cuMemFree_v2"), frees + 1);
	}
}

/* Blocks that nobody shared are kept as ever, in between. */
static void many_in_turn(void **state)
{
	(void)state;
	for (unsigned i = 0; i < 12; i++) {
		CUdeviceptr p = used_block(BYTES, i % 2 ? BYTES : LESS);
		if (i % 3 == 0)
			both_see_the_same(p + OFFSET, 128 * KIB, 100 + i * 2);
		device_free(p);
	}
}

int main(int argc, char **argv)
{
	int status = argc == 1 ? modes_main(argv) : -1;

	if (status >= 0)
		return status;
	copy_limit();
	copy_open();
	if (argc == 3)
		return other_process(argv[1], argv[2]);
	if (!cu.cuIpcGetMemHandle) {
		printf("the driver shares no memory between processes\n");
		return 77;
	}
	pid_t other = start_other();
	const struct CMUnitTest tests[] = {
		EITHER(a_fresh_block),       EITHER(a_block_that_was_used_before),
		EITHER(a_smaller_one_in_it), EITHER(a_small_one),
		EITHER(many_in_turn),        EITHER(a_question_that_fails),
	};
	int failed = cmocka_run_group_tests(tests, NULL, NULL);
	close(to_other);
	waitpid(other, &status, 0);
	return failed ? failed : status != 0;
}
