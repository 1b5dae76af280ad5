/*
 * learn_objects.h - the parts of loaded libraries that this process has touched: what a start from a cold disk reads of them.
 */
#ifndef TURBO_FILES_LEARN_OBJECTS_H
#define TURBO_FILES_LEARN_OBJECTS_H

#include "learn_list.h"

/* Calls `put` for the program and each library, in load order. Walks the loader's list; asks the system about pages. One thread. */
typedef void learn_object_fn(const struct learn_record *record, void *arg);
void learn_objects(learn_object_fn *put, void *arg);

#endif
