/* scheduler.h of version 1.0, kept by scripts/abi-baseline: programs that were built with it must go on working. */
#ifndef INFER_SCHEDULER_H
#define INFER_SCHEDULER_H
#include <infer/state.h>
#ifdef __cplusplus
extern "C" {
#endif
typedef struct infer_scheduler infer_scheduler;
typedef struct infer_request infer_request;
typedef uint64_t (*infer_clock_fn)(void *user);
typedef struct infer_scheduler_options {
    uint32_t size;
    uint32_t max_active;
    uint32_t max_waiting;
    uint32_t step_elements;
    uint64_t kv_budget;
    uint64_t reserve_tokens;
    infer_clock_fn clock;
    void *clock_user;
    const char *spill_path;
    uint64_t spill_path_len;
} infer_scheduler_options;
INFER_API infer_status infer_scheduler_create(infer_model *model, const infer_scheduler_options *options, infer_scheduler **out, infer_error *err);
INFER_API infer_scheduler *infer_scheduler_ref(infer_scheduler *scheduler);
INFER_API void infer_scheduler_release(infer_scheduler *scheduler);
INFER_API infer_status infer_scheduler_step(infer_scheduler *scheduler, int32_t *more, infer_cancel *cancel, infer_error *err);
INFER_API infer_status infer_scheduler_wait(infer_scheduler *scheduler, infer_error *err);
INFER_API void infer_scheduler_wake(infer_scheduler *scheduler);
typedef struct infer_scheduler_info {
    uint32_t size;
    uint32_t active;
    uint64_t waiting;
    uint64_t suspended;
    uint64_t submitted, finished, cancelled, failed;
    uint64_t steps;
    uint64_t prompt_tokens;
    uint64_t cached_tokens;
    uint64_t generated_tokens;
    uint64_t preemptions;
    uint64_t kv_bytes;
    uint64_t kv_budget;
    uint64_t computed;
} infer_scheduler_info;
INFER_API infer_status infer_scheduler_get_info(infer_scheduler *scheduler, infer_scheduler_info *out, infer_error *err);
enum {
    INFER_REQUEST_EVENT_PROMPT = 1,
    INFER_REQUEST_EVENT_STARTED = 2,
    INFER_REQUEST_EVENT_TOKEN = 3,
    INFER_REQUEST_EVENT_DONE = 4,
    INFER_REQUEST_EVENT_END = 5
};
typedef struct infer_request_event {
    uint32_t size;
    int32_t kind;
    uint32_t choice;
    int32_t id;
    int32_t finish_reason;
    int32_t stop_index;
    const char *text;
    uint64_t text_len;
    uint64_t done, total;
    float logprob;
    uint32_t top_count;
    const infer_logprob *top;
    const infer_error *error;
} infer_request_event;
typedef void (*infer_request_fn)(void *user, infer_request *request, const infer_request_event *event);
enum {
    INFER_REQUEST_IGNORE_EOS = 1,
    INFER_REQUEST_SHOW_SPECIAL = 2,
    INFER_REQUEST_ECHO = 4,
    INFER_REQUEST_CONTINUE = 8,
    INFER_REQUEST_KEEP = 16,
    INFER_REQUEST_PROMPT_ONLY = 32,
    INFER_REQUEST_PROMPT_LOGPROBS = 64
};
typedef struct infer_request_options {
    uint32_t size;
    uint32_t flags;
    int32_t priority;
    uint32_t n;
    uint64_t client;
    const int32_t *ids;
    uint64_t id_count;
    const char *text;
    uint64_t text_len;
    const infer_message *messages;
    uint64_t message_count;
    const infer_render_options *render;
    uint32_t text_flags;
    uint32_t reserved;
    const infer_session_options *session;
    infer_checkpoint *checkpoint;
    const infer_adapter_use *adapters;
    uint64_t adapter_count;
    infer_adapter *const *prompts;
    uint64_t prompt_count;
    const infer_sampling *sampling;
    const infer_generate_options *generate;
    uint64_t time_limit;
    infer_request_fn callback;
    void *callback_user;
} infer_request_options;
INFER_API infer_status infer_scheduler_submit(infer_scheduler *scheduler, const infer_request_options *options, infer_request **out, infer_error *err);
INFER_API infer_request *infer_request_ref(infer_request *request);
INFER_API void infer_request_release(infer_request *request);
INFER_API void infer_request_cancel(infer_request *request);
INFER_API infer_status infer_request_next(infer_request *request, infer_request_event *out, infer_error *err);
typedef struct infer_request_info {
    uint32_t size;
    int32_t cache_reason;
    uint64_t prompt_tokens;
    uint64_t cached_tokens;
    uint64_t generated_tokens;
    uint64_t near_length;
    uint64_t difference;
    uint64_t preemptions;
    uint64_t submitted, started, first_token, ended;
    double prompt_logprob;
    int32_t own_reason;
    uint32_t reserved;
} infer_request_info;
INFER_API infer_status infer_request_get_info(infer_request *request, infer_request_info *out, infer_error *err);
INFER_API infer_status infer_request_checkpoint(infer_request *request, uint32_t choice, infer_checkpoint **out, infer_error *err);
#ifdef __cplusplus
}
#endif
#endif
