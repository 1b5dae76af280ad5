/*
 * protobuf.c - see protobuf.h.
 */
#include <stdlib.h>
#include <string.h>

#include "tools/timeline/protobuf.h"

enum wire { WIRE_VARINT, WIRE_FIXED64, WIRE_BYTES };
#define LENGTH_BYTES 5

void protobuf_free(struct protobuf *p)
{
	free(p->byte);
	*p = (struct protobuf){.byte = NULL};
}

static unsigned char *room(struct protobuf *p, size_t n)
{
	if (p->failed)
		return NULL;
	if (p->room - p->used < n) {
		size_t more = 2 * (p->room + n) + 256;
		unsigned char *byte = realloc(p->byte, more);
		if (!byte) {
			p->failed = true;
			return NULL;
		}
		p->byte = byte;
		p->room = more;
	}
	return p->byte + p->used;
}

static void varint(struct protobuf *p, uint64_t value)
{
	unsigned char *to = room(p, 10);
	size_t n = 0;
	if (!to)
		return;
	for (; value >= 0x80; value >>= 7)
		to[n++] = (unsigned char)(value | 0x80);
	to[n++] = (unsigned char)value;
	p->used += n;
}

static void tag(struct protobuf *p, unsigned field, enum wire wire)
{
	varint(p, (uint64_t)field << 3 | wire);
}

static void bytes(struct protobuf *p, const void *from, size_t n)
{
	unsigned char *to = room(p, n);
	if (!to)
		return;
	memcpy(to, from, n);
	p->used += n;
}

void protobuf_uint(struct protobuf *p, unsigned field, uint64_t value)
{
	tag(p, field, WIRE_VARINT);
	varint(p, value);
}

void protobuf_fixed64(struct protobuf *p, unsigned field, uint64_t value)
{
	tag(p, field, WIRE_FIXED64);
	bytes(p, &value, sizeof(value)); /* little-endian, as all machines are that have GPUs */
}

void protobuf_double(struct protobuf *p, unsigned field, double value)
{
	uint64_t bits;
	memcpy(&bits, &value, sizeof(bits));
	protobuf_fixed64(p, field, bits);
}

void protobuf_text(struct protobuf *p, unsigned field, const char *text)
{
	size_t n = strlen(text);
	tag(p, field, WIRE_BYTES);
	varint(p, n);
	bytes(p, text, n);
}

size_t protobuf_begin(struct protobuf *p, unsigned field)
{
	static const unsigned char nothing[LENGTH_BYTES];
	tag(p, field, WIRE_BYTES);
	bytes(p, nothing, sizeof(nothing));
	return p->used;
}

/* Short messages, nearly all, move back over the length's unused bytes. */
void protobuf_end(struct protobuf *p, size_t begun)
{
	if (p->failed)
		return;
	size_t n = p->used - begun;
	unsigned char *length = p->byte + begun - LENGTH_BYTES;
	if (n < 0x80) {
		length[0] = (unsigned char)n;
		memmove(length + 1, p->byte + begun, n);
		p->used -= LENGTH_BYTES - 1;
		return;
	}
	for (int i = 0; i < LENGTH_BYTES; i++, n >>= 7)
		length[i] = (unsigned char)((n & 0x7f) | (i + 1 < LENGTH_BYTES ? 0x80 : 0));
}
