/*
 * python.h - the interpreter in the process, read without its help.
 *
 * CPython 3.9 to 3.14 with a GIL. Two ways to the frames of a thread: the walk (python_walk), which dereferences, on the
 * thread whose frames they are, and only once a self-test under the GIL has shown that our reading is the
 * interpreter's own answer; and the careful one (python_frames), which has the kernel copy (peek.h) and checks all
 * it reads. Nothing here takes the GIL but what says so, and nothing keeps a pointer to an object for later.
 */
#ifndef TURBO_PYTHON_H
#define TURBO_PYTHON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lines.h"

#define PYTHON_FRAMES 24 /* innermost ones that tell stacks apart, and are shown */

/* How a frame says where it is. */
enum python_place {
	PLACE_BYTE, /* int: byte offset of the last instruction (3.9) */
	PLACE_WORD, /* int: its number (3.10) */
	PLACE_LAST, /* address of the last instruction (3.11, 3.12) */
	PLACE_THIS, /* address of the current one (3.13) */
};

/* Byte offsets in the interpreter's structures. */
struct python_layout {
	uint16_t version; /* major << 8 | minor */
	bool cframe;      /* state -> cframe -> frame, else state -> frame */
	uint16_t state_frame, cframe_frame;
	uint16_t frame_code, frame_back, frame_place, frame_owner; /* owner 0: there is none */
	uint8_t owner_foreign; /* from this value on it is no Python function */
	uint8_t place;         /* enum python_place */
	uint16_t code_file, code_name, code_line, code_table;
	uint16_t code_start;                              /* of the instructions; 0: they are elsewhere */
	uint16_t ascii, compact, text_length, text_state; /* sizes and fields of strings */
};

/* What libturbo uses of the C API. */
struct python_api {
	void *(*this_state)(void); /* PyGILState_GetThisThreadState */
	int (*finalizing)(void), (*initialized)(void);
	int (*ensure)(void); /* enum PyGILState_STATE */
	void (*release)(int);
	void *(*main_interpreter)(void), *(*first_state)(void *), *(*next_state)(void *), *(*own_state)(void);
	void *(*state_frame)(void *), *(*frame_code)(void *), *(*frame_back)(void *);
	int (*frame_line)(void *);
	void (*decref)(void *);
	void *(*attribute)(void *, const char *);
	const char *(*utf8)(void *);
	void (*clear_error)(void);
	int (*add_pending)(int (*)(void *), void *);
	int (*gc_disable)(void), (*gc_enable)(void); /* NULL before 3.10 */
	const void *code_type, *text_type, *bytes_type;
	const void *runtime;
};

/* An interpreter that was found; constant from then on. */
struct python {
	struct python_api api;
	struct python_layout layout;
	uint32_t version;    /* major << 8 | minor, or 0 */
	bool layout_known;   /* its frames can be read, if the self-test agrees */
	bool free_threaded;  /* no GIL: nothing is read */
	uintptr_t low, high; /* where its code is */
};

/* NULL: none was found yet, or libturbo was told to forget it (python_forget). Acquire; any thread, a handler too. */
const struct python *python_get(void);
/* Looks for one. Any thread but an issuing one. */
const struct python *python_find(void);
/* It can be asked and read: initialised, and not on its way out. Some nanoseconds. */
bool python_alive(const struct python *p);
/* The self-test agreed. */
bool python_readable(const struct python *p);
void python_forget(void); /* a forked child: async-signal-safe */

/* python_layout.c */
bool python_layout_find(struct python_layout *layout, uint32_t version, const void *runtime,
						bool *free_threaded);

/* python_line.c: the line of byte `place` of a code object's instructions; 0: not known. */
unsigned python_line(const struct python *p, uintptr_t table, unsigned first_line, long place);

/* A frame, for as long as it lives: the careful way. */
struct python_frame {
	uintptr_t code;
	long place; /* byte offset of the instruction; -1: not known */
};
/* The innermost frames of the thread with that PyThreadState; the calling thread's own, or under the GIL. */
unsigned python_frames(const struct python *p, const void *state, struct python_frame *frame, unsigned max);
/* "FILE:LINE FUNCTION"; false: the code object is not what it should be. */
bool python_describe(const struct python *p, const struct python_frame *frame, struct lines *out);
/* How names are shown: a file from the folder of packages on, and the end of what is long; the beginning of a function. */
void python_show_file(struct lines *out, const char *file, size_t bytes);
void python_show_name(struct lines *out, const char *name);

/*
 * A number for the calling thread's innermost PYTHON_FRAMES frames: of the code objects, their names and first
 * lines, and the instructions. 0: it runs no Python. Only if python_readable().
 */
uint64_t python_walk(const struct python *p, uint64_t seed);

#endif
