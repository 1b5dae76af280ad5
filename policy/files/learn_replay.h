/* learn_replay.h - a list of files read ahead by threads, in parallel. */
#ifndef TURBO_FILES_LEARN_REPLAY_H
#define TURBO_FILES_LEARN_REPLAY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Takes `text` (of mmap(), `room` bytes), of which `size` bytes are a list. `what` is the command's number. Constructor. */
void learn_replay(char *text, size_t size, size_t room, uint64_t what, bool network);
void learn_replay_stop(void);

#endif
