/*
 * reduce.c - arithmetic on NCCL's types. Types narrower than 32 bits are computed as float and rounded
 * at every step.
 */
#include <math.h>
#include <string.h>

#include "internal.h"

size_t type_size(ncclDataType_t type)
{
	static const unsigned char size[ncclNumTypes] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1};
	return (unsigned)type < ncclNumTypes ? size[type] : 0;
}

/* ---- small floating-point types: sign, exponent, mantissa ---- */

struct format {
	int exponent, mantissa, bias;
	bool has_infinity; /* else the largest exponent has numbers, too, and all ones is no number */
};

static const struct format *format_of(ncclDataType_t type)
{
	static const struct format half = {5, 10, 15, true}, bf16 = {8, 7, 127, true}, e4m3 = {4, 3, 7, false},
							   e5m2 = {5, 2, 15, true};
	switch (type) {
	case ncclFloat16: return &half;
	case ncclBfloat16: return &bf16;
	case ncclFloat8e4m3: return &e4m3;
	case ncclFloat8e5m2: return &e5m2;
	default: return NULL;
	}
}

static float widen(const struct format *f, uint32_t bits)
{
	uint32_t mantissa = bits & ((1u << f->mantissa) - 1);
	uint32_t top = (1u << f->exponent) - 1, exponent = (bits >> f->mantissa) & top;
	float sign = bits >> (f->mantissa + f->exponent) & 1 ? -1.0f : 1.0f;
	if (exponent == top && f->has_infinity)
		return mantissa ? NAN : sign * INFINITY;
	if (exponent == top && mantissa == (1u << f->mantissa) - 1)
		return NAN;
	if (!exponent)
		return sign * ldexpf((float)mantissa, 1 - f->bias - f->mantissa);
	return sign * ldexpf((float)(mantissa | 1u << f->mantissa), (int)exponent - f->bias - f->mantissa);
}

/* To nearest, ties to even; what is too large is infinite, or the largest number where there is no infinity. */
static uint32_t narrow(const struct format *f, float x)
{
	uint32_t sign = signbit(x) ? 1u << (f->mantissa + f->exponent) : 0, top = (1u << f->exponent) - 1;
	uint32_t infinite = top << f->mantissa, largest = infinite | ((1u << f->mantissa) - 2);
	if (isnan(x))
		return infinite | ((1u << f->mantissa) - 1);
	if (x == 0)
		return sign;
	int e;
	frexpf(fabsf(x), &e); /* [0.5, 1) * 2^e */
	int exponent = e - 1 + f->bias;
	if (exponent > (int)top)
		return sign | (f->has_infinity ? infinite : largest);
	int shift = (exponent < 1 ? 1 : exponent) - f->bias - f->mantissa;
	uint32_t m = (uint32_t)rintf(ldexpf(fabsf(x), -shift));
	/* A mantissa that was rounded up to the next power of two carries into the exponent. */
	uint32_t bits = exponent < 1 ? m : m + ((uint32_t)(exponent - 1) << f->mantissa);
	if (f->has_infinity ? bits >= infinite : bits > largest)
		bits = f->has_infinity ? infinite : largest;
	return sign | bits;
}

static uint32_t get_bits(const void *at, size_t i, size_t size)
{
	return size == 1 ? ((const uint8_t *)at)[i] : ((const uint16_t *)at)[i];
}
static void put_bits(void *at, size_t i, size_t size, uint32_t bits)
{
	if (size == 1)
		((uint8_t *)at)[i] = (uint8_t)bits;
	else
		((uint16_t *)at)[i] = (uint16_t)bits;
}

static float combine(ncclRedOp_t op, float a, float b)
{
	switch (op) {
	case ncclProd: return a * b;
	case ncclMax: return a > b ? a : b;
	case ncclMin: return a < b ? a : b;
	default: return a + b;
	}
}

static void reduce_small(ncclRedOp_t op, ncclDataType_t type, void *acc, const void *in, size_t n)
{
	const struct format *f = format_of(type);
	size_t size = type_size(type);
	for (size_t i = 0; i < n; i++) {
		float a = widen(f, get_bits(acc, i, size)), b = widen(f, get_bits(in, i, size));
		put_bits(acc, i, size, narrow(f, combine(op, a, b)));
	}
}

/* ---- the others: as C has them; integers wrap around ---- */

#define EACH(acc_, in_, expression)                \
	for (size_t i = 0; i < n; i++) {               \
		__typeof__(*acc_) a = acc_[i], b = in_[i]; \
		acc_[i] = (__typeof__(*acc_))(expression); \
	}
