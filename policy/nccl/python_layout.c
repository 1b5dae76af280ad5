/*
 * python_layout.c - where the fields are.
 *
 * 3.9 to 3.12: as the headers of these versions have them (Include/cpython, Include/internal), which do not change
 * within a minor version. From 3.13 on the interpreter publishes offsets at the beginning of _PyRuntime
 * (_Py_DebugOffsets); where they stand depends on the minor version. Either is believed only after the self-test.
 */
#include "python.h"

#include <string.h>

#include "peek.h"

static const struct python_layout known[] = {
	{.version = 0x0309,
	 .state_frame = 24,
	 .frame_back = 24,
	 .frame_code = 32,
	 .frame_place = 104,
	 .place = PLACE_BYTE,
	 .code_line = 40,
	 .code_file = 104,
	 .code_name = 112,
	 .code_table = 120,
	 .text_length = 16,
	 .text_state = 32,
	 .ascii = 48,
	 .compact = 72},
	{.version = 0x030a,
	 .state_frame = 24,
	 .frame_back = 24,
	 .frame_code = 32,
	 .frame_place = 96,
	 .place = PLACE_WORD,
	 .code_line = 40,
	 .code_file = 104,
	 .code_name = 112,
	 .code_table = 120,
	 .text_length = 16,
	 .text_state = 32,
	 .ascii = 48,
	 .compact = 72},
	{.version = 0x030b,
	 .cframe = true,
	 .state_frame = 56,
	 .cframe_frame = 8,
	 .frame_code = 32,
	 .frame_back = 48,
	 .frame_place = 56,
	 .frame_owner = 69,
	 .owner_foreign = 3,
	 .place = PLACE_LAST,
	 .code_line = 72,
	 .code_file = 112,
	 .code_name = 128,
	 .code_table = 136,
	 .code_start = 184,
	 .text_length = 16,
	 .text_state = 32,
	 .ascii = 48,
	 .compact = 72},
	{.version = 0x030c,
	 .cframe = true,
	 .state_frame = 56,
	 .cframe_frame = 0,
	 .frame_code = 0,
	 .frame_back = 8,
	 .frame_place = 56,
	 .frame_owner = 70,
	 .owner_foreign = 3,
	 .place = PLACE_LAST,
	 .code_line = 68,
	 .code_file = 112,
	 .code_name = 128,
	 .code_table = 136,
	 .code_start = 192,
	 .text_length = 16,
	 .text_state = 32,
	 .ascii = 40,
	 .compact = 56},
};

/* Numbers of the 8-byte words of _Py_DebugOffsets: a magic, the version, free-threaded; then groups, each headed by
 * the size of what it describes. */
#define WORDS 64
static const struct words {
	uint16_t version;
	uint8_t current_frame, back, code, place, owner, file, name, table, line, start;
} published[] = {
	{0x030d, 23, 29, 30, 31, 33, 35, 37, 38, 39, 43},
	{0x030e, 26, 32, 33, 34, 36, 40, 42, 43, 44, 48},
};

#define MAGIC "xdebugpy"
/* Every structure here is smaller; offsets beyond are no offsets. */
#define MOST 4096u

static bool take(uint16_t *to, uint64_t offset)
{
	*to = (uint16_t)offset;
	return offset < MOST;
}

static bool from_published(struct python_layout *to, const struct words *w, const uint64_t *word)
{
	*to = (struct python_layout){.version = w->version,
								 .owner_foreign = 3,
								 .place = PLACE_THIS,
								 .text_length = 16,
								 .text_state = 32,
								 .ascii = 40,
								 .compact = 56};
	return take(&to->state_frame, word[w->current_frame]) && take(&to->frame_back, word[w->back]) &&
		   take(&to->frame_code, word[w->code]) && take(&to->frame_place, word[w->place]) &&
		   take(&to->frame_owner, word[w->owner]) && take(&to->code_file, word[w->file]) &&
		   take(&to->code_name, word[w->name]) && take(&to->code_table, word[w->table]) &&
		   take(&to->code_line, word[w->line]) && take(&to->code_start, word[w->start]);
}

bool python_layout_find(struct python_layout *layout, uint32_t version, const void *runtime,
						bool *free_threaded)
{
	uint64_t word[WORDS];
	*free_threaded = false;
	for (unsigned i = 0; i < sizeof(known) / sizeof(known[0]); i++)
		if (known[i].version == version) {
			*layout = known[i];
			return true;
		}
	if (!peek((uintptr_t)runtime, word, sizeof(word)) || memcmp(word, MAGIC, 8) != 0 ||
		word[1] >> 16 != version)
		return false;
	*free_threaded = word[2] != 0;
	for (unsigned i = 0; i < sizeof(published) / sizeof(published[0]); i++)
		if (published[i].version == version && !*free_threaded)
			return from_published(layout, &published[i], word);
	return false;
}
