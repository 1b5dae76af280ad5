/*
 * python.c - which interpreter is in the process, and whether it can be read.
 *
 * Found in the symbol tables of the loaded objects, without a dl* call, wherever it is: the program itself,
 * libpython, or a library that brings one. It stays loaded from then on.
 */
#include "python.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "elfsym.h"
#include "log.h"
#include "lookup.h"
#include "python_gil.h"

static struct python python;
enum { NOT_FOUND, LOOKING, FOUND, FORGOTTEN };
static int state; /* release when FOUND: `python` is there */

struct search {
	char path[1024];
	bool got, program;
};

static bool need(struct elfsym_object *o, void *slot, const char *name)
{
	void *fn = elfsym_find(o, name);
	memcpy(slot, &fn, sizeof(fn));
	return fn;
}

static bool need_either(struct elfsym_object *o, void *slot, const char *name, const char *other)
{
	return need(o, slot, name) || need(o, slot, other);
}

static bool take_api(struct elfsym_object *o, struct python_api *a)
{
	need(o, &a->gc_disable, "PyGC_Disable");
	need(o, &a->gc_enable, "PyGC_Enable");
	a->code_type = elfsym_find_variable(o, "PyCode_Type");
	a->text_type = elfsym_find_variable(o, "PyUnicode_Type");
	a->bytes_type = elfsym_find_variable(o, "PyBytes_Type");
	a->runtime = elfsym_find_variable(o, "_PyRuntime");
	return a->code_type && a->text_type && a->bytes_type && a->runtime &&
		   need(o, &a->this_state, "PyGILState_GetThisThreadState") &&
		   need_either(o, &a->finalizing, "Py_IsFinalizing", "_Py_IsFinalizing") &&
		   need(o, &a->initialized, "Py_IsInitialized") && need(o, &a->ensure, "PyGILState_Ensure") &&
		   need(o, &a->release, "PyGILState_Release") &&
		   need(o, &a->main_interpreter, "PyInterpreterState_Main") &&
		   need(o, &a->first_state, "PyInterpreterState_ThreadHead") &&
		   need(o, &a->next_state, "PyThreadState_Next") && need(o, &a->own_state, "PyThreadState_Get") &&
		   need(o, &a->state_frame, "PyThreadState_GetFrame") && need(o, &a->frame_code, "PyFrame_GetCode") &&
		   need(o, &a->frame_back, "PyFrame_GetBack") && need(o, &a->frame_line, "PyFrame_GetLineNumber") &&
		   need(o, &a->decref, "Py_DecRef") && need(o, &a->attribute, "PyObject_GetAttrString") &&
		   need(o, &a->utf8, "PyUnicode_AsUTF8") && need(o, &a->clear_error, "PyErr_Clear") &&
		   need(o, &a->add_pending, "Py_AddPendingCall");
}

/* "3.13.0 (main, ...": major << 8 | minor. */
static uint32_t version_of(const char *text)
{
	char *end;
	unsigned long major = strtoul(text, &end, 10);
	if (*end != '.' || major != 3)
		return 0;
	unsigned long minor = strtoul(end + 1, NULL, 10);
	return minor < 256 ? (uint32_t)(major << 8 | minor) : 0;
}

static int visit(struct elfsym_object *o, unsigned index, void *arg)
{
	struct search *found = arg;
	const char *(*get_version)(void);
	(void)index;
	if (!need(o, &get_version, "Py_GetVersion") || !take_api(o, &python.api))
		return 0;
	const char *text = get_version();
	python.version = version_of(text);
	if (python.version < 0x0309)
		return 0;
	python.layout_known =
		python_layout_find(&python.layout, python.version, python.api.runtime, &python.free_threaded);
	python.free_threaded = python.free_threaded || strstr(text, "free-threading");
	python.layout_known = python.layout_known && !python.free_threaded;
	python.low = o->lo;
	python.high = o->hi;
	size_t n = strlen(o->path);
	found->program = n == 0 || n >= sizeof(found->path);
	if (!found->program)
		memcpy(found->path, o->path, n + 1);
	return 1;
}

const struct python *python_get(void)
{
	return __atomic_load_n(&state, __ATOMIC_ACQUIRE) == FOUND ? &python : NULL;
}

static void look(uint64_t adds, uint64_t subs, void *arg)
{
	static uint64_t looked_at; /* under the loader's list lock; `adds` of the last look */
	(void)subs;
	if (adds == looked_at)
		return;
	looked_at = adds;
	((struct search *)arg)->got = elfsym_walk(visit, arg) == 1;
}

const struct python *python_find(void)
{
	struct search search = {0};
	int expected = NOT_FOUND;
	if (!__atomic_compare_exchange_n(&state, &expected, LOOKING, false, __ATOMIC_ACQUIRE, __ATOMIC_ACQUIRE))
		return python_get();
	elfsym_locked(look, &search);
	bool got = search.got;
	/* It must not be unloaded under a thread that reads it. */
	if (got && !search.program)
		got = lookup_real_dlopen(search.path, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE) != NULL;
	__atomic_store_n(&state, got ? FOUND : NOT_FOUND, __ATOMIC_RELEASE);
	if (got)
		log_debug("Python %u.%u: %s", python.version >> 8, python.version & 255,
				  python.layout_known ? "its frames are read where they are"
									  : "its frames are not known to libturbo");
	return python_get();
}

bool python_alive(const struct python *p)
{
	return p->api.initialized() && !p->api.finalizing();
}

void python_forget(void)
{
	__atomic_store_n(&state, FORGOTTEN, __ATOMIC_RELEASE);
}
