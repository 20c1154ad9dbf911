/* The layout of every public struct, nailed down: a change of any of these lines breaks programs that are already built. Offsets
 * are those of 64-bit systems; on 32-bit ones pointers are shorter, and nothing else differs. */
#include "infer/state.h"

#if UINTPTR_MAX == UINT64_MAX
#define AT(type, field, offset) _Static_assert(offsetof(type, field) == (offset), #type "." #field " moved")
#define SIZE(type, size) _Static_assert(sizeof(type) == (size), "size of " #type " changed")

AT(infer_error, size, 0);
AT(infer_error, code, 4);
AT(infer_error, offset, 8);
AT(infer_error, file, 16);
AT(infer_error, name, 272);
AT(infer_error, text, 400);
SIZE(infer_error, 912);

AT(infer_allocator, size, 0);
AT(infer_allocator, reserved, 4);
AT(infer_allocator, user, 8);
AT(infer_allocator, alloc, 16);
AT(infer_allocator, free, 24);
SIZE(infer_allocator, 32);

AT(infer_engine_options, size, 0);
AT(infer_engine_options, cpu, 4);
AT(infer_engine_options, numerics, 8);
AT(infer_engine_options, threads, 12);
AT(infer_engine_options, kv_budget, 16);
AT(infer_engine_options, allocator, 24);
AT(infer_engine_options, log, 32);
AT(infer_engine_options, log_user, 40);
AT(infer_engine_options, log_level, 48);
AT(infer_engine_options, reserved, 52);
AT(infer_engine_options, executor, 56);
AT(infer_engine_options, cache_bytes, 64);
AT(infer_engine_options, cache_dir, 72);
AT(infer_engine_options, cache_dir_len, 80);
AT(infer_engine_options, cache_dir_bytes, 88);
AT(infer_engine_options, cache_write_bytes, 96);
AT(infer_engine_options, memory_limit, 104);
SIZE(infer_engine_options, 112);

AT(infer_executor, size, 0);
AT(infer_executor, concurrency, 4);
AT(infer_executor, user, 8);
AT(infer_executor, run, 16);
SIZE(infer_executor, 24);

AT(infer_engine_info, size, 0);
AT(infer_engine_info, cpu, 4);
AT(infer_engine_info, numerics, 8);
AT(infer_engine_info, threads, 12);
AT(infer_engine_info, kv_bytes, 16);
AT(infer_engine_info, kv_budget, 24);
AT(infer_engine_info, memory_bytes, 32);
AT(infer_engine_info, memory_peak, 40);
AT(infer_engine_info, memory_limit, 48);
SIZE(infer_engine_info, 56);

AT(infer_estimate_options, size, 0);
AT(infer_estimate_options, kv_type, 4);
AT(infer_estimate_options, n_ctx, 8);
AT(infer_estimate_options, sessions, 12);
AT(infer_estimate_options, kv_recent, 16);
AT(infer_estimate_options, threads, 20);
AT(infer_estimate_options, budget, 24);
SIZE(infer_estimate_options, 32);

AT(infer_estimate, size, 0);
AT(infer_estimate, n_ctx, 4);
AT(infer_estimate, weight_bytes, 8);
AT(infer_estimate, mapped_bytes, 16);
AT(infer_estimate, own_bytes, 24);
AT(infer_estimate, kv_bytes, 32);
AT(infer_estimate, scratch_bytes, 40);
AT(infer_estimate, open_bytes, 48);
AT(infer_estimate, memory_bytes, 56);
AT(infer_estimate, total_bytes, 64);
SIZE(infer_estimate, 72);

AT(infer_stream, size, 0);
AT(infer_stream, reserved, 4);
AT(infer_stream, length, 8);
AT(infer_stream, data, 16);
AT(infer_stream, user, 24);
AT(infer_stream, read, 32);
AT(infer_stream, release, 40);
SIZE(infer_stream, 48);

AT(infer_source, size, 0);
AT(infer_source, kind, 4);
AT(infer_source, name, 8);
AT(infer_source, name_len, 16);
AT(infer_source, descriptor, 24);
AT(infer_source, data, 32);
AT(infer_source, length, 40);
AT(infer_source, user, 48);
AT(infer_source, open, 56);
SIZE(infer_source, 64);

AT(infer_open_options, size, 0);
AT(infer_open_options, map, 4);
AT(infer_open_options, cancel, 8);
AT(infer_open_options, n_ctx, 16);
AT(infer_open_options, quantise, 20);
SIZE(infer_open_options, 24);

AT(infer_tensor_info, size, 0);
AT(infer_tensor_info, type, 4);
AT(infer_tensor_info, name, 8);
AT(infer_tensor_info, name_len, 16);
AT(infer_tensor_info, shape, 24);
AT(infer_tensor_info, dims, 56);
AT(infer_tensor_info, part, 60);
AT(infer_tensor_info, offset, 64);
AT(infer_tensor_info, data, 72);
AT(infer_tensor_info, data_len, 80);
SIZE(infer_tensor_info, 88);

