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
#include "model/hf.h"
#include "infer/state.h"

/* Structs of more bytes are refused: a size that large is garbage, not a newer version. */
#define API_MAX_STRUCT 65536

/* On failure copies local into the host's error (which may be NULL or of another size). Returns st. */
infer_status api_done(infer_error *host, const infer_error *local, infer_status st);

/* Reads a host's option struct: its known bytes go to full (full_size bytes, zeroed beyond them), whose size field is set. in NULL: all
 * zero, the defaults. Refused (ARGUMENT, naming `what`): a size below min (the struct's size in the first release that had it) or
 * above API_MAX_STRUCT, and bytes that are not zero where this library knows no field. */
infer_status api_in_struct(const void *in, uint32_t min, void *full, uint32_t full_size, const char *what,
                           infer_error *err);
/* Checks a host's output struct before work is done. */
infer_status api_check_out(const void *out, uint32_t min, const char *what, infer_error *err);
/* Fills a checked output struct from full: never past its size, zero where this library knows no field. The size stays. */
void api_put_out(void *out, const void *full, uint32_t full_size);

#define API_IN(in, full, what, err) api_in_struct((in), API_MIN_##what, (full), (uint32_t)sizeof *(full), #what, (err))
#define API_CHECK_OUT(out, what, err) api_check_out((out), API_MIN_##what, #what, (err))
#define API_PUT_OUT(out, full) api_put_out((out), (full), (uint32_t)sizeof *(full))

/* The sizes of the structs in their first release: up to the end of their then last field. A field appended later changes no line here. */
#define API_END(type, field) ((uint32_t)(offsetof(type, field) + sizeof(((type *)0)->field)))
#define API_MIN_infer_error API_END(infer_error, text)
#define API_MIN_infer_allocator API_END(infer_allocator, free)
#define API_MIN_infer_engine_options API_END(infer_engine_options, reserved)
#define API_MIN_infer_executor API_END(infer_executor, run)
#define API_MIN_infer_engine_info API_END(infer_engine_info, kv_budget)
#define API_MIN_infer_stream API_END(infer_stream, release)
#define API_MIN_infer_source API_END(infer_source, open)
#define API_MIN_infer_open_options API_END(infer_open_options, cancel)
#define API_MIN_infer_tensor_info API_END(infer_tensor_info, data_len)
#define API_MIN_infer_value API_END(infer_value, data)
#define API_MIN_infer_tokenizer_info API_END(infer_tokenizer_info, reserved)
#define API_MIN_infer_detokenizer API_END(infer_detokenizer, pending)
#define API_MIN_infer_token_info API_END(infer_token_info, bytes_len)
#define API_MIN_infer_render_options API_END(infer_render_options, cancel)
#define API_MIN_infer_model_info API_END(infer_model_info, template_problem)
#define API_MIN_infer_model_memory API_END(infer_model_memory, own_bytes)
#define API_MIN_infer_session_options API_END(infer_session_options, kv_type)
#define API_MIN_infer_session_info API_END(infer_session_info, logits_rows)
#define API_MIN_infer_adapter_info API_END(infer_adapter_info, base)
#define API_MIN_infer_adapter_use API_END(infer_adapter_use, reserved)
#define API_MIN_infer_step_item API_END(infer_step_item, done)
#define API_MIN_infer_hidden API_END(infer_hidden, rows)
#define API_MIN_infer_embed_options API_END(infer_embed_options, max_tokens)
#define API_MIN_infer_embed_item API_END(infer_embed_item, reserved)
#define API_MIN_infer_sampling API_END(infer_sampling, logprobs)
#define API_MIN_infer_sample_result API_END(infer_sample_result, top)
#define API_MIN_infer_cache_report API_END(infer_cache_report, near_length)
#define API_MIN_infer_cache_stats API_END(infer_cache_stats, ghost_bytes)
#define API_MIN_infer_score API_END(infer_score, sum)
#define API_MIN_infer_event API_END(infer_event, top)
#define API_MIN_infer_save_options API_END(infer_save_options, reserved)
#define API_MIN_infer_load_options API_END(infer_load_options, adapters)
#define API_MIN_infer_checkpoint_info API_END(infer_checkpoint_info, bytes)
#define API_MIN_infer_store_options API_END(infer_store_options, max_count)
#define API_MIN_infer_store_entry API_END(infer_store_entry, name)
#define API_MIN_infer_store_info API_END(infer_store_info, bytes)
#define API_MIN_infer_generate_options API_END(infer_generate_options, max_tokens)

/* A string argument: resolves INFER_ZSTR; NULL is allowed with length 0 only. */
infer_status api_text(const char *s, uint64_t len, uint64_t *out_len, const char *what, infer_error *err);
/* An argument that must not be NULL. */
infer_status api_not_null(const void *p, const char *what, infer_error *err);

/* The engine's env, or the default one. Keep it with env_ref. */
const struct env *api_env(const infer_engine *engine);

/* Checks what every open function takes; src and opt become full-size, with lengths resolved. */
infer_status api_open_args(const infer_source *source, const infer_open_options *options, infer_source *src,
                           infer_open_options *opt, infer_error *err);

/* Opens a file from arguments as exported functions get them (all may be anything). */
infer_status api_open_file(const infer_engine *engine, const infer_source *source, const infer_open_options *options,
                           enum hf_use use, struct infer_file **out, infer_error *err);

#endif
