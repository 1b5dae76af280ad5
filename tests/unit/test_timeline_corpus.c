/* test_timeline_corpus.c - every file that the fuzzer has kept (tests/fuzz) is read and exported without harm. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "tests/fuzz/fuzz_trace.c"

#define CORPUS "tests/fuzz/corpus"

static void test_corpus(void **state)
{
	struct dirent **entry = NULL;
	int n = scandir(CORPUS, &entry, NULL, alphasort), files = 0;
	(void)state;
	assert_true(n > 2);
	for (int i = 0; i < n; i++) {
		static uint8_t bytes[1 << 20];
		char path[512];
		snprintf(path, sizeof(path), CORPUS "/%s", entry[i]->d_name);
		FILE *f = entry[i]->d_name[0] == '.' ? NULL : fopen(path, "r");
		free(entry[i]);
		if (!f)
			continue;
		size_t size = fread(bytes, 1, sizeof(bytes), f);
		assert_int_equal(fclose(f), 0);
		print_message("%s\n", path);
		LLVMFuzzerTestOneInput(bytes, size);
		files++;
	}
	free(entry);
	assert_true(files >= 10);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_corpus)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
