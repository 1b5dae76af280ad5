/*
 * rank_data.c - data that ranks know of each other.
 */
#include "rank_data.h"

#include <math.h>
#include <string.h>

const char *const data_func_names[DATA_FUNCS] = {
	"allgather", "allreduce", "reducescatter", "reduce", "broadcast", "bcast",
	"alltoall",  "gather",    "scatter",       "send",   "recv",
};
const char *const data_type_names[ncclNumTypes] = {
	"i8", "u8", "i32", "u32", "i64", "u64", "f16", "f32", "f64", "bf16", "e4m3", "e5m2",
};

size_t data_size(ncclDataType_t type)
{
	static const unsigned char size[ncclNumTypes] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1};
	return size[type];
}

static double value(ncclDataType_t type, int rank, size_t i)
{
	if (data_size(type) == 1)
		return (double)((i + (size_t)rank) % 4);
	return (double)(rank + 1) * (double)(i % 7 + 1);
}

/* Small whole numbers, and quarters: exact in every type here. */
static uint32_t small_bits(double v, int exponent_bits, int mantissa_bits)
{
	int e, bias = (1 << (exponent_bits - 1)) - 1;
	if (v == 0)
		return 0;
	double m = frexp(v, &e) * 2 - 1; /* v = (1 + m) * 2^(e - 1) */
	return ((uint32_t)(e - 1 + bias) << mantissa_bits) | (uint32_t)lrint(ldexp(m, mantissa_bits));
}

static void put(void *to, ncclDataType_t type, size_t i, double v)
{
	switch (type) {
	case ncclInt8: ((int8_t *)to)[i] = (int8_t)v; break;
	case ncclUint8: ((uint8_t *)to)[i] = (uint8_t)v; break;
	case ncclInt32: ((int32_t *)to)[i] = (int32_t)v; break;
	case ncclUint32: ((uint32_t *)to)[i] = (uint32_t)v; break;
	case ncclInt64: ((int64_t *)to)[i] = (int64_t)v; break;
	case ncclUint64: ((uint64_t *)to)[i] = (uint64_t)v; break;
	case ncclFloat16: ((uint16_t *)to)[i] = (uint16_t)small_bits(v, 5, 10); break;
	case ncclBfloat16: ((uint16_t *)to)[i] = (uint16_t)small_bits(v, 8, 7); break;
	case ncclFloat32: ((float *)to)[i] = (float)v; break;
	case ncclFloat64: ((double *)to)[i] = v; break;
	case ncclFloat8e4m3: ((uint8_t *)to)[i] = (uint8_t)small_bits(v, 4, 3); break;
	default: ((uint8_t *)to)[i] = (uint8_t)small_bits(v, 5, 2); break;
	}
}

void data_fill(void *to, ncclDataType_t type, int rank, size_t first, size_t n)
{
	for (size_t i = 0; i < n; i++)
		put(to, type, i, value(type, rank, first + i));
}

static bool sends_all(enum data_func f)
{
	return f == DATA_REDUCESCATTER || f == DATA_ALLTOALL || f == DATA_SCATTER;
}

size_t data_sends(const struct data_op *op)
{
	return op->func == DATA_RECV ? 0 : op->count * (size_t)(sends_all(op->func) ? op->ranks : 1);
}

size_t data_receives(const struct data_op *op)
{
	enum data_func f = op->func;
	if (f == DATA_SEND || ((f == DATA_REDUCE || f == DATA_GATHER) && op->root != op->rank))
		return 0;
	return op->count *
		   (size_t)(f == DATA_ALLGATHER || f == DATA_ALLTOALL || f == DATA_GATHER ? op->ranks : 1);
}

static double reduced(const struct data_op *op, size_t i)
{
	double v = value(op->type, 0, i);
	for (int r = 1; r < op->ranks; r++) {
		double w = value(op->type, r, i);
		v = op->op == ncclProd  ? v * w
			: op->op == ncclMax ? fmax(v, w)
			: op->op == ncclMin ? fmin(v, w)
								: v + w;
	}
	if (op->op != ncclAvg)
		return v;
	bool whole = op->type <= ncclUint64;
	return whole ? trunc(v / op->ranks) : v / op->ranks;
}

/* Element i of what is received. */
static double expected(const struct data_op *op, size_t i)
{
	int block = (int)(i / op->count);
	size_t in = i % op->count;
	switch (op->func) {
	case DATA_ALLGATHER:
	case DATA_GATHER: return value(op->type, block, in);
	case DATA_ALLREDUCE:
	case DATA_REDUCE: return reduced(op, i);
	case DATA_REDUCESCATTER: return reduced(op, (size_t)op->rank * op->count + i);
	case DATA_ALLTOALL: return value(op->type, block, (size_t)op->rank * op->count + in);
	case DATA_SCATTER: return value(op->type, op->root, (size_t)op->rank * op->count + i);
	default: return value(op->type, op->root, i);
	}
}

int64_t data_check(const struct data_op *op, const void *received)
{
	size_t size = data_size(op->type), n = data_receives(op);
	for (size_t i = 0; i < n; i++) {
		uint64_t want = 0;
		put(&want, op->type, 0, expected(op, i));
		if (memcmp(&want, (const char *)received + i * size, size))
			return (int64_t)i;
	}
	return -1;
}