AT(infer_value, size, 0);
AT(infer_value, kind, 4);
AT(infer_value, item_kind, 8);
AT(infer_value, width, 12);
AT(infer_value, count, 16);
AT(infer_value, u, 24);
AT(infer_value, i, 32);
AT(infer_value, f, 40);
AT(infer_value, data, 48);
SIZE(infer_value, 56);

AT(infer_tokenizer_info, size, 0);
AT(infer_tokenizer_info, kind, 4);
AT(infer_tokenizer_info, vocab_size, 8);
AT(infer_tokenizer_info, bos, 12);
AT(infer_tokenizer_info, eos, 16);
AT(infer_tokenizer_info, eot, 20);
AT(infer_tokenizer_info, unk, 24);
AT(infer_tokenizer_info, sep, 28);
AT(infer_tokenizer_info, pad, 32);
AT(infer_tokenizer_info, mask, 36);
AT(infer_tokenizer_info, add_bos, 40);
AT(infer_tokenizer_info, add_eos, 44);
AT(infer_tokenizer_info, reserved, 48);
SIZE(infer_tokenizer_info, 52);

AT(infer_detokenizer, size, 0);
AT(infer_detokenizer, flags, 4);
AT(infer_detokenizer, pending_len, 8);
AT(infer_detokenizer, started, 12);
AT(infer_detokenizer, pending, 16);
SIZE(infer_detokenizer, 32);

AT(infer_token_info, size, 0);
AT(infer_token_info, kind, 4);
AT(infer_token_info, score, 8);
AT(infer_token_info, ends_turn, 12);
AT(infer_token_info, piece, 16);
AT(infer_token_info, piece_len, 24);
AT(infer_token_info, bytes, 32);
AT(infer_token_info, bytes_len, 40);
SIZE(infer_token_info, 48);

AT(infer_render_options, size, 0);
AT(infer_render_options, reserved, 4);
AT(infer_render_options, now, 8);
AT(infer_render_options, max_output, 16);
AT(infer_render_options, max_steps, 24);
AT(infer_render_options, max_memory, 32);
AT(infer_render_options, cancel, 40);
SIZE(infer_render_options, 48);

AT(infer_model_info, size, 0);
AT(infer_model_info, vocab_size, 4);
AT(infer_model_info, n_layer, 8);
AT(infer_model_info, n_embd, 12);
AT(infer_model_info, n_head, 16);
AT(infer_model_info, n_head_kv, 20);
AT(infer_model_info, head_dim, 24);
AT(infer_model_info, n_ctx_train, 28);
AT(infer_model_info, window, 32);
AT(infer_model_info, reserved, 36);
AT(infer_model_info, n_params, 40);
AT(infer_model_info, weight_bytes, 48);
AT(infer_model_info, architecture, 56);
AT(infer_model_info, name, 88);
AT(infer_model_info, tokenizer_problem, 216);
AT(infer_model_info, template_problem, 472);
AT(infer_model_info, embedding_width, 728);
AT(infer_model_info, pooling, 732);
AT(infer_model_info, encoder, 736);
AT(infer_model_info, embed_tokens, 740);
SIZE(infer_model_info, 744);

AT(infer_model_memory, size, 0);
AT(infer_model_memory, n_expert, 4);
AT(infer_model_memory, n_expert_used, 8);
AT(infer_model_memory, reserved, 12);
AT(infer_model_memory, weight_bytes, 16);
AT(infer_model_memory, resident_bytes, 24);
AT(infer_model_memory, expert_bytes, 32);
AT(infer_model_memory, expert_resident_bytes, 40);
AT(infer_model_memory, own_bytes, 48);
SIZE(infer_model_memory, 56);

AT(infer_session_options, size, 0);
AT(infer_session_options, n_ctx, 4);
AT(infer_session_options, kv_type, 8);
AT(infer_session_options, kv_recent, 12);
AT(infer_session_options, cache_flags, 16);
AT(infer_session_options, salt_len, 20);
AT(infer_session_options, salt, 24);
SIZE(infer_session_options, 32);

AT(infer_message, role, 0);
AT(infer_message, role_len, 8);
AT(infer_message, content, 16);
AT(infer_message, content_len, 24);
SIZE(infer_message, 32);

AT(infer_session_info, size, 0);
AT(infer_session_info, n_ctx, 4);
AT(infer_session_info, length, 8);
AT(infer_session_info, computed, 16);
AT(infer_session_info, kv_bytes, 24);
AT(infer_session_info, logits_rows, 32);
AT(infer_session_info, kv_shared_bytes, 40);
AT(infer_session_info, kv_mapped_bytes, 48);
AT(infer_session_info, approximate, 56);
AT(infer_session_info, kv_recent, 60);
AT(infer_session_info, adapters, 64);
SIZE(infer_session_info, 72);

