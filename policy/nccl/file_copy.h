/*
 * file_copy.h - what of the record differs from the file goes into the file, in an order that readers can trust.
 *
 * One thread at a time.
 */
#ifndef TURBO_FLIGHT_FILE_COPY_H
#define TURBO_FLIGHT_FILE_COPY_H

#include <stdbool.h>
#include <stdint.h>

#include "flight_page.h"

/* Memory for what the file holds. false: none. */
bool file_copy_start(struct flight_page *page);
/* The file is new and all zeros. */
void file_copy_renew(void);
/* Space of the file that is reserved: `comms` communicators have room. */
bool file_copy_write(int fd, unsigned comms);

#endif
