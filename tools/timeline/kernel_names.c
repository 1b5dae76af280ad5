/*
 * kernel_names.c - what the name of a kernel tells, and how to say it shorter.
 */
#include <stdlib.h>
#include <string.h>

#include "metrics.h"

static bool begins(const char *s, const char *with)
{
	return !strncmp(s, with, strlen(with));
}

/* HTA's get_kernel_type(), to the letter. */
enum report_category kernel_category(const char *name)
{
	if (begins(name, "nccl") && strstr(name, "Kernel"))
		return REPORT_COMMUNICATION;
	if (begins(name, "Memcpy") || begins(name, "Memset") || begins(name, "dma"))
		return REPORT_MEMORY;
	if (strstr(name, "Memcpy") || strstr(name, "Sync"))
		return REPORT_OTHER;
	return REPORT_COMPUTE;
}

static bool has_any(const char *name, const char *const *words)
{
	for (; *words; words++)
		if (strcasestr(name, *words))
			return true;
	return false;
}

/* Names as cuBLAS 11 to 13, cuDNN 8 and 9, CUTLASS and PyTorch give them. */
unsigned kernel_traits(const char *name)
{
	static const char *const gemm[] = {"gemm", "nvjet", "matmul", "cutlass_", NULL};
	static const char *const fp32[] = {"sgemm",           "simt_s", "ffma", "f32f32_f32f32_f32",
									   "scudnn_winograd", NULL};
	static const char *const tensor[] = {"tf32", "tensorop", "bf16", "f16", "fp16", "half", NULL};
	static const char *const conv[] = {"conv", "fprop", "dgrad", "wgrad", "winograd", NULL};
	static const char *const layout[] = {"nchwToNhwc", "nhwcToNchw", "nchw_to_nhwc", "nhwc_to_nchw", NULL};
	static const char *const slow[] = {"implicit_convolve_sgemm",
									   "explicit_convolve",
									   "conv2d_grouped_direct",
									   "conv2d_c1_k1",
									   "naive_conv",
									   NULL};
	unsigned t = 0;
	if (has_any(name, layout))
		return KERNEL_LAYOUT;
	if (has_any(name, conv) && !strcasestr(name, "convert"))
		t |= KERNEL_CONV;
	else if (has_any(name, gemm))
		t |= KERNEL_GEMM;
	if (t && has_any(name, fp32) && !has_any(name, tensor))
		t |= KERNEL_FP32;
	if (has_any(name, slow))
		t |= KERNEL_SLOW_CONV;
	return t;
}

/* ---- shorter ---- */

#define SHORT_MAX 512
#define SHORT_ARGUMENTS 6
#define SHORT_DEPTH 3

struct writer {
	char text[SHORT_MAX];
	size_t used;
};

static void put(struct writer *w, const char *s, size_t n)
{
	if (n > sizeof(w->text) - 1 - w->used)
		n = sizeof(w->text) - 1 - w->used;
	memcpy(w->text + w->used, s, n);
	w->used += n;
}

static int nesting(char c)
{
	return strchr("<([{", c) && c ? 1 : strchr(">)]}", c) && c ? -1 : 0;
}

#define ANONYMOUS "(anonymous namespace)"

/* The parts of "void a::b<X, Y>(int)::{lambda}": name "b", arguments "X, Y", before it "a". What follows the
 * first parameter list, as in names of lambdas, is left out. */
struct parts {
	const char *name, *name_end, *arguments, *arguments_end;
	const char *before; /* the component before name, if that says little by itself */
};

static bool is(const char *s, const char *end, const char *word)
{
	return (size_t)(end - s) == strlen(word) && !strncasecmp(s, word, (size_t)(end - s));
}

/* Of [s, end), one name without return type and parameters, the last component. */
static struct parts component(const char *s, const char *before, const char *end)
{
	struct parts p = {s, end, NULL, NULL, before};
	const char *open = memchr(s, '<', (size_t)(end - s));
	if (open && end[-1] == '>') {
		p.name_end = open;
		p.arguments = open + 1;
		p.arguments_end = end - 1;
	}
	return p;
}

static struct parts split(const char *s, const char *end, bool returns)
{
	const char *name = s, *before = NULL, *c = s;
	int depth = 0;
	for (; c < end; c++) {
		size_t left = (size_t)(end - c);
		if (depth == 0 && left >= sizeof(ANONYMOUS) - 1 && !memcmp(c, ANONYMOUS, sizeof(ANONYMOUS) - 1)) {
			c += sizeof(ANONYMOUS) - 2;
			continue;
		}
		if (depth == 0 && *c == '(')
			break;
		if (depth == 0 && returns && *c == ' ') {
			name = c + 1;
			before = NULL;
		} else if (depth == 0 && left > 2 && c[0] == ':' && c[1] == ':') {
			before = name;
			name = ++c + 1;
		}
		depth += nesting(*c);
	}
	if (before && is(name, c, "operator")) /* a lambda or functor: its class says more */
		return component(before, NULL, name - 2);
	return component(name, before, c);
}

static void shorten(struct writer *w, const char *s, const char *end, int level);

static void put_arguments(struct writer *w, const char *s, const char *end, int level)
{
	int depth = 0, count = 0;
	put(w, "<", 1);
	for (const char *from = s, *c = s;; c++) {
		if (c < end && !(depth == 0 && *c == ',')) {
			depth += nesting(*c);
			continue;
		}
		while (from < c && *from == ' ')
			from++;
		if (count++)
			put(w, ", ", 2);
		if (count > SHORT_ARGUMENTS) {
			put(w, "...", 3);
			break;
		}
		shorten(w, from, c, level + 1);
		if (c >= end)
			break;
		from = c + 1;
	}
	put(w, ">", 1);
}

static void shorten(struct writer *w, const char *s, const char *end, int level)
{
	while (end > s && end[-1] == ' ')
		end--;
	/* A value with its type: "(bool)1". */
	if (level && *s == '(' && s < end && memcmp(s, "(anon", (size_t)(end - s) < 5 ? (size_t)(end - s) : 5)) {
		const char *close = memchr(s, ')', (size_t)(end - s));
		if (close)
			s = close + 1;
		put(w, s, (size_t)(end - s));
		return;
	}
	struct parts p = split(s, end, level == 0);
	/* PyTorch's holders of what is done. */
	if (level && p.arguments && begins(p.name, "gpu_kernel_impl")) {
		shorten(w, p.arguments, p.arguments_end, level);
		return;
	}
	if (p.before && (is(p.name, p.name_end, "kernel") || is(p.name, p.name_end, "kernel2")))
		put(w, p.before, (size_t)(p.name - p.before));
	put(w, p.name, (size_t)(p.name_end - p.name));
	if (p.arguments && level < SHORT_DEPTH)
		put_arguments(w, p.arguments, p.arguments_end, level);
	else if (p.arguments)
		put(w, "<...>", 5);
}

char *kernel_short_name(const char *name)
{
	struct writer w = {.used = 0};
	if (!strpbrk(name, "<(")) /* not a C++ name */
		return metrics_text("%s", name);
	shorten(&w, name, name + strlen(name), 0);
	w.text[w.used] = '\0';
	return metrics_text("%s", w.used ? w.text : name);
}