AT(infer_adapter_info, size, 0);
AT(infer_adapter_info, kind, 4);
AT(infer_adapter_info, hash, 8);
AT(infer_adapter_info, targets, 24);
AT(infer_adapter_info, bytes, 32);
AT(infer_adapter_info, own_bytes, 40);
AT(infer_adapter_info, rank, 48);
AT(infer_adapter_info, rows, 52);
AT(infer_adapter_info, invocation_count, 56);
AT(infer_adapter_info, reserved, 60);
AT(infer_adapter_info, base, 64);
SIZE(infer_adapter_info, 192);

AT(infer_adapter_use, size, 0);
AT(infer_adapter_use, mode, 4);
AT(infer_adapter_use, adapter, 8);
AT(infer_adapter_use, scale, 16);
AT(infer_adapter_use, first_layer, 20);
AT(infer_adapter_use, layer_count, 24);
AT(infer_adapter_use, reserved, 28);
SIZE(infer_adapter_use, 32);

AT(infer_step_item, size, 0);
AT(infer_step_item, status, 4);
AT(infer_step_item, session, 8);
AT(infer_step_item, max_elements, 16);
AT(infer_step_item, mask, 24);
AT(infer_step_item, logits, 32);
AT(infer_step_item, reserved, 36);
AT(infer_step_item, done, 40);
AT(infer_step_item, hidden, 48);
SIZE(infer_step_item, 56);

AT(infer_hidden, size, 0);
AT(infer_hidden, elements, 4);
AT(infer_hidden, mask, 8);
AT(infer_hidden, layers, 16);
AT(infer_hidden, layer_count, 24);
AT(infer_hidden, reserved, 28);
AT(infer_hidden, out, 32);
AT(infer_hidden, capacity, 40);
AT(infer_hidden, rows, 48);
SIZE(infer_hidden, 56);

AT(infer_embed_options, size, 0);
AT(infer_embed_options, pooling, 4);
AT(infer_embed_options, flags, 8);
AT(infer_embed_options, dimensions, 12);
AT(infer_embed_options, max_tokens, 16);
SIZE(infer_embed_options, 24);

AT(infer_embed_item, size, 0);
AT(infer_embed_item, status, 4);
AT(infer_embed_item, text, 8);
AT(infer_embed_item, text_len, 16);
AT(infer_embed_item, ids, 24);
AT(infer_embed_item, id_count, 32);
AT(infer_embed_item, out, 40);
AT(infer_embed_item, capacity, 48);
AT(infer_embed_item, rows, 56);
AT(infer_embed_item, tokens, 64);
AT(infer_embed_item, truncated, 72);
AT(infer_embed_item, reserved, 76);
SIZE(infer_embed_item, 80);

AT(infer_bias, id, 0);
AT(infer_bias, bias, 4);
SIZE(infer_bias, 8);

AT(infer_sampling, size, 0);
AT(infer_sampling, top_k, 4);
AT(infer_sampling, temperature, 8);
AT(infer_sampling, top_p, 12);
AT(infer_sampling, min_p, 16);
AT(infer_sampling, typical_p, 20);
AT(infer_sampling, repetition_penalty, 24);
AT(infer_sampling, presence_penalty, 28);
AT(infer_sampling, frequency_penalty, 32);
AT(infer_sampling, penalty_last_n, 36);
AT(infer_sampling, seed, 40);
AT(infer_sampling, bias, 48);
AT(infer_sampling, bias_count, 56);
AT(infer_sampling, callback, 64);
AT(infer_sampling, callback_user, 72);
AT(infer_sampling, top_logprobs, 80);
AT(infer_sampling, logprobs, 84);
SIZE(infer_sampling, 88);

AT(infer_logprob, id, 0);
AT(infer_logprob, logprob, 4);
SIZE(infer_logprob, 8);

AT(infer_sample_result, size, 0);
AT(infer_sample_result, id, 4);
AT(infer_sample_result, logprob, 8);
AT(infer_sample_result, top_count, 12);
AT(infer_sample_result, top, 16);
SIZE(infer_sample_result, 24);

AT(infer_score, size, 0);
AT(infer_score, top_logprobs, 4);
AT(infer_score, logprobs, 8);
AT(infer_score, top, 16);
AT(infer_score, first, 24);
AT(infer_score, sum, 32);
SIZE(infer_score, 40);