#define REDUCE(name, ctype, wide)                                          \
	static void name(ncclRedOp_t op, void *to, const void *from, size_t n) \
	{                                                                      \
		ctype *acc = to;                                                   \
		const ctype *in = from;                                            \
		switch (op) {                                                      \
		case ncclProd: EACH(acc, in, (wide)a *(wide)b) break;              \
		case ncclMax: EACH(acc, in, a > b ? a : b) break;                  \
		case ncclMin: EACH(acc, in, a < b ? a : b) break;                  \
		default: EACH(acc, in, (wide)a + (wide)b) break;                   \
		}                                                                  \
	}
REDUCE(reduce_i8, int8_t, uint32_t)
REDUCE(reduce_u8, uint8_t, uint32_t)
REDUCE(reduce_i32, int32_t, uint32_t)
REDUCE(reduce_u32, uint32_t, uint32_t)
REDUCE(reduce_i64, int64_t, uint64_t)
REDUCE(reduce_u64, uint64_t, uint64_t)
REDUCE(reduce_f32, float, float)
REDUCE(reduce_f64, double, double)

void reduce(ncclRedOp_t op, ncclDataType_t type, void *acc, const void *in, size_t n)
{
	switch (type) {
	case ncclInt8: reduce_i8(op, acc, in, n); break;
	case ncclUint8: reduce_u8(op, acc, in, n); break;
	case ncclInt32: reduce_i32(op, acc, in, n); break;
	case ncclUint32: reduce_u32(op, acc, in, n); break;
	case ncclInt64: reduce_i64(op, acc, in, n); break;
	case ncclUint64: reduce_u64(op, acc, in, n); break;
	case ncclFloat32: reduce_f32(op, acc, in, n); break;
	case ncclFloat64: reduce_f64(op, acc, in, n); break;
	default: reduce_small(op, type, acc, in, n); break;
	}
}

#define SCALE(ctype, expression)                 \
	for (size_t i = 0; i < n; i++) {             \
		ctype a = ((ctype *)acc)[i];             \
		((ctype *)acc)[i] = (ctype)(expression); \
	}                                            \
	break

void reduce_average(ncclDataType_t type, void *acc, size_t n, int ranks)
{
	size_t size = type_size(type);
	switch (type) {
	case ncclInt8: SCALE(int8_t, a / ranks);
	case ncclUint8: SCALE(uint8_t, a / (unsigned)ranks);
	case ncclInt32: SCALE(int32_t, a / ranks);
	case ncclUint32: SCALE(uint32_t, a / (unsigned)ranks);
	case ncclInt64: SCALE(int64_t, a / ranks);
	case ncclUint64: SCALE(uint64_t, a / (unsigned)ranks);
	case ncclFloat32: SCALE(float, a / (float)ranks);
	case ncclFloat64: SCALE(double, a / ranks);
	default:
		for (size_t i = 0; i < n; i++) {
			float a = widen(format_of(type), get_bits(acc, i, size)) / (float)ranks;
			put_bits(acc, i, size, narrow(format_of(type), a));
		}
	}
}

#define SCALE_BY(ctype, wide)                                                \
	{                                                                        \
		ctype by;                                                            \
		memcpy(&by, scalar, sizeof by);                                      \
		for (size_t i = 0; i < n; i++)                                       \
			((ctype *)acc)[i] = (ctype)((wide)((ctype *)acc)[i] * (wide)by); \
	}                                                                        \
	break

void reduce_scale(ncclDataType_t type, void *acc, size_t n, const void *scalar)
{
	size_t size = type_size(type);
	switch (type) {
	case ncclInt8: SCALE_BY(int8_t, uint32_t);
	case ncclUint8: SCALE_BY(uint8_t, uint32_t);
	case ncclInt32: SCALE_BY(int32_t, uint32_t);
	case ncclUint32: SCALE_BY(uint32_t, uint32_t);
	case ncclInt64: SCALE_BY(int64_t, uint64_t);
	case ncclUint64: SCALE_BY(uint64_t, uint64_t);
	case ncclFloat32: SCALE_BY(float, float);
	case ncclFloat64: SCALE_BY(double, double);
	default: {
		const struct format *f = format_of(type);
		float by = widen(f, get_bits(scalar, 0, size));
		for (size_t i = 0; i < n; i++)
			put_bits(acc, i, size, narrow(f, widen(f, get_bits(acc, i, size)) * by));
	}
	}
}
