/*
 * protobuf.h - messages in protobuf's wire format, written from the front.
 *
 * A message within another has its length before it: its place is kept as five bytes, enough for 32 bits, and filled
 * in at its end. All of a message is in one growing buffer; after a failure of memory nothing more is put.
 */
#ifndef TURBO_PROTOBUF_H
#define TURBO_PROTOBUF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct protobuf {
	unsigned char *byte;
	size_t used, room;
	bool failed;
};

void protobuf_free(struct protobuf *p);
void protobuf_uint(struct protobuf *p, unsigned field, uint64_t value);
void protobuf_fixed64(struct protobuf *p, unsigned field, uint64_t value);
void protobuf_double(struct protobuf *p, unsigned field, double value);
void protobuf_text(struct protobuf *p, unsigned field, const char *text);
/* Where the message's content begins: for protobuf_end(). */
size_t protobuf_begin(struct protobuf *p, unsigned field);
void protobuf_end(struct protobuf *p, size_t begun);

#endif