AT(infer_event, size, 0);
AT(infer_event, kind, 4);
AT(infer_event, id, 8);
AT(infer_event, finish_reason, 12);
AT(infer_event, text, 16);
AT(infer_event, text_len, 24);
AT(infer_event, done, 32);
AT(infer_event, total, 40);
AT(infer_event, logprob, 48);
AT(infer_event, top_count, 52);
AT(infer_event, top, 56);
AT(infer_event, stop_index, 64);
AT(infer_event, reserved, 68);
SIZE(infer_event, 72);

AT(infer_text, text, 0);
AT(infer_text, text_len, 8);
SIZE(infer_text, 16);

AT(infer_generate_options, size, 0);
AT(infer_generate_options, flags, 4);
AT(infer_generate_options, max_tokens, 8);
AT(infer_generate_options, shift_keep, 16);
AT(infer_generate_options, shift_drop, 24);
AT(infer_generate_options, stops, 32);
AT(infer_generate_options, stop_count, 40);
AT(infer_generate_options, stop_ids, 48);
AT(infer_generate_options, stop_id_count, 56);
AT(infer_generate_options, repeat_guard, 64);
SIZE(infer_generate_options, 72);

AT(infer_checkpoint_info, size, 0);
AT(infer_checkpoint_info, n_ctx, 4);
AT(infer_checkpoint_info, kv_type, 8);
AT(infer_checkpoint_info, approximate, 12);
AT(infer_checkpoint_info, length, 16);
AT(infer_checkpoint_info, computed, 24);
AT(infer_checkpoint_info, kv_bytes, 32);
AT(infer_checkpoint_info, kv_shared_bytes, 40);
AT(infer_checkpoint_info, kv_mapped_bytes, 48);
AT(infer_checkpoint_info, logits_rows, 56);
AT(infer_checkpoint_info, generating, 64);
AT(infer_checkpoint_info, kv_recent, 68);
AT(infer_checkpoint_info, bytes, 72);
AT(infer_checkpoint_info, adapters, 80);
SIZE(infer_checkpoint_info, 88);

AT(infer_store_options, size, 0);
AT(infer_store_options, reserved, 4);
AT(infer_store_options, max_bytes, 8);
AT(infer_store_options, max_count, 16);
SIZE(infer_store_options, 24);

AT(infer_store_entry, size, 0);
AT(infer_store_entry, name_len, 4);
AT(infer_store_entry, bytes, 8);
AT(infer_store_entry, length, 16);
AT(infer_store_entry, computed, 24);
AT(infer_store_entry, kv_type, 32);
AT(infer_store_entry, approximate, 36);
AT(infer_store_entry, name, 40);
SIZE(infer_store_entry, 296);

AT(infer_store_info, size, 0);
AT(infer_store_info, reserved, 4);
AT(infer_store_info, count, 8);
AT(infer_store_info, bytes, 16);
SIZE(infer_store_info, 24);

AT(infer_cache_report, size, 0);
AT(infer_cache_report, reason, 4);
AT(infer_cache_report, wanted, 8);
AT(infer_cache_report, reused, 16);
AT(infer_cache_report, rerun, 24);
AT(infer_cache_report, difference, 32);
AT(infer_cache_report, near_length, 40);
AT(infer_cache_report, own_reason, 48);
AT(infer_cache_report, reserved, 52);
SIZE(infer_cache_report, 56);

AT(infer_cache_stats, size, 0);
AT(infer_cache_stats, reserved, 4);
AT(infer_cache_stats, lookups, 8);
AT(infer_cache_stats, hits, 16);
AT(infer_cache_stats, partial_hits, 24);
AT(infer_cache_stats, saved, 32);
AT(infer_cache_stats, rerun, 40);
AT(infer_cache_stats, insertions, 48);
AT(infer_cache_stats, evictions, 56);
AT(infer_cache_stats, bytes, 64);
AT(infer_cache_stats, nodes, 72);
AT(infer_cache_stats, ghosts, 80);
AT(infer_cache_stats, ghost_bytes, 88);
AT(infer_cache_stats, disk_files, 96);
AT(infer_cache_stats, disk_bytes, 104);
AT(infer_cache_stats, disk_written, 112);
AT(infer_cache_stats, disk_skipped, 120);
AT(infer_cache_stats, disk_loaded, 128);
AT(infer_cache_stats, disk_damaged, 136);
SIZE(infer_cache_stats, 144);

AT(infer_save_options, size, 0);
AT(infer_save_options, flags, 4);
AT(infer_save_options, parent, 8);
AT(infer_save_options, parent_len, 16);
AT(infer_save_options, level, 24);
AT(infer_save_options, reserved, 28);
SIZE(infer_save_options, 32);

AT(infer_load_options, size, 0);
AT(infer_load_options, map, 4);
AT(infer_load_options, verify, 8);
AT(infer_load_options, reserved, 12);
AT(infer_load_options, adapters, 16);
SIZE(infer_load_options, 24);
#endif

typedef int abi_not_empty; /* a translation unit needs a declaration */
