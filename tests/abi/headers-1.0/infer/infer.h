/* infer.h of version 1.0, kept by scripts/abi-baseline: programs that were built with it must go on working. */
#ifndef INFER_INFER_H
#define INFER_INFER_H
#include <stddef.h>
#include <stdint.h>
#if defined(_WIN32) && defined(INFER_BUILDING_SHARED)
#define INFER_API __declspec(dllexport)
#elif defined(_WIN32) && !defined(INFER_STATIC)
#define INFER_API __declspec(dllimport)
#elif defined(__GNUC__)
#define INFER_API __attribute__((visibility("default")))
#else
#define INFER_API
#endif
#ifdef __cplusplus
extern "C" {
#endif
#define INFER_VERSION_MAJOR 1
#define INFER_VERSION_MINOR 0
#define INFER_VERSION_PATCH 0
#define INFER_VERSION_STRING "1.0.0"
#define INFER_ABI_VERSION 1
#define INFER_NUMERICS_VERSION 1
#define INFER_ZSTR UINT64_MAX
#define INFER_MAX_TEXT (UINT64_C(1) << 30)
#define INFER_CACHE_SALT_MAX 64
INFER_API const char *infer_version(void);
INFER_API int32_t infer_abi_version(void);
INFER_API int32_t infer_numerics_version(void);
INFER_API const char *infer_capabilities(void);
#define INFER_STATUS_LIST(X)                                                                                           \
    X(INFER_OK, 0, "success")                                                                                          \
    X(INFER_ERROR_ARGUMENT, -1, "invalid argument")                                                                    \
    X(INFER_ERROR_STATE, -2, "call not allowed in this state")                                                         \
    X(INFER_ERROR_NO_MEMORY, -3, "out of memory")                                                                      \
    X(INFER_ERROR_LIMIT, -4, "a limit was exceeded")                                                                   \
    X(INFER_ERROR_CANCELLED, -5, "cancelled")                                                                          \
    X(INFER_ERROR_UNSUPPORTED, -6, "not supported")                                                                    \
    X(INFER_ERROR_BUFFER, -7, "buffer too small")                                                                      \
    X(INFER_ERROR_INTERNAL, -8, "internal error")                                                                      \
    X(INFER_ERROR_HOST, -9, "a callback of the host failed")                                                           \
    X(INFER_ERROR_IO, -20, "input/output error")                                                                       \
    X(INFER_ERROR_NOT_FOUND, -21, "not found")                                                                         \
    X(INFER_ERROR_FORMAT, -22, "malformed file")                                                                       \
    X(INFER_ERROR_TRUNCATED, -23, "file ends early")                                                                   \
    X(INFER_ERROR_CHANGED, -24, "file changed while in use")                                                           \
    X(INFER_ERROR_EXISTS, -25, "already exists")                                                                       \
    X(INFER_ERROR_ARCHITECTURE, -40, "unknown model architecture")                                                     \
    X(INFER_ERROR_MISSING, -41, "required key or tensor is missing")                                                   \
    X(INFER_ERROR_SHAPE, -42, "tensor has the wrong shape or type")                                                    \
    X(INFER_ERROR_VALUE, -43, "value out of range")                                                                    \
    X(INFER_ERROR_TOKEN, -60, "invalid token id")                                                                      \
    X(INFER_ERROR_ENCODING, -61, "invalid UTF-8")                                                                      \
    X(INFER_ERROR_SYNTAX, -62, "syntax error")                                                                         \
    X(INFER_ERROR_TEMPLATE, -63, "template failed or raised an exception")                                             \
    X(INFER_ERROR_CONTEXT_FULL, -80, "context is full")                                                                \
    X(INFER_ERROR_NONFINITE, -81, "the model produced a value that is not finite")                                     \
    X(INFER_ERROR_THREAD, -82, "a thread could not be started")
#define INFER_STATUS_ENUM(name, value, message) name = value,
enum { INFER_STATUS_LIST(INFER_STATUS_ENUM) };
#undef INFER_STATUS_ENUM
typedef int32_t infer_status;
INFER_API const char *infer_status_message(infer_status status);
INFER_API const char *infer_status_name(infer_status status);
typedef struct infer_error {
    uint32_t size;
    int32_t code;
    uint64_t offset;
    char file[256];
    char name[128];
    char text[512];
} infer_error;
#define INFER_INIT(x) infer_init((x), (uint32_t)sizeof *(x))
INFER_API void infer_init(void *x, uint32_t size);
typedef struct infer_engine infer_engine;
typedef struct infer_file infer_file;
typedef struct infer_tokenizer infer_tokenizer;
typedef struct infer_template infer_template;
typedef struct infer_model infer_model;
typedef struct infer_session infer_session;
typedef struct infer_checkpoint infer_checkpoint;
typedef struct infer_store infer_store;
typedef struct infer_adapter infer_adapter;
typedef struct infer_cancel infer_cancel;
INFER_API infer_status infer_cancel_create(infer_cancel **out, infer_error *err);
INFER_API infer_cancel *infer_cancel_ref(infer_cancel *cancel);
INFER_API void infer_cancel_release(infer_cancel *cancel);
INFER_API void infer_cancel_set(infer_cancel *cancel);
INFER_API void infer_cancel_clear(infer_cancel *cancel);
INFER_API int32_t infer_cancel_is_set(const infer_cancel *cancel);
typedef struct infer_allocator {
    uint32_t size;
    uint32_t reserved;
    void *user;
    void *(*alloc)(void *user, uint64_t bytes, uint64_t align);
    void (*free)(void *user, void *block, uint64_t bytes, uint64_t align);
} infer_allocator;
enum { INFER_LOG_ERROR = 1, INFER_LOG_WARNING = 2, INFER_LOG_INFO = 3, INFER_LOG_DEBUG = 4 };
typedef void (*infer_log_fn)(void *user, int32_t level, const char *text, uint64_t text_len);
typedef void (*infer_task_fn)(void *task_arg, uint32_t index);
typedef struct infer_executor {
    uint32_t size;
    uint32_t concurrency;
    void *user;
    int32_t (*run)(void *user, uint32_t count, infer_task_fn task, void *task_arg);
} infer_executor;
enum {
    INFER_CPU_AUTO = 0,
    INFER_CPU_SCALAR = 1,
    INFER_CPU_AVX2 = 10,
    INFER_CPU_AVXVNNI = 11,
    INFER_CPU_AVX512 = 12,
    INFER_CPU_AVX512VNNI = 13,
    INFER_CPU_NEON = 30,
    INFER_CPU_DOTPROD = 31,
    INFER_CPU_I8MM = 32
};
enum {
    INFER_NUMERICS_EXACT = 0,
    INFER_NUMERICS_PRECISE = 1,
    INFER_NUMERICS_FAST = 2
};
typedef struct infer_engine_options {
    uint32_t size;
    int32_t cpu;
    int32_t numerics;
    uint32_t threads;
    uint64_t kv_budget;
    const infer_allocator *allocator;
    infer_log_fn log;
    void *log_user;
    int32_t log_level;
    uint32_t reserved;
    const infer_executor *executor;
    uint64_t cache_bytes;
    const char *cache_dir;
    uint64_t cache_dir_len;
    uint64_t cache_dir_bytes;
    uint64_t cache_write_bytes;
    uint64_t memory_limit;
} infer_engine_options;
INFER_API infer_status infer_engine_create(const infer_engine_options *options, infer_engine **out, infer_error *err);
INFER_API infer_engine *infer_engine_ref(infer_engine *engine);
INFER_API void infer_engine_release(infer_engine *engine);
typedef struct infer_engine_info {
    uint32_t size;
    int32_t cpu;
    int32_t numerics;
    uint32_t threads;
    uint64_t kv_bytes;
    uint64_t kv_budget;
    uint64_t memory_bytes;
    uint64_t memory_peak;
    uint64_t memory_limit;
} infer_engine_info;
INFER_API infer_status infer_engine_get_info(infer_engine *engine, infer_engine_info *out, infer_error *err);
INFER_API const char *infer_cpu_name(int32_t cpu);
INFER_API int32_t infer_cpu_from_name(const char *name, uint64_t name_len);
typedef struct infer_stream {
    uint32_t size;
    uint32_t reserved;
    uint64_t length;
    const void *data;
    void *user;
    infer_status (*read)(void *user, uint64_t offset, void *dst, uint64_t bytes);
    void (*release)(void *user);
} infer_stream;
typedef infer_status (*infer_open_fn)(void *user, const char *name, uint64_t name_len, infer_stream *out);
enum { INFER_SOURCE_PATH = 1, INFER_SOURCE_DESCRIPTOR = 2, INFER_SOURCE_MEMORY = 3, INFER_SOURCE_CALLBACK = 4 };
typedef struct infer_source {
    uint32_t size;
    int32_t kind;
    const char *name;
    uint64_t name_len;
    int64_t descriptor;
    const void *data;
    uint64_t length;
    void *user;
    infer_open_fn open;
} infer_source;
INFER_API void infer_source_path(infer_source *source, const char *path, uint64_t path_len);
INFER_API void infer_source_descriptor(infer_source *source, int32_t descriptor);
INFER_API void infer_source_memory(infer_source *source, const void *data, uint64_t length);
INFER_API void infer_source_callback(infer_source *source, const char *name, uint64_t name_len, infer_open_fn open, void *user);
enum {
    INFER_MAP_AUTO = 0,
    INFER_MAP_MMAP = 1,
    INFER_MAP_READ = 2
};
typedef struct infer_open_options {
    uint32_t size;
    int32_t map;
    infer_cancel *cancel;
    uint32_t n_ctx;
    int32_t quantise;
} infer_open_options;
enum {
    INFER_TYPE_F32 = 0, INFER_TYPE_F16 = 1, INFER_TYPE_Q4_0 = 2, INFER_TYPE_Q4_1 = 3, INFER_TYPE_Q5_0 = 6,
    INFER_TYPE_Q5_1 = 7, INFER_TYPE_Q8_0 = 8, INFER_TYPE_Q8_1 = 9, INFER_TYPE_Q2_K = 10, INFER_TYPE_Q3_K = 11, INFER_TYPE_Q4_K = 12,
    INFER_TYPE_Q5_K = 13, INFER_TYPE_Q6_K = 14, INFER_TYPE_Q8_K = 15, INFER_TYPE_IQ2_XXS = 16, INFER_TYPE_IQ2_XS = 17,
    INFER_TYPE_IQ3_XXS = 18, INFER_TYPE_IQ1_S = 19, INFER_TYPE_IQ4_NL = 20, INFER_TYPE_IQ3_S = 21,
    INFER_TYPE_IQ2_S = 22, INFER_TYPE_IQ4_XS = 23, INFER_TYPE_I8 = 24, INFER_TYPE_I16 = 25, INFER_TYPE_I32 = 26,
    INFER_TYPE_I64 = 27, INFER_TYPE_F64 = 28, INFER_TYPE_IQ1_M = 29, INFER_TYPE_BF16 = 30, INFER_TYPE_TQ1_0 = 34,
    INFER_TYPE_TQ2_0 = 35, INFER_TYPE_MXFP4 = 39, INFER_TYPE_NVFP4 = 40,
    INFER_TYPE_Q1_0 = 41, INFER_TYPE_Q2_0 = 42,
    INFER_TYPE_F8_E4M3 = 64, INFER_TYPE_F8_E5M2 = 65,
    INFER_TYPE_BOOL = 66, INFER_TYPE_U8 = 67, INFER_TYPE_U16 = 68, INFER_TYPE_U32 = 69, INFER_TYPE_U64 = 70
};
INFER_API const char *infer_type_name(int32_t type);
INFER_API infer_status infer_file_open(infer_engine *engine, const infer_source *source,
                                       const infer_open_options *options, infer_file **out, infer_error *err);
INFER_API infer_file *infer_file_ref(infer_file *file);
INFER_API void infer_file_release(infer_file *file);
typedef struct infer_tensor_info {
    uint32_t size;
    int32_t type;
    const char *name;
    uint64_t name_len;
    uint64_t shape[4];
    uint32_t dims;
    uint32_t part;
    uint64_t offset;
    const void *data;
    uint64_t data_len;
} infer_tensor_info;
INFER_API uint64_t infer_file_tensor_count(const infer_file *file);
INFER_API infer_status infer_file_tensor(const infer_file *file, uint64_t index, infer_tensor_info *out, infer_error *err);
INFER_API infer_status infer_file_find_tensor(const infer_file *file, const char *name, uint64_t name_len,
                                              uint64_t *index, infer_error *err);
INFER_API infer_status infer_file_tensor_f32(const infer_file *file, uint64_t index, uint64_t first, uint64_t count,
                                             float *out, infer_error *err);
enum {
    INFER_VALUE_UINT = 1,
    INFER_VALUE_INT = 2,
    INFER_VALUE_FLOAT = 3,
    INFER_VALUE_BOOL = 4,
    INFER_VALUE_STRING = 5,
    INFER_VALUE_ARRAY = 6
};
typedef struct infer_value {
    uint32_t size;
    int32_t kind;
    int32_t item_kind;
    uint32_t width;
    uint64_t count;
    uint64_t u;
    int64_t i;
    double f;
    const void *data;
} infer_value;
INFER_API uint64_t infer_file_meta_count(const infer_file *file);
INFER_API infer_status infer_file_meta(const infer_file *file, uint64_t index, const char **key, uint64_t *key_len,
                                       infer_value *out, infer_error *err);
INFER_API infer_status infer_file_find_meta(const infer_file *file, const char *key, uint64_t key_len, infer_value *out,
                                            infer_error *err);
INFER_API infer_status infer_file_value_item(const infer_file *file, const infer_value *array, uint64_t index,
                                             infer_value *out, infer_error *err);
INFER_API infer_status infer_tokenizer_open(infer_engine *engine, const infer_source *source,
                                            const infer_open_options *options, infer_tokenizer **out, infer_error *err);
INFER_API infer_tokenizer *infer_tokenizer_ref(infer_tokenizer *tokenizer);
INFER_API void infer_tokenizer_release(infer_tokenizer *tokenizer);
enum {
    INFER_TOKENIZER_BPE = 1, INFER_TOKENIZER_SPM = 2, INFER_TOKENIZER_WORDPIECE = 3, INFER_TOKENIZER_UNIGRAM = 4, INFER_TOKENIZER_WORDLEVEL = 5
};
typedef struct infer_tokenizer_info {
    uint32_t size;
    int32_t kind;
    uint32_t vocab_size;
    int32_t bos, eos, eot, unk, sep, pad, mask;
    int32_t add_bos, add_eos;
    uint32_t reserved;
} infer_tokenizer_info;
INFER_API infer_status infer_tokenizer_get_info(const infer_tokenizer *tokenizer, infer_tokenizer_info *out,
                                                infer_error *err);
enum {
    INFER_TOKENIZE_ADD_SPECIAL = 1,
    INFER_TOKENIZE_PARSE_SPECIAL = 2
};
INFER_API infer_status infer_tokenize(const infer_tokenizer *tokenizer, const char *text, uint64_t text_len,
                                      uint32_t flags, int32_t *ids, uint64_t capacity, uint64_t *count,
                                      infer_error *err);
enum {
    INFER_DETOKENIZE_SHOW_SPECIAL = 1
};
INFER_API infer_status infer_detokenize(const infer_tokenizer *tokenizer, const int32_t *ids, uint64_t count,
                                        uint32_t flags, char *text, uint64_t capacity, uint64_t *text_len,
                                        infer_error *err);
typedef struct infer_detokenizer {
    uint32_t size;
    uint32_t flags;
    uint32_t pending_len;
    uint32_t started;
    uint8_t pending[16];
} infer_detokenizer;
INFER_API infer_status infer_detokenizer_next(const infer_tokenizer *tokenizer, infer_detokenizer *state, int32_t id,
                                              char *text, uint64_t capacity, uint64_t *text_len, infer_error *err);
enum {
    INFER_TOKEN_NORMAL = 1, INFER_TOKEN_UNKNOWN = 2, INFER_TOKEN_CONTROL = 3, INFER_TOKEN_USER_DEFINED = 4,
    INFER_TOKEN_UNUSED = 5, INFER_TOKEN_BYTE = 6
};
typedef struct infer_token_info {
    uint32_t size;
    int32_t kind;
    float score;
    int32_t ends_turn;
    const char *piece;
    uint64_t piece_len;
    const char *bytes;
    uint64_t bytes_len;
} infer_token_info;
INFER_API infer_status infer_tokenizer_token(const infer_tokenizer *tokenizer, int32_t id, infer_token_info *out,
                                             infer_error *err);
INFER_API infer_status infer_template_parse(infer_engine *engine, const char *text, uint64_t text_len,
                                            infer_template **out, infer_error *err);
INFER_API infer_status infer_template_open(infer_engine *engine, const infer_source *source,
                                           const infer_open_options *options, infer_template **out, infer_error *err);
INFER_API infer_template *infer_template_ref(infer_template *tmpl);
INFER_API void infer_template_release(infer_template *tmpl);
INFER_API int32_t infer_template_is_fallback(const infer_template *tmpl);
INFER_API void infer_template_text(const infer_template *tmpl, const char **text, uint64_t *text_len);
typedef struct infer_render_options {
    uint32_t size;
    uint32_t reserved;
    int64_t now;
    uint64_t max_output;
    uint64_t max_steps;
    uint64_t max_memory;
    infer_cancel *cancel;
} infer_render_options;
INFER_API infer_status infer_template_render(const infer_template *tmpl, const char *json, uint64_t json_len,
                                             const infer_render_options *options, char *out, uint64_t capacity,
                                             uint64_t *out_len, infer_error *err);
INFER_API infer_status infer_model_open(infer_engine *engine, const infer_source *source,
                                        const infer_open_options *options, infer_model **out, infer_error *err);
INFER_API infer_status infer_model_open_path(infer_engine *engine, const char *path, infer_model **out, infer_error *err);
INFER_API infer_model *infer_model_ref(infer_model *model);
INFER_API void infer_model_release(infer_model *model);
INFER_API infer_tokenizer *infer_model_tokenizer(const infer_model *model);
INFER_API infer_template *infer_model_template(const infer_model *model);
INFER_API infer_file *infer_model_file(const infer_model *model);
INFER_API infer_engine *infer_model_engine(const infer_model *model);
typedef struct infer_model_info {
    uint32_t size;
    uint32_t vocab_size;
    uint32_t n_layer;
    uint32_t n_embd;
    uint32_t n_head;
    uint32_t n_head_kv;
    uint32_t head_dim;
    uint32_t n_ctx_train;
    uint32_t window;
    uint32_t reserved;
    uint64_t n_params;
    uint64_t weight_bytes;
    char architecture[32];
    char name[128];
    char tokenizer_problem[256];
    char template_problem[256];
    uint32_t embedding_width;
    int32_t pooling;
    int32_t encoder;
    uint32_t embed_tokens;
} infer_model_info;
INFER_API infer_status infer_model_get_info(const infer_model *model, infer_model_info *out, infer_error *err);
typedef struct infer_model_memory {
    uint32_t size;
    uint32_t n_expert;
    uint32_t n_expert_used;
    uint32_t reserved;
    uint64_t weight_bytes;
    uint64_t resident_bytes;
    uint64_t expert_bytes;
    uint64_t expert_resident_bytes;
    uint64_t own_bytes;
} infer_model_memory;
INFER_API infer_status infer_model_get_memory(const infer_model *model, infer_model_memory *out, infer_error *err);
typedef struct infer_estimate_options {
    uint32_t size;
    int32_t kv_type;
    uint32_t n_ctx;
    uint32_t sessions;
    uint32_t kv_recent;
    uint32_t threads;
    uint64_t budget;
} infer_estimate_options;
typedef struct infer_estimate {
    uint32_t size;
    uint32_t n_ctx;
    uint64_t weight_bytes;
    uint64_t mapped_bytes;
    uint64_t own_bytes;
    uint64_t kv_bytes;
    uint64_t scratch_bytes;
    uint64_t open_bytes;
    uint64_t memory_bytes;
    uint64_t total_bytes;
} infer_estimate;
INFER_API infer_status infer_model_estimate(infer_engine *engine, const infer_source *source, const infer_open_options *open,
                                            const infer_estimate_options *options, infer_estimate *out, infer_error *err);
enum {
    INFER_KV_F16 = 0,
    INFER_KV_F32 = 1,
    INFER_KV_BF16 = 2,
    INFER_KV_INT8 = 3,
    INFER_KV_INT8_64 = 4,
    INFER_KV_MIXED_F16 = 5,
    INFER_KV_MIXED_F32 = 6
};
typedef struct infer_session_options {
    uint32_t size;
    uint32_t n_ctx;
    int32_t kv_type;
    uint32_t kv_recent;
    uint32_t cache_flags;
    uint32_t salt_len;
    const void *salt;
} infer_session_options;
enum { INFER_CACHE_NO_LOOKUP = 1, INFER_CACHE_NO_INSERT = 2 };
INFER_API infer_status infer_session_create(infer_model *model, const infer_session_options *options,
                                            infer_session **out, infer_error *err);
INFER_API infer_session *infer_session_ref(infer_session *session);
INFER_API void infer_session_release(infer_session *session);
INFER_API infer_model *infer_session_model(const infer_session *session);
INFER_API infer_status infer_session_append(infer_session *session, const int32_t *ids, uint64_t count,
                                            infer_error *err);
INFER_API infer_status infer_session_append_text(infer_session *session, const char *text, uint64_t text_len,
                                                 uint32_t flags, infer_error *err);
typedef struct infer_message {
    const char *role;
    uint64_t role_len;
    const char *content;
    uint64_t content_len;
} infer_message;
INFER_API infer_status infer_session_append_chat(infer_session *session, const infer_message *messages, uint64_t count,
                                                 const infer_render_options *options, infer_error *err);
INFER_API infer_status infer_session_append_rows(infer_session *session, const float *rows, const uint64_t *keys,
                                                 uint64_t count, infer_error *err);
typedef struct infer_session_info {
    uint32_t size;
    uint32_t n_ctx;
    uint64_t length;
    uint64_t computed;
    uint64_t kv_bytes;
    uint64_t logits_rows;
    uint64_t kv_shared_bytes;
    uint64_t kv_mapped_bytes;
    int32_t approximate;
    uint32_t kv_recent;
    uint64_t adapters;
} infer_session_info;
INFER_API infer_status infer_session_get_info(const infer_session *session, infer_session_info *out, infer_error *err);
INFER_API infer_status infer_session_tokens(const infer_session *session, uint64_t first, uint64_t count, int32_t *ids,
                                            infer_error *err);
INFER_API infer_status infer_session_truncate(infer_session *session, uint64_t length, uint64_t *rerun,
                                              infer_error *err);
INFER_API infer_status infer_session_fork(infer_session *session, infer_session **out, infer_error *err);
enum {
    INFER_ROWS_LAST = 0,
    INFER_ROWS_NONE = 1,
    INFER_ROWS_ALL = 2,
    INFER_ROWS_MASK = 3
};
enum { INFER_HIDDEN_FINAL = -1 };
typedef struct infer_hidden {
    uint32_t size;
    int32_t elements;
    const uint8_t *mask;
    const int32_t *layers;
    uint32_t layer_count;
    uint32_t reserved;
    float *out;
    uint64_t capacity;
    uint64_t rows;
} infer_hidden;
typedef struct infer_step_item {
    uint32_t size;
    int32_t status;
    infer_session *session;
    uint64_t max_elements;
    const uint8_t *mask;
    int32_t logits;
    uint32_t reserved;
    uint64_t done;
    infer_hidden *hidden;
} infer_step_item;
INFER_API infer_status infer_step(infer_step_item *items, uint64_t count, infer_cancel *cancel, infer_error *err);
INFER_API infer_status infer_session_logits(const infer_session *session, uint64_t row, const float **logits,
                                            uint64_t *position, infer_error *err);
typedef infer_status (*infer_logits_fn)(void *user, float *logits, uint64_t vocab_size, const int32_t *ids,
                                        uint64_t count);
typedef struct infer_bias {
    int32_t id;
    float bias;
} infer_bias;
typedef struct infer_sampling {
    uint32_t size;
    uint32_t top_k;
    float temperature;
    float top_p;
    float min_p;
    float typical_p;
    float repetition_penalty;
    float presence_penalty;
    float frequency_penalty;
    uint32_t penalty_last_n;
    uint64_t seed;
    const infer_bias *bias;
    uint64_t bias_count;
    infer_logits_fn callback;
    void *callback_user;
    uint32_t top_logprobs;
    int32_t logprobs;
} infer_sampling;
INFER_API infer_status infer_sampling_default(infer_sampling *sampling, infer_error *err);
INFER_API infer_status infer_session_set_sampling(infer_session *session, const infer_sampling *sampling,
                                                  infer_error *err);
typedef struct infer_logprob {
    int32_t id;
    float logprob;
} infer_logprob;
typedef struct infer_sample_result {
    uint32_t size;
    int32_t id;
    float logprob;
    uint32_t top_count;
    const infer_logprob *top;
} infer_sample_result;
INFER_API infer_status infer_session_sample(infer_session *session, infer_sample_result *out, infer_error *err);
typedef struct infer_score {
    uint32_t size;
    uint32_t top_logprobs;
    float *logprobs;
    infer_logprob *top;
    uint64_t first;
    double sum;
} infer_score;
INFER_API infer_status infer_session_score(infer_session *session, const int32_t *ids, uint64_t count, infer_score *score, infer_cancel *cancel,
                                           infer_error *err);
enum {
    INFER_EVENT_PREFILL = 1,
    INFER_EVENT_TOKEN = 2,
    INFER_EVENT_DONE = 3,
    INFER_EVENT_SHIFT = 4
};
enum {
    INFER_FINISH_STOP = 1,
    INFER_FINISH_LENGTH = 2,
    INFER_FINISH_CONTEXT = 3,
    INFER_FINISH_STOP_STRING = 4,
    INFER_FINISH_REPETITION = 5,
    INFER_FINISH_TIME = 6,
    INFER_FINISH_CANCELLED = 7,
    INFER_FINISH_ERROR = 8
};
typedef struct infer_event {
    uint32_t size;
    int32_t kind;
    int32_t id;
    int32_t finish_reason;
    const char *text;
    uint64_t text_len;
    uint64_t done, total;
    float logprob;
    uint32_t top_count;
    const infer_logprob *top;
    int32_t stop_index;
    uint32_t reserved;
} infer_event;
typedef struct infer_text {
    const char *text;
    uint64_t text_len;
} infer_text;
typedef struct infer_generate_options {
    uint32_t size;
    uint32_t flags;
    uint64_t max_tokens;
    uint64_t shift_keep;
    uint64_t shift_drop;
    const infer_text *stops;
    uint64_t stop_count;
    const int32_t *stop_ids;
    uint64_t stop_id_count;
    uint64_t repeat_guard;
} infer_generate_options;
enum { INFER_GENERATE_IGNORE_EOS = 1, INFER_GENERATE_SHOW_SPECIAL = 2 };
INFER_API infer_status infer_generate_begin(infer_session *session, const infer_generate_options *options,
                                            infer_error *err);
INFER_API infer_status infer_generate_next(infer_session *session, infer_event *event, infer_cancel *cancel,
                                           infer_error *err);
typedef int32_t (*infer_event_fn)(void *user, const infer_event *event);
INFER_API infer_status infer_generate(infer_session *session, const infer_generate_options *options,
                                      infer_event_fn callback, void *user, infer_cancel *cancel, infer_error *err);
enum {
    INFER_ADAPTER_LORA = 1,
    INFER_ADAPTER_STEERING = 2,
    INFER_ADAPTER_SOFT_PROMPT = 3,
    INFER_ADAPTER_PREFIX = 4
};
INFER_API infer_status infer_adapter_open(infer_model *model, const infer_source *source, const infer_open_options *options,
                                          infer_adapter **out, infer_error *err);
INFER_API infer_status infer_adapter_open_path(infer_model *model, const char *path, infer_adapter **out, infer_error *err);
INFER_API infer_adapter *infer_adapter_ref(infer_adapter *adapter);
INFER_API void infer_adapter_release(infer_adapter *adapter);
INFER_API infer_model *infer_adapter_model(const infer_adapter *adapter);
INFER_API infer_status infer_adapter_find(infer_model *model, const uint8_t hash[16], infer_adapter **out, infer_error *err);
typedef struct infer_adapter_info {
    uint32_t size;
    int32_t kind;
    uint8_t hash[16];
    uint64_t targets;
    uint64_t bytes;
    uint64_t own_bytes;
    uint32_t rank;
    uint32_t rows;
    uint32_t invocation_count;
    uint32_t reserved;
    char base[128];
} infer_adapter_info;
INFER_API infer_status infer_adapter_get_info(const infer_adapter *adapter, infer_adapter_info *out, infer_error *err);
INFER_API const char *infer_adapter_target(const infer_adapter *adapter, uint64_t index);
INFER_API const int32_t *infer_adapter_invocation(const infer_adapter *adapter, uint64_t *count);
enum {
    INFER_ADAPTER_ADD = 0,
    INFER_ADAPTER_PROJECT = 1
};
typedef struct infer_adapter_use {
    uint32_t size;
    int32_t mode;
    infer_adapter *adapter;
    float scale;
    uint32_t first_layer;
    uint32_t layer_count;
    uint32_t reserved;
} infer_adapter_use;
INFER_API infer_status infer_session_set_adapters(infer_session *session, const infer_adapter_use *uses, uint64_t count, infer_error *err);
INFER_API infer_status infer_session_adapter(const infer_session *session, uint64_t index, infer_adapter_use *out, infer_error *err);
INFER_API infer_status infer_session_append_adapter(infer_session *session, infer_adapter *adapter, infer_error *err);
enum {
    INFER_POOLING_MODEL = 0,
    INFER_POOLING_NONE = 1,
    INFER_POOLING_MEAN = 2,
    INFER_POOLING_CLS = 3,
    INFER_POOLING_LAST = 4,
    INFER_POOLING_RANK = 5
};
enum {
    INFER_EMBED_RAW = 1,
    INFER_EMBED_TRUNCATE = 2,
    INFER_EMBED_NO_SPECIAL = 4,
    INFER_EMBED_PARSE_SPECIAL = 8
};
typedef struct infer_embed_options {
    uint32_t size;
    int32_t pooling;
    uint32_t flags;
    uint32_t dimensions;
    uint64_t max_tokens;
} infer_embed_options;
typedef struct infer_embed_item {
    uint32_t size;
    int32_t status;
    const char *text;
    uint64_t text_len;
    const int32_t *ids;
    uint64_t id_count;
    float *out;
    uint64_t capacity;
    uint64_t rows;
    uint64_t tokens;
    int32_t truncated;
    uint32_t reserved;
} infer_embed_item;
INFER_API infer_status infer_embed(infer_model *model, infer_embed_item *items, uint64_t count, const infer_embed_options *options,
                                   infer_cancel *cancel, infer_error *err);
#ifdef __cplusplus
}
#endif
#endif
