/* What the exported functions share: checking what comes from the host, and translating what goes back.
 *
 * The pattern of an exported function:
 *
 *     infer_status infer_x_open(..., infer_x **out, infer_error *err)
 *     {
 *         infer_error e;
 *         return api_done(err, &e, x_open(..., out, &e));
 *     }
 *
 * Internal functions see full-size structs only; here alone lives the knowledge that a host's struct may be shorter (an older
 * program) or longer (a newer one) than the library's. */
#ifndef API_API_H
#define API_API_H

#include "base/env.h"
#include "formats/file.h"
#include "infer/scheduler.h"
#include "model/hf.h"
#include "infer/state.h"

/* Structs of more bytes are refused: a size that large is garbage, not a newer version. */
#define API_MAX_STRUCT 65536

/* On failure copies local into the host's error (which may be NULL or of another size). Returns st. */
infer_status api_done(infer_error *host, const infer_error *local, infer_status st);
/* The same, for functions that take memory of an env (or NULL): NO_MEMORY says when it was its memory_limit. */
infer_status api_done_in(const struct env *env, infer_error *host, infer_error *local, infer_status st);
/* Instead, where a callback of the host may have released the session: drops the reference that the call held. Returns st. */
infer_status api_let_go(infer_session *held, infer_error *local, infer_status st);
const struct env *api_session_env(const infer_session *session); /* each NULL for NULL */
const struct env *api_model_env(const infer_model *model);

/* Reads a host's option struct: its known bytes go to full (full_size bytes, zeroed beyond them), whose size field is set. in NULL: all
 * zero, the defaults. Refused (ARGUMENT, naming `what`): a size below min or above API_MAX_STRUCT, and bytes that are not zero where this
 * library knows no field; also (ARGUMENT, naming the field) a uint32_t at `reserved` that is not 0. reserved 0: no such field. */
infer_status api_in_struct(const void *in, uint32_t min, uint32_t reserved, void *full, uint32_t full_size, const char *what,
                           infer_error *err);
/* Checks a host's output struct before work is done. */
infer_status api_check_out(const void *out, uint32_t min, const char *what, infer_error *err);
/* Fills a checked output struct from full: never past its size, zero where this library knows no field. The size stays. */
void api_put_out(void *out, const void *full, uint32_t full_size);

#define API_IN(in, full, what, err)                                                                                    \
    api_in_struct((in), API_MIN_##what, API_RESERVED_##what, (full), (uint32_t)sizeof *(full), #what, (err))
#define API_CHECK_OUT(out, what, err) api_check_out((out), API_MIN_##what, #what, (err))
#define API_PUT_OUT(out, full) api_put_out((out), (full), (uint32_t)sizeof *(full))

/* Every public struct that begins with its size: X(type, last, reserved). `last` was its last field in the first release that had it: a struct that
 * ends before the end of that field is refused; a field that is appended later changes no line here. `reserved` is its field that must be 0, or
 * `size`: it has none. tests/abi/test_layout.py sees to it that none is missing, tests/abi/test_callers.c tries each. */
#define API_STRUCTS(X) \
    X(infer_error, text, size) \
    X(infer_allocator, free, reserved) \
    X(infer_executor, run, size) \
    X(infer_engine_options, reserved, reserved) \
    X(infer_engine_info, kv_budget, size) \
    X(infer_stream, release, reserved) \
    X(infer_source, open, size) \
    X(infer_open_options, cancel, size) \
    X(infer_tensor_info, data_len, size) \
    X(infer_value, data, size) \
    X(infer_tokenizer_info, reserved, reserved) \
    X(infer_detokenizer, pending, size) \
    X(infer_token_info, bytes_len, size) \
    X(infer_render_options, cancel, reserved) \
    X(infer_model_info, template_problem, reserved) \
    X(infer_model_memory, own_bytes, reserved) \
    X(infer_estimate_options, budget, size) \
    X(infer_estimate, total_bytes, size) \
    X(infer_session_options, kv_type, size) \
    X(infer_session_info, logits_rows, size) \
    X(infer_hidden, rows, reserved) \
    X(infer_step_item, done, reserved) \
    X(infer_sampling, logprobs, size) \
    X(infer_sample_result, top, size) \
    X(infer_score, sum, size) \
    X(infer_event, top, reserved) \
    X(infer_generate_options, max_tokens, size) \
    X(infer_adapter_info, base, reserved) \
    X(infer_adapter_use, reserved, reserved) \
    X(infer_embed_options, max_tokens, size) \
    X(infer_embed_item, reserved, reserved) \
    X(infer_checkpoint_info, bytes, size) \
    X(infer_store_options, max_count, reserved) \
    X(infer_store_entry, name, size) \
    X(infer_store_info, bytes, reserved) \
    X(infer_cache_report, near_length, reserved) \
    X(infer_cache_stats, ghost_bytes, reserved) \
    X(infer_save_options, reserved, reserved) \
    X(infer_load_options, adapters, reserved) \
    X(infer_scheduler_options, spill_path_len, size) \
    X(infer_scheduler_info, computed, size) \
    X(infer_request_event, error, size) \
    X(infer_request_options, callback_user, reserved) \
    X(infer_request_info, prompt_logprob, reserved)

#define API_END(type, field) ((uint32_t)(offsetof(type, field) + sizeof(((type *)0)->field)))
#define API_STRUCT_ENUM(type, last, reserved) API_MIN_##type = API_END(type, last), API_RESERVED_##type = offsetof(type, reserved),
enum { API_STRUCTS(API_STRUCT_ENUM) API_STRUCTS_END };
#undef API_STRUCT_ENUM

/* A string argument: resolves INFER_ZSTR; NULL is allowed with length 0 only. */
infer_status api_text(const char *s, uint64_t len, uint64_t *out_len, const char *what, infer_error *err);
/* An argument that must not be NULL. */
infer_status api_not_null(const void *p, const char *what, infer_error *err);
/* CANCELLED when the flag is set before the call: behind the checks of arguments, before anything is done. */
infer_status api_not_cancelled(const infer_cancel *cancel, infer_error *err);

/* The engine's env, or the default one. Keep it with env_ref. */
const struct env *api_env(const infer_engine *engine);

/* Checks what every open function takes, and its cancel flag; src and opt become full-size, with lengths resolved. */
infer_status api_open_args(const infer_source *source, const infer_open_options *options, infer_source *src,
                           infer_open_options *opt, infer_error *err);

/* Opens a file from arguments as exported functions get them (all may be anything). */
infer_status api_open_file(const infer_engine *engine, const infer_source *source, const infer_open_options *options,
                           enum hf_use use, struct infer_file **out, infer_error *err);

#endif
