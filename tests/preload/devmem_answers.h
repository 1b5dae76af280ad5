/* devmem_answers.h - between the files of devmem_answers. */
#ifndef TURBO_TEST_DEVMEM_ANSWERS_H
#define TURBO_TEST_DEVMEM_ANSWERS_H

#include "common/copy_fixture.h"

/* NULL: the driver has none. */
extern CUresult (*get_handle_for_range)(void *, CUdeviceptr, size_t, CUmemRangeHandleType,
										unsigned long long);

CUresult ipc_handle(CUipcMemHandle *handle, CUdeviceptr p);
uint64_t driver_calls(const char *symbol);
void print_range(CUdeviceptr ptr);
void print_attributes(CUdeviceptr ptr);
void print_all(const char *what, CUdeviceptr ptr);
/* Frees it and allocates again. In some modes it takes a moment until freed memory is nobody's. */
CUdeviceptr again(CUdeviceptr freed, size_t bytes);

/* devmem_answers_shown.c: memory that others may see, and that it is really freed. */
void print_shown(void);
/* devmem_answers_where.c: questions from places where the driver answers differently. */
void print_where(void);

#endif
