/* shard_name.c - see shard_name.h. */
#include "shard_name.h"

#include <string.h>

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

bool shard_name_step(const char *path, int step, char *out, size_t size)
{
	size_t length = strlen(path), end, begin;
	const char *slash = strrchr(path, '/'), *of, *dot;
	size_t name = slash ? (size_t)(slash - path) + 1 : 0;

	if (length >= size)
		return false;
	dot = strrchr(path + name, '.');
	end = dot ? (size_t)(dot - path) : length; /* ".mp3", ".h5" are no numbers */
	of = strstr(path + name, "-of-");
	if (of && of > path + name && is_digit(of[-1]))
		end = (size_t)(of - path);
	while (end > name && !is_digit(path[end - 1]))
		end--;
	for (begin = end; begin > name && is_digit(path[begin - 1]);)
		begin--;
	if (begin == end)
		return false;
	memcpy(out, path, length + 1);
	for (size_t i = end; i > begin; i--) {
		int digit = out[i - 1] - '0' + step;
		step = digit > 9 ? 1 : digit < 0 ? -1 : 0;
		out[i - 1] = (char)('0' + (digit + 10) % 10);
		if (step == 0)
			return true;
	}
	return false;
}
