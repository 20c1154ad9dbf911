/* The layout of the scheduler's public structs, as abi.c has those of infer.h. */
#include "infer/scheduler.h"

#if UINTPTR_MAX == UINT64_MAX
#define AT(type, field, offset) _Static_assert(offsetof(type, field) == (offset), #type "." #field " moved")
#define SIZE(type, size) _Static_assert(sizeof(type) == (size), "size of " #type " changed")

AT(infer_scheduler_options, size, 0);
AT(infer_scheduler_options, max_active, 4);
AT(infer_scheduler_options, max_waiting, 8);
AT(infer_scheduler_options, step_elements, 12);
AT(infer_scheduler_options, kv_budget, 16);
AT(infer_scheduler_options, reserve_tokens, 24);
AT(infer_scheduler_options, clock, 32);
AT(infer_scheduler_options, clock_user, 40);
AT(infer_scheduler_options, spill_path, 48);
AT(infer_scheduler_options, spill_path_len, 56);
SIZE(infer_scheduler_options, 64);

AT(infer_scheduler_info, size, 0);
AT(infer_scheduler_info, active, 4);
AT(infer_scheduler_info, waiting, 8);
AT(infer_scheduler_info, suspended, 16);
AT(infer_scheduler_info, submitted, 24);
AT(infer_scheduler_info, finished, 32);
AT(infer_scheduler_info, cancelled, 40);
AT(infer_scheduler_info, failed, 48);
AT(infer_scheduler_info, steps, 56);
AT(infer_scheduler_info, prompt_tokens, 64);
AT(infer_scheduler_info, cached_tokens, 72);
AT(infer_scheduler_info, generated_tokens, 80);
AT(infer_scheduler_info, preemptions, 88);
AT(infer_scheduler_info, kv_bytes, 96);
AT(infer_scheduler_info, kv_budget, 104);
AT(infer_scheduler_info, computed, 112);
SIZE(infer_scheduler_info, 120);

AT(infer_request_event, size, 0);
AT(infer_request_event, kind, 4);
AT(infer_request_event, choice, 8);
AT(infer_request_event, id, 12);
AT(infer_request_event, finish_reason, 16);
AT(infer_request_event, stop_index, 20);
AT(infer_request_event, text, 24);
AT(infer_request_event, text_len, 32);
AT(infer_request_event, done, 40);
AT(infer_request_event, total, 48);
AT(infer_request_event, logprob, 56);
AT(infer_request_event, top_count, 60);
AT(infer_request_event, top, 64);
AT(infer_request_event, error, 72);
SIZE(infer_request_event, 80);

AT(infer_request_options, size, 0);
AT(infer_request_options, flags, 4);
AT(infer_request_options, priority, 8);
AT(infer_request_options, n, 12);
AT(infer_request_options, client, 16);
AT(infer_request_options, ids, 24);
AT(infer_request_options, id_count, 32);
AT(infer_request_options, text, 40);
AT(infer_request_options, text_len, 48);
AT(infer_request_options, messages, 56);
AT(infer_request_options, message_count, 64);
AT(infer_request_options, render, 72);
AT(infer_request_options, text_flags, 80);
AT(infer_request_options, reserved, 84);
AT(infer_request_options, session, 88);
AT(infer_request_options, checkpoint, 96);
AT(infer_request_options, adapters, 104);
AT(infer_request_options, adapter_count, 112);
AT(infer_request_options, prompts, 120);
AT(infer_request_options, prompt_count, 128);
AT(infer_request_options, sampling, 136);
AT(infer_request_options, generate, 144);
AT(infer_request_options, time_limit, 152);
AT(infer_request_options, callback, 160);
AT(infer_request_options, callback_user, 168);
SIZE(infer_request_options, 176);

AT(infer_request_info, size, 0);
AT(infer_request_info, cache_reason, 4);
AT(infer_request_info, prompt_tokens, 8);
AT(infer_request_info, cached_tokens, 16);
AT(infer_request_info, generated_tokens, 24);
AT(infer_request_info, near_length, 32);
AT(infer_request_info, difference, 40);
AT(infer_request_info, preemptions, 48);
AT(infer_request_info, submitted, 56);
AT(infer_request_info, started, 64);
AT(infer_request_info, first_token, 72);
AT(infer_request_info, ended, 80);
AT(infer_request_info, prompt_logprob, 88);
AT(infer_request_info, own_reason, 96);
AT(infer_request_info, reserved, 100);
SIZE(infer_request_info, 104);
#endif

typedef int abi_scheduler_not_empty; /* a translation unit needs a declaration */
