/* device.h - the devices of this process, for the header of a file. */
#ifndef TURBO_CUPTI_DEVICE_H
#define TURBO_CUPTI_DEVICE_H

#include <stdint.h>

#include "record.h"

/* Fills in at most `most`, in CUDA's order; how many. After cuInit, any thread. */
uint32_t device_describe(struct timeline_device *device, uint32_t most);

#endif
