/* shard.c - see shard.h. */
#include "shard.h"
void shard_opened(const char *path, int fd, bool network)
{
	(void)path;
	(void)fd;
	(void)network;
}
void shard_tick(uint64_t now)
{
	(void)now;
}
bool shard_is_busy(void)
{
	return false;
}
void shard_fork_child(void) {}
