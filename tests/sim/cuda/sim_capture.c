/*
 * sim_capture.c - stream capture.
 */
#include "sim_internal.h"
CUresult sim_capture_unsafe(void) { return CUDA_SUCCESS; }
CUresult sim_capture_add(struct sim_stream *s, struct sim_cmd *cmd) { (void)s; sim_cmd_put(cmd); return CUDA_ERROR_NOT_SUPPORTED; }
CUresult sim_capture_refuse(struct sim_stream *s) { (void)s; return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED; }
bool sim_capture_implicit(struct sim_ctx *ctx) { (void)ctx; return false; }
bool sim_capture_in_ctx(struct sim_ctx *ctx) { (void)ctx; return false; }
CUresult sim_capture_record(struct sim_stream *s, struct sim_event *e) { (void)s; (void)e; return CUDA_ERROR_NOT_SUPPORTED; }
CUresult sim_capture_wait_event(struct sim_stream *s, struct sim_event *e) { (void)s; (void)e; return CUDA_ERROR_NOT_SUPPORTED; }
CUresult sim_capture_event_used(struct sim_event *e) { (void)e; return CUDA_ERROR_CAPTURED_EVENT; }
void sim_capture_stream_gone(struct sim_stream *s) { (void)s; }
void sim_capture_forget_event(struct sim_event *e) { (void)e; }
uintptr_t sim_va_conflict(uintptr_t at, size_t size) { struct sim_range *r = sim_range_overlap(at, size); return r ? r->base + r->size : 0; }
