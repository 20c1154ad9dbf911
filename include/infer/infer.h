/* libinfer: run language models inside your program.
 *
 * OVERVIEW
 *
 * Open a model, make a session of it, give it a conversation, pull the answer:
 *
 *     infer_message question = {"user", INFER_ZSTR, "Why is the sky blue?", INFER_ZSTR};
 *     infer_model_open_path(NULL, "model.gguf", &model, &err);
 *     infer_session_create(model, NULL, &session, &err);
 *     infer_session_append_chat(session, &question, 1, NULL, &err);
 *     infer_generate(session, NULL, callback, user, NULL, &err);       (or infer_generate_begin and infer_generate_next)
 *
 * infer_session_append_text and infer_session_append take plain text and token ids instead. Hosts that want logits step sessions
 * themselves (infer_step), any number of them in one batch.
 *
 * infer/state.h adds what keeps a session's state: checkpoints, stores, files, the prefix cache. infer/scheduler.h adds a queue of requests that are
 * computed together. docs/abi.md says what of all this may be relied on, and for how long.
 *
 * HANDLES AND LIFETIMES
 *
 * Every handle is reference-counted: a function that makes one gives you one reference, infer_X_ref adds one, infer_X_release
 * drops one (and accepts NULL). A handle holds references on what it uses, so the order of release does not matter.
 * "Borrowed" results belong to the handle that gave them and live as long as it does. The host never frees library memory.
 *
 * THREADS
 *
 * Engines, models, adapters, files, tokenizers, templates, checkpoints, stores and cancel flags may be used from any thread at once. A session is used by
 * one thread at a time; different sessions may be used in parallel (steps on one engine take turns, batch by batch, in order). The library keeps no
 * global state and no thread-local storage, prints nothing, installs no signal handler, reads neither environment, locale nor
 * clock. A process may fork() while no thread is inside the library.
 *
 * THE HOST'S PROCESS
 *
 * Floating point: results do not depend on how the host has set rounding, denormals and traps, and after every call the settings are as they were. Callbacks
 * for logits and events, those of requests, and a scheduler's clock see them too; the others (memory, log, files, executors) may be called with the library's
 * (to nearest, with denormals, without traps), and leave them as they find them. Signals: handlers and masks are the host's. The library's threads block
 * all signals but those of a fault of their own; a call that a signal interrupts goes on. Descriptors are never 0 to 2, and are closed by exec. Files get the
 * rights that the umask leaves of 0666, folders of 0700. Stack: a call needs at most 128 KiB; one that compiles or renders a template at most 512 KiB (the worst
 * templates: ordinary ones need no more than other calls). When all handles are released the library may be unloaded: nothing of it is left. Several copies may be
 * loaded at once. tests/guest shows all this.
 *
 * ERRORS
 *
 * Functions that can fail return an infer_status: INFER_OK (0) or a negative code. They take an optional infer_error (may be
 * NULL) that receives the code, a text in English, and the place: file, byte offset, key or tensor name; success leaves it as it
 * was. Outputs are written only on success, except a needed size where the function says so. A failed call leaves its objects as they
 * were. "Errors:" below lists the codes without their prefix INFER_ERROR_. Texts too long for an infer_error are cut.
 * Every function may also return ARGUMENT for a NULL where one is not allowed, a bad struct size, or an unknown constant.
 *
 * STRUCTS
 *
 * Option and output structs begin with their size. Fill them by INFER_INIT(&x), which zeroes the struct and sets the size;
 * zero means the documented default for every field. The library never reads or writes past that size; bytes of a newer,
 * longer struct that this library does not know must be zero, and so must be fields named reserved. Fields are only ever appended. An array of such
 * structs is walked in steps of its first item's size, which all its items must have.
 * Structs that the library hands to a host's callback (infer_stream, infer_event, infer_request_event) have the library's size: a host that was built
 * with a newer header reads and writes no field that lies beyond that size. infer_message, infer_text, infer_bias and infer_logprob have no size and
 * never grow.
 *
 * STRINGS
 *
 * UTF-8 with a length in bytes; INFER_ZSTR as length means zero-terminated. Paths are bytes on POSIX, UTF-8 on Windows.
 * Functions that write to a caller's buffer take its capacity and report the length that is needed; when the capacity is
 * too small they return INFER_ERROR_BUFFER, write nothing else, and still report the needed length.
 *
 * EXACTNESS
 *
 * For one model file, KV type and numerics version, the logits of a position are one fixed array of bits: whatever the batch,
 * the chunking of the prompt, the number of threads or the CPU's instruction set. See docs/numerics.md.
 */
#ifndef INFER_INFER_H
#define INFER_INFER_H

#include <stddef.h>
#include <stdint.h>

/* Exported by the library. Programs that link libinfer.a on Windows define INFER_STATIC. */
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

/* Of this header. */
#define INFER_VERSION_MAJOR 1
#define INFER_VERSION_MINOR 0          /* grows with additions */
#define INFER_VERSION_PATCH 0          /* grows with everything else */
#define INFER_VERSION_STRING "1.0.0"   /* the three */
#define INFER_ABI_VERSION 1            /* libinfer.so.1 */

/* Changes when, and only when, the bits of EXACT results change; see docs/numerics.md. */
#define INFER_NUMERICS_VERSION 1

/* A string length that means "zero-terminated". */
#define INFER_ZSTR UINT64_MAX
/* Texts of more bytes than this are refused with INFER_ERROR_LIMIT. */
#define INFER_MAX_TEXT (UINT64_C(1) << 30)
/* Most bytes of infer_session_options.salt. */
#define INFER_CACHE_SALT_MAX 64

INFER_API const char *infer_version(void);           /* "1.0.0": of the library, not of this header */
INFER_API int32_t infer_abi_version(void);           /* INFER_ABI_VERSION of the library */
INFER_API int32_t infer_numerics_version(void);      /* INFER_NUMERICS_VERSION of the library */

/* What the library can do to its host and the machine, for hosts, packagers and auditors: one "key: value" line each, static text in ASCII. The value is "none",
 * or a list separated by spaces. The same bytes, with the terminating zero, are in the shared library as an ELF note (section
 * .note.libinfer, owner "libinfer", type 1), so that they can be read without running anything. Keys may be added; a "none" never turns into a list within one ABI version.
 *
 *     library         name and version
 *     network         sockets and names of hosts
 *     processes       starting programs, forking, waiting
 *     environment     reading or changing environment variables
 *     clock           reading the time (schedulers call infer_scheduler_options.clock)
 *     locale          reading or changing it, or calling what depends on it
 *     signals         sending or waiting for signals, handlers, and the mask of the host's threads
 *     output          standard input, output and error, terminals, the system's log
 *     exit            ending the process or jumping out of a call
 *     code            loading libraries, making memory executable
 *     threads         the option that says how many are started; 1, or an executor: none
 *     reads           functions that read, or open for later reading, a file that the host names
 *     reads-system    files, and folders with files, that tell how many processors may be used: read when an engine is made with 0 threads
 *     writes          functions that write, rename or remove files or make folders, where the host names a file or folder
 *     writes-folders  options that name a folder, in which the engine or scheduler then keeps files while it works
 *
 * docs/security.md tells more, and how to have the system enforce it. */
INFER_API const char *infer_capabilities(void);

/* ---- Status and errors ------------------------------------------------------------------------------------------- */

/* name, value, message. Families leave gaps for additions; values never change. */
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

/* For the next line only. */
#define INFER_STATUS_ENUM(name, value, message) name = value,
enum { INFER_STATUS_LIST(INFER_STATUS_ENUM) };
#undef INFER_STATUS_ENUM

/* INFER_OK or a negative INFER_ERROR_*. */
typedef int32_t infer_status;

/* The message of a status; "unknown status" for others. Static. */
INFER_API const char *infer_status_message(infer_status status);
/* The name of a status, such as "INFER_ERROR_IO"; "unknown" for others. Static. */
INFER_API const char *infer_status_name(infer_status status);

/* What failed, and where. */
typedef struct infer_error {
    uint32_t size;    /* set by INFER_INIT */
    int32_t code;     /* an infer_status */
    uint64_t offset;  /* byte offset in the file or text, or UINT64_MAX */
    char file[256];   /* file name or "" */
    char name[128];   /* metadata key, tensor or option, or "" */
    char text[512];   /* what happened, in English */
} infer_error;

/* Zeroes *x and sets its size. */
#define INFER_INIT(x) infer_init((x), (uint32_t)sizeof *(x))
/* What INFER_INIT calls. */
INFER_API void infer_init(void *x, uint32_t size);

/* ---- Handles ----------------------------------------------------------------------------------------------------- */

typedef struct infer_engine infer_engine;       /* device, threads, KV memory, allocator, log */
typedef struct infer_file infer_file;           /* a weights file as data: tensors and metadata */
typedef struct infer_tokenizer infer_tokenizer; /* text <-> token ids */
typedef struct infer_template infer_template;   /* a chat template: messages -> text */
typedef struct infer_model infer_model;         /* weights, tokenizer, template: immutable */
typedef struct infer_session infer_session;     /* one sequence and its computed state */
typedef struct infer_checkpoint infer_checkpoint; /* a session's state at one moment: immutable */
typedef struct infer_store infer_store;         /* checkpoints by name */
typedef struct infer_adapter infer_adapter;     /* LoRA, steering vector, soft prompt or prefix, for one model: immutable */
typedef struct infer_cancel infer_cancel;       /* a flag that stops long calls */

/* ---- Cancel flag ------------------------------------------------------------------------------------------------- */

/* Makes a flag, unset. Long calls take one (or NULL) and end with CANCELLED, as if they had failed, some milliseconds after it is set (docs/state.md). One that is
 * set before the call ends it at once, whatever there is to do: nothing has been done then (but that infer_generate has begun its answer). */
INFER_API infer_status infer_cancel_create(infer_cancel **out, infer_error *err);
INFER_API infer_cancel *infer_cancel_ref(infer_cancel *cancel);
INFER_API void infer_cancel_release(infer_cancel *cancel);
INFER_API void infer_cancel_set(infer_cancel *cancel);   /* from any thread, and from a signal handler */
INFER_API void infer_cancel_clear(infer_cancel *cancel); /* makes it ready for use again */
/* 1: it is set. */
INFER_API int32_t infer_cancel_is_set(const infer_cancel *cancel);

/* ---- Engine ------------------------------------------------------------------------------------------------------ */

/* Memory functions of the host; both are required. They are called from any thread that is inside the library and from its
 * pool threads, also while the library holds locks: they must not call it. Not from them come only: cancel flags (24 bytes each), handles opened without an engine, and what the system's own
 * thread functions take when the pool starts. */
typedef struct infer_allocator {
    uint32_t size;
    uint32_t reserved;
    void *user; /* given to both functions */
    void *(*alloc)(void *user, uint64_t bytes, uint64_t align); /* NULL: out of memory. align is a power of two */
    void (*free)(void *user, void *block, uint64_t bytes, uint64_t align); /* bytes and align are those of alloc; block is never NULL */
} infer_allocator;

enum { INFER_LOG_ERROR = 1, INFER_LOG_WARNING = 2, INFER_LOG_INFO = 3, INFER_LOG_DEBUG = 4 };

/* Receives one line of text, without a newline. It must not call the library. */
typedef void (*infer_log_fn)(void *user, int32_t level, const char *text, uint64_t text_len);

/* Runs worker number index of a job: part of the job's work, on the thread that calls it. */
typedef void (*infer_task_fn)(void *task_arg, uint32_t index);

/* Lends the host's own threads to an engine, which then starts none. For each job (a forward pass has about a hundred, of microseconds to
 * milliseconds) the engine calls run from inside infer_step, infer_generate_next and their kin, on the thread that called those. run must call
 * task(task_arg, i) once for each i from 0 to count - 1, in any order, on any threads, at once or one after the other, and return when all
 * these calls have returned: 0, or anything else for failure. count is at most concurrency. Calls share out the work between them: one that
 * comes late finds less left, or nothing, and none waits for another. Results do not depend on how they are run. A task neither blocks, nor
 * allocates, nor calls the host, needs at most 64 KiB of stack, and leaves the thread's floating-point settings as it found them.
 * Inside run the host must not call the library for this engine or its models and sessions, other than by task. An executor may be given to
 * several engines, which may then call run at the same time.
 * The contract is checked: when run fails, leaves a call out, makes one twice or returns while one is inside, no task is lost or run twice,
 * and the step fails with INFER_ERROR_HOST, its sessions as they were. */
typedef struct infer_executor {
    uint32_t size;
    uint32_t concurrency; /* how many workers a job is cut into at most: 1 to 256 */
    void *user; /* given to run */
    int32_t (*run)(void *user, uint32_t count, infer_task_fn task, void *task_arg); /* see above */
} infer_executor;

/* CPU variants, least to most capable; a forced one is refused with INFER_ERROR_UNSUPPORTED when the machine or the build lacks it. */
enum {
    INFER_CPU_AUTO = 0,
    INFER_CPU_SCALAR = 1,
    INFER_CPU_AVX2 = 10, /* with FMA and F16C */
    INFER_CPU_AVXVNNI = 11,
    INFER_CPU_AVX512 = 12, /* F, BW, VL, DQ */
    INFER_CPU_AVX512VNNI = 13,
    INFER_CPU_NEON = 30,
    INFER_CPU_DOTPROD = 31,
    INFER_CPU_I8MM = 32
};

/* How matrix products treat activations. */
enum {
    INFER_NUMERICS_EXACT = 0,  /* the default: int8 activations against quantised weights, fixed order of every sum */
    INFER_NUMERICS_PRECISE = 1, /* activations stay f32: equals dequantise-then-multiply; slower */
    INFER_NUMERICS_FAST = 2     /* may use other arithmetic where that is faster, as independent of batch, chunks and threads as the others, but
                                   not of the CPU variant or the version of the library. Today nothing tried was faster: it computes as EXACT */
};

/* How an engine is made. */
typedef struct infer_engine_options {
    uint32_t size;
    int32_t cpu;                       /* INFER_CPU_*; default: the best that runs here */
    int32_t numerics;                  /* INFER_NUMERICS_* */
    uint32_t threads;                  /* 0: the physical cores that this process may use (affinity, CPU quota rounded up); at most 256 */
    uint64_t kv_budget;                /* bytes of KV memory over all sessions; 0: no limit */
    const infer_allocator *allocator;  /* NULL: the C library's. Copied */
    infer_log_fn log;                  /* NULL: no log */
    void *log_user;
    int32_t log_level;                 /* lines above it are not produced; 0: INFER_LOG_WARNING */
    uint32_t reserved;
    const infer_executor *executor;    /* NULL: own threads. Copied; threads must then be 0 */
    uint64_t cache_bytes;              /* what the prefix cache may keep beyond what sessions hold; 0: no cache. Counts in kv_budget, and gives way */
    const char *cache_dir;             /* NULL: none. Where state that the cache evicts is written, and found again, also after a restart and by other
                                          processes. Needs cache_bytes. See docs/state.md. Made, for this user alone, when it is not there */
    uint64_t cache_dir_len;
    uint64_t cache_dir_bytes;          /* of the files there; 0: no limit */
    uint64_t cache_write_bytes;        /* how much this engine may write there in all; 0: no limit */
    uint64_t memory_limit;             /* bytes that the engine and all that is made with it (models, sessions, caches, adapters, ...) may take from
                                          the allocator; 0: no limit. See MEMORY PLANNING */
} infer_engine_options;

/* An engine owns the device (today: the CPU), its threads and the memory of computed state. options may be NULL.
 * Errors: ARGUMENT, UNSUPPORTED (cpu), NO_MEMORY. Threads are started when there is work for them: at the first step, at
 * quantising while a model opens, and anew after fork(). That call says THREAD when none can be started, and may be repeated; with some of them the engine
 * goes on. When idle they sleep. */
INFER_API infer_status infer_engine_create(const infer_engine_options *options, infer_engine **out, infer_error *err);
INFER_API infer_engine *infer_engine_ref(infer_engine *engine);
INFER_API void infer_engine_release(infer_engine *engine);

/* An engine as it is now. */
typedef struct infer_engine_info {
    uint32_t size;
    int32_t cpu;        /* the INFER_CPU_* in use */
    int32_t numerics; /* the INFER_NUMERICS_* in use */
    uint32_t threads;   /* or the executor's concurrency */
    uint64_t kv_bytes;  /* KV memory taken from the device now: whole slabs, so more than the sessions' pages add up to */
    uint64_t kv_budget; /* in force; 0: none */
    uint64_t memory_bytes; /* taken from the allocator now: by the engine and all that was made with it */
    uint64_t memory_peak;  /* the most of that so far */
    uint64_t memory_limit; /* in force; 0: none */
} infer_engine_info;
/* Threads, processor and memory in use. */
INFER_API infer_status infer_engine_get_info(infer_engine *engine, infer_engine_info *out, infer_error *err);
/* "scalar", "avx2", ... of an INFER_CPU_*; NULL for unknown values. Static. */
INFER_API const char *infer_cpu_name(int32_t cpu);
/* The INFER_CPU_* of a name, or -1. */
INFER_API int32_t infer_cpu_from_name(const char *name, uint64_t name_len);

/* ---- Sources: where files come from --------------------------------------------------------------------------------- */

/* One opened file, filled by a host's open callback. Either data (the whole file in memory, valid until release) or read. release comes from the thread that
 * lets go of the file last, and must not call the library. */
typedef struct infer_stream {
    uint32_t size;
    uint32_t reserved;
    uint64_t length;  /* of the file, bytes */
    const void *data; /* or NULL */
    void *user; /* given to read and release */
    /* Reads exactly bytes at offset into dst. 0, or a negative infer_status, which ends the call and is reported with the file and the offset. */
    infer_status (*read)(void *user, uint64_t offset, void *dst, uint64_t bytes);
    void (*release)(void *user); /* may be NULL */
} infer_stream;

/* Opens the file of this name (the source's own name, or a sibling: another part of a split model, a file of the folder that was named). 0, or a negative
 * infer_status. NOT_FOUND: there is no such file (a folder is none); the library may do without it, or ask for another. Anything else ends the call and is
 * reported with the name: nothing more is asked for. */
typedef infer_status (*infer_open_fn)(void *user, const char *name, uint64_t name_len, infer_stream *out);

enum { INFER_SOURCE_PATH = 1, INFER_SOURCE_DESCRIPTOR = 2, INFER_SOURCE_MEMORY = 3, INFER_SOURCE_CALLBACK = 4 };

/* Filled by one of the helpers below; everything it points to must live until the call that takes it returns, and memory
 * (which is used in place when it is aligned to 32 bytes, else copied) as long as the handle that was opened from it. */
typedef struct infer_source {
    uint32_t size;
    int32_t kind;        /* INFER_SOURCE_* */
    const char *name;    /* path; for the other kinds a name for messages and for finding the parts of a split file; may be NULL */
    uint64_t name_len;
    int64_t descriptor;  /* stays open and owned by the host; file position is not used or changed */
    const void *data; /* of MEMORY */
    uint64_t length; /* bytes in data */
    void *user; /* given to open */
    infer_open_fn open; /* of CALLBACK */
} infer_source;

/* A file or folder. This and the next three fill *source (which needs no INFER_INIT) and never fail: what is wrong shows when the source is opened. */
INFER_API void infer_source_path(infer_source *source, const char *path, uint64_t path_len);
/* An open descriptor (POSIX): regular files only. */
INFER_API void infer_source_descriptor(infer_source *source, int32_t descriptor);
/* length bytes in memory. */
INFER_API void infer_source_memory(infer_source *source, const void *data, uint64_t length);
/* What the host's open gives, called with this name and those of parts. open and read come from the thread that makes the call; they may call the library,
 * and release the engine or model that the call was given: it lives until that returns. */
INFER_API void infer_source_callback(infer_source *source, const char *name, uint64_t name_len, infer_open_fn open, void *user);

enum {
    INFER_MAP_AUTO = 0, /* MMAP where the system has it, else READ */
    INFER_MAP_MMAP = 1, /* map the file: fast to open, shared between processes; the file must not shrink while it is open */
    INFER_MAP_READ = 2  /* copy the file into memory: immune to later changes of the file */
};

/* How files are opened. */
typedef struct infer_open_options {
    uint32_t size;
    int32_t map;                /* INFER_MAP_* */
    infer_cancel *cancel;       /* polled while opening; may be NULL */
    uint32_t n_ctx;             /* of models: how many elements the sessions hold that do not say it themselves; 0: what the file declares. Models
                                   whose rotations come in a version for short contexts and one for long ones (LongRoPE: Phi 3) take the short one
                                   where n_ctx fits into the context that it is for, else the long one; no session of such a model may then hold
                                   more. The two are different models to checkpoints and caches */
    int32_t quantise;           /* of infer_model_open: matrices stored as F32, F16 or BF16 become this INFER_TYPE_* in memory: Q8_0, Q4_0, Q4_K or
                                   Q6_K. 0: they stay. Rows that are not whole blocks take Q8_0, or stay; the output matrix takes Q6_K, or
                                   Q8_0; vectors and routers stay. docs/models.md tells more */
} infer_open_options;

/* ---- Files: tensors and metadata as data ------------------------------------------------------------------------- */

/* Storage types of tensors; the values below 64 are GGUF's. */
enum {
    INFER_TYPE_F32 = 0, INFER_TYPE_F16 = 1, INFER_TYPE_Q4_0 = 2, INFER_TYPE_Q4_1 = 3, INFER_TYPE_Q5_0 = 6,
    INFER_TYPE_Q5_1 = 7, INFER_TYPE_Q8_0 = 8, INFER_TYPE_Q8_1 = 9, INFER_TYPE_Q2_K = 10, INFER_TYPE_Q3_K = 11, INFER_TYPE_Q4_K = 12,
    INFER_TYPE_Q5_K = 13, INFER_TYPE_Q6_K = 14, INFER_TYPE_Q8_K = 15, INFER_TYPE_IQ2_XXS = 16, INFER_TYPE_IQ2_XS = 17,
    INFER_TYPE_IQ3_XXS = 18, INFER_TYPE_IQ1_S = 19, INFER_TYPE_IQ4_NL = 20, INFER_TYPE_IQ3_S = 21,
    INFER_TYPE_IQ2_S = 22, INFER_TYPE_IQ4_XS = 23, INFER_TYPE_I8 = 24, INFER_TYPE_I16 = 25, INFER_TYPE_I32 = 26,
    INFER_TYPE_I64 = 27, INFER_TYPE_F64 = 28, INFER_TYPE_IQ1_M = 29, INFER_TYPE_BF16 = 30, INFER_TYPE_TQ1_0 = 34,
    INFER_TYPE_TQ2_0 = 35, INFER_TYPE_MXFP4 = 39, INFER_TYPE_NVFP4 = 40,
    INFER_TYPE_Q1_0 = 41, INFER_TYPE_Q2_0 = 42,
    /* what other formats have beside these: GGUF has no numbers for them */
    INFER_TYPE_F8_E4M3 = 64, INFER_TYPE_F8_E5M2 = 65, /* 4 and 3: no infinities, as float8_e4m3fn; 5 and 2: as in IEEE 754 */
    INFER_TYPE_BOOL = 66, INFER_TYPE_U8 = 67, INFER_TYPE_U16 = 68, INFER_TYPE_U32 = 69, INFER_TYPE_U64 = 70
};

/* "Q4_K" and so on; NULL for values that are not a type. Static. */
INFER_API const char *infer_type_name(int32_t type);

/* Opens a model file (GGUF, safetensors or PyTorch, recognised by its content) as a directory of tensors and metadata; nothing is interpreted, so files of
 * unknown architecture and without weights open too. A split file opens by its first part; the others are found by name.
 * engine (may be NULL) lends allocator and log. options may be NULL.
 * Errors: ARGUMENT (also for a later part of a split file; the text names the first), IO, NOT_FOUND, FORMAT, TRUNCATED, UNSUPPORTED
 * (big-endian, version, tensor type, a split file that does not come from a path or callback), MISSING and VALUE (the format's own keys),
 * NO_MEMORY, LIMIT, CANCELLED. */
INFER_API infer_status infer_file_open(infer_engine *engine, const infer_source *source,
                                       const infer_open_options *options, infer_file **out, infer_error *err);
INFER_API infer_file *infer_file_ref(infer_file *file);
INFER_API void infer_file_release(infer_file *file);

/* One tensor of a file. */
typedef struct infer_tensor_info {
    uint32_t size;
    int32_t type;          /* INFER_TYPE_* */
    const char *name;      /* borrowed; not zero-terminated */
    uint64_t name_len;
    uint64_t shape[4];     /* elements; shape[0] varies fastest (the length of a row); unused ones are 1. The outermost of more than 4
                              dimensions (safetensors) are multiplied into one; 0 in a safetensors file: an empty tensor */
    uint32_t dims;         /* 1-4 */
    uint32_t part;         /* which part of a split file, from 0 */
    uint64_t offset;       /* of the data in its part, bytes */
    const void *data;      /* borrowed: the packed bytes */
    uint64_t data_len;     /* bytes */
} infer_tensor_info;

/* Tensors of all parts. */
INFER_API uint64_t infer_file_tensor_count(const infer_file *file);
/* Tensor number index, in file order. Errors: ARGUMENT. */
INFER_API infer_status infer_file_tensor(const infer_file *file, uint64_t index, infer_tensor_info *out, infer_error *err);
/* Errors: NOT_FOUND. */
INFER_API infer_status infer_file_find_tensor(const infer_file *file, const char *name, uint64_t name_len,
                                              uint64_t *index, infer_error *err);
/* Decodes elements [first, first + count) of a tensor, in file order, to f32 exactly as its format defines (wide integers and F64 are
 * rounded to nearest; BOOL is 0 or 1). first and count must be multiples of the type's block. Errors: ARGUMENT. */
INFER_API infer_status infer_file_tensor_f32(const infer_file *file, uint64_t index, uint64_t first, uint64_t count,
                                             float *out, infer_error *err);

enum {
    INFER_VALUE_UINT = 1,   /* u: u8, u16, u32, u64 */
    INFER_VALUE_INT = 2,    /* i: i8, i16, i32, i64 */
    INFER_VALUE_FLOAT = 3,  /* f: f32, f64 */
    INFER_VALUE_BOOL = 4,   /* u: 0 or 1 */
    INFER_VALUE_STRING = 5, /* data, count bytes; not zero-terminated, not checked to be UTF-8 */
    INFER_VALUE_ARRAY = 6   /* count items, each read by infer_file_value_item */
};

/* A value of metadata. */
typedef struct infer_value {
    uint32_t size;
    int32_t kind;        /* INFER_VALUE_* */
    int32_t item_kind;   /* of an array's items, else 0 */
    uint32_t width;      /* bytes of a number, or of each item of an array of numbers, as stored; else 0 */
    uint64_t count;      /* bytes of a string, items of an array */
    uint64_t u; /* UINT, BOOL */
    int64_t i; /* INT */
    double f; /* FLOAT */
    const void *data;    /* borrowed: a string's bytes; an array's items as stored (little-endian, unaligned) */
} infer_value;

/* Metadata entries. */
INFER_API uint64_t infer_file_meta_count(const infer_file *file);
/* Metadata entry number index, in file order. key is borrowed and not zero-terminated. Errors: ARGUMENT. */
INFER_API infer_status infer_file_meta(const infer_file *file, uint64_t index, const char **key, uint64_t *key_len,
                                       infer_value *out, infer_error *err);
/* Errors: NOT_FOUND. */
INFER_API infer_status infer_file_find_meta(const infer_file *file, const char *key, uint64_t key_len, infer_value *out,
                                            infer_error *err);
/* Item number index of an array. Constant time for numbers; for strings and nested arrays, reading on in order is constant time per item.
 * Errors: ARGUMENT. */
INFER_API infer_status infer_file_value_item(const infer_file *file, const infer_value *array, uint64_t index,
                                             infer_value *out, infer_error *err);

/* ---- Tokenizers -------------------------------------------------------------------------------------------------- */

/* Opens the tokenizer of a model file or folder whose weights may be absent and whose architecture may be unknown, or a tokenizer.json.
 * Errors: as infer_file_open; MISSING, VALUE, UNSUPPORTED name the key. */
INFER_API infer_status infer_tokenizer_open(infer_engine *engine, const infer_source *source,
                                            const infer_open_options *options, infer_tokenizer **out, infer_error *err);
INFER_API infer_tokenizer *infer_tokenizer_ref(infer_tokenizer *tokenizer);
INFER_API void infer_tokenizer_release(infer_tokenizer *tokenizer);

enum {
    INFER_TOKENIZER_BPE = 1, INFER_TOKENIZER_SPM = 2, INFER_TOKENIZER_WORDPIECE = 3, INFER_TOKENIZER_UNIGRAM = 4, INFER_TOKENIZER_WORDLEVEL = 5
};

/* What a tokenizer is. */
typedef struct infer_tokenizer_info {
    uint32_t size;
    int32_t kind;          /* INFER_TOKENIZER_* */
    uint32_t vocab_size;   /* ids are 0 .. vocab_size - 1 */
    int32_t bos, eos, eot, unk, sep, pad, mask; /* token ids, -1: none */
    int32_t add_bos, add_eos;                   /* 1: INFER_TOKENIZE_ADD_SPECIAL adds it */
    uint32_t reserved;
} infer_tokenizer_info;
/* Kind, size and special tokens. */
INFER_API infer_status infer_tokenizer_get_info(const infer_tokenizer *tokenizer, infer_tokenizer_info *out,
                                                infer_error *err);

enum {
    INFER_TOKENIZE_ADD_SPECIAL = 1,  /* begin (and end) with BOS, EOS, CLS, SEP as the model file says */
    INFER_TOKENIZE_PARSE_SPECIAL = 2 /* the spelling of control tokens in the text ("<|im_end|>") becomes that token; else it is plain text */
};

/* Encodes text (malformed UTF-8 is replaced by U+FFFD, as Unicode recommends). ids may be NULL when capacity is 0. *count: ids
 * written or, with INFER_ERROR_BUFFER, needed. Errors: ARGUMENT, LIMIT, NO_MEMORY, BUFFER. */
INFER_API infer_status infer_tokenize(const infer_tokenizer *tokenizer, const char *text, uint64_t text_len,
                                      uint32_t flags, int32_t *ids, uint64_t capacity, uint64_t *count,
                                      infer_error *err);

enum {
    INFER_DETOKENIZE_SHOW_SPECIAL = 1 /* control tokens give their spelling; else they give nothing */
};

/* Decodes ids to text. The result may hold malformed UTF-8 when the ids do. Errors: TOKEN, LIMIT, NO_MEMORY, BUFFER (*text_len is the need). */
INFER_API infer_status infer_detokenize(const infer_tokenizer *tokenizer, const int32_t *ids, uint64_t count,
                                        uint32_t flags, char *text, uint64_t capacity, uint64_t *text_len,
                                        infer_error *err);

/* Streaming decoder: a caller-owned struct, INFER_INIT at the start of each text. Concatenated outputs equal infer_detokenize of all ids. */
typedef struct infer_detokenizer {
    uint32_t size;
    uint32_t flags;        /* INFER_DETOKENIZE_SHOW_SPECIAL; set after INFER_INIT */
    uint32_t pending_len;  /* bytes of an unfinished character */
    uint32_t started;      /* 0 before the first token */
    uint8_t pending[16]; /* those bytes */
} infer_detokenizer;

/* Adds one id and writes the text that is complete now: never half a character. A capacity of the token's length + 16 always
 * suffices. id -1 ends the text and flushes what is unfinished. Errors: as infer_detokenize; after BUFFER the call may be repeated. */
INFER_API infer_status infer_detokenizer_next(const infer_tokenizer *tokenizer, infer_detokenizer *state, int32_t id,
                                              char *text, uint64_t capacity, uint64_t *text_len, infer_error *err);

enum {
    INFER_TOKEN_NORMAL = 1, INFER_TOKEN_UNKNOWN = 2, INFER_TOKEN_CONTROL = 3, INFER_TOKEN_USER_DEFINED = 4,
    INFER_TOKEN_UNUSED = 5, INFER_TOKEN_BYTE = 6
};

/* One token of a vocabulary. */
typedef struct infer_token_info {
    uint32_t size;
    int32_t kind;        /* INFER_TOKEN_* */
    float score;         /* as stored; 0 when the file has none */
    int32_t ends_turn;   /* 1: generation stops at this token */
    const char *piece;   /* borrowed: the vocabulary's own spelling, not zero-terminated */
    uint64_t piece_len;
    const char *bytes;   /* borrowed: the text bytes that the token stands for in the middle of a text */
    uint64_t bytes_len;
} infer_token_info;
/* Errors: TOKEN. */
INFER_API infer_status infer_tokenizer_token(const infer_tokenizer *tokenizer, int32_t id, infer_token_info *out,
                                             infer_error *err);

/* ---- Chat templates ---------------------------------------------------------------------------------------------- */

/* Compiles a Jinja template as Hugging Face models carry them. engine may be NULL. Errors: SYNTAX (offset set), LIMIT, NO_MEMORY. */
INFER_API infer_status infer_template_parse(infer_engine *engine, const char *text, uint64_t text_len,
                                            infer_template **out, infer_error *err);
/* The template in a model file's metadata; a file without one gives ChatML, which infer_template_is_fallback tells. */
INFER_API infer_status infer_template_open(infer_engine *engine, const infer_source *source,
                                           const infer_open_options *options, infer_template **out, infer_error *err);
INFER_API infer_template *infer_template_ref(infer_template *tmpl);
INFER_API void infer_template_release(infer_template *tmpl);
/* 1: it is ChatML, for want of a template of the file's own. */
INFER_API int32_t infer_template_is_fallback(const infer_template *tmpl);
/* The template's source text: borrowed. */
INFER_API void infer_template_text(const infer_template *tmpl, const char **text, uint64_t *text_len);

/* Limits and clock of a rendering. */
typedef struct infer_render_options {
    uint32_t size;
    uint32_t reserved;
    int64_t now;          /* for strftime_now: seconds since 1970-01-01 00:00:00 in the zone whose time is to be shown */
    uint64_t max_output;  /* bytes; 0: 16 MiB */
    uint64_t max_steps;   /* evaluation steps; 0: 10,000,000 */
    uint64_t max_memory;  /* bytes of working memory; 0: 256 MiB */
    infer_cancel *cancel; /* polled while rendering; may be NULL */
} infer_render_options;

/* Renders with variables given as a JSON object in UTF-8 (key order is kept), usually {"messages":[{"role":"user","content":"..."}],
 * "add_generation_prompt":true}; bos_token, eos_token, tools and others as the template wants them. options may be NULL.
 * Errors: SYNTAX (bad JSON; offset set), TEMPLATE (raised or failed; the text says what), LIMIT, NO_MEMORY, CANCELLED, BUFFER (*out_len is the need). */
INFER_API infer_status infer_template_render(const infer_template *tmpl, const char *json, uint64_t json_len,
                                             const infer_render_options *options, char *out, uint64_t capacity,
                                             uint64_t *out_len, infer_error *err);

/* ---- Models ------------------------------------------------------------------------------------------------------ */

/* Opens a model of a known architecture: a GGUF file, or a Hugging Face folder. engine NULL: a private engine with default options. options may be NULL.
 * Errors: as infer_file_open; ARCHITECTURE, MISSING, SHAPE, VALUE name the key or tensor. A tokenizer that the library does not
 * know does not fail the model: infer_model_tokenizer is then NULL. */
INFER_API infer_status infer_model_open(infer_engine *engine, const infer_source *source,
                                        const infer_open_options *options, infer_model **out, infer_error *err);
/* The same for a path (zero-terminated) with default options. */
INFER_API infer_status infer_model_open_path(infer_engine *engine, const char *path, infer_model **out, infer_error *err);
INFER_API infer_model *infer_model_ref(infer_model *model);
INFER_API void infer_model_release(infer_model *model);

/* Borrowed; NULL when the file has none that is known (infer_model_info says why). */
INFER_API infer_tokenizer *infer_model_tokenizer(const infer_model *model);
/* Borrowed; never NULL: ChatML stands in (infer_template_is_fallback), also when the file's own cannot be compiled. */
INFER_API infer_template *infer_model_template(const infer_model *model);
INFER_API infer_file *infer_model_file(const infer_model *model);     /* borrowed */
INFER_API infer_engine *infer_model_engine(const infer_model *model); /* borrowed */

/* What a model is. */
typedef struct infer_model_info {
    uint32_t size;
    uint32_t vocab_size;     /* logits per position */
    uint32_t n_layer; /* layers */
    uint32_t n_embd;         /* width of an embedding row */
    uint32_t n_head; /* attention heads of a layer */
    uint32_t n_head_kv; /* of keys and values */
    uint32_t head_dim; /* width of a head */
    uint32_t n_ctx_train;    /* context length that the file declares */
    uint32_t window;         /* sliding-window length, 0: none */
    uint32_t reserved;
    uint64_t n_params;       /* elements of all weights */
    uint64_t weight_bytes; /* as stored */
    char architecture[32];   /* zero-terminated */
    char name[128];          /* "" when the file has none */
    char tokenizer_problem[256]; /* why infer_model_tokenizer is NULL, else "" */
    char template_problem[256];  /* why the file's template is not used, else "" */
    uint32_t embedding_width;    /* floats of a vector of infer_embed */
    int32_t pooling;             /* INFER_POOLING_*: how the file says that a text's rows become one vector; where it says nothing, MEAN for
                                    encoders, LAST for others */
    int32_t encoder;             /* 1: an encoder (BERT and its kind): infer_embed only, no sessions */
    uint32_t embed_tokens;       /* most tokens of a text that infer_embed takes unless told otherwise */
} infer_model_info;
/* What the model is. Never fails for a model. */
INFER_API infer_status infer_model_get_info(const infer_model *model, infer_model_info *out, infer_error *err);

/* How much of a model is in memory. A mapped file is read as its weights are first used, and the system may drop what is not used for long; of a
 * mixture of experts the experts that no element has chosen stay on disk. */
typedef struct infer_model_memory {
    uint32_t size;
    uint32_t n_expert;              /* of each layer that has experts; 0: none has */
    uint32_t n_expert_used;         /* of them for an element */
    uint32_t reserved;
    uint64_t weight_bytes;          /* of all tensors of the file */
    uint64_t resident_bytes;        /* of these, in memory now */
    uint64_t expert_bytes;          /* of the experts' tensors */
    uint64_t expert_resident_bytes; /* of these, in memory now */
    uint64_t own_bytes;             /* copies that were made at open, in another form than the file's */
} infer_model_memory;
/* Asks the system about each page: some milliseconds for tens of gigabytes. Where it does not tell, all counts as in memory. */
INFER_API infer_status infer_model_get_memory(const infer_model *model, infer_model_memory *out, infer_error *err);

/* ---- Memory planning ---------------------------------------------------------------------------------------------- */

/* What a model will take, known before it is opened, and a cap that holds. infer_engine_options.memory_limit bounds what an engine and all that is made
 * with it take from the allocator: what would go beyond it fails with NO_MEMORY, as if memory had run out, and the error's text names memory_limit,
 * how much was wanted and how much is left; everything stays usable. Mapped weights do not count: they belong to the system's page cache, which may
 * drop them. Nor do what the system's threads take for their stacks, and what is made without the engine (see infer_allocator).
 * The prefix cache gives way to sessions, forks, checkpoints and adapters, as it does for kv_budget. docs/memory.md tells more, with measurements. */

/* What shall be held at once. */
typedef struct infer_estimate_options {
    uint32_t size;
    int32_t kv_type;    /* INFER_KV_* of the sessions */
    uint32_t n_ctx;     /* elements of each session; 0: what sessions have that do not say it or, with a budget, the most that fits: a multiple of 64,
                           or all of what sessions have that do not say it. Of encoders: tokens of a text */
    uint32_t sessions;  /* that are full at once; 0: 1. Of encoders: texts of a call of infer_embed */
    uint32_t kv_recent; /* as in infer_session_options */
    uint32_t threads;   /* of the engine; 0: those of the one given, or of one with default options */
    uint64_t budget;    /* bytes that total_bytes must fit into; 0: none */
} infer_estimate_options;

/* Upper bounds, in bytes. */
typedef struct infer_estimate {
    uint32_t size;
    uint32_t n_ctx;         /* of each session; of encoders of each text */
    uint64_t weight_bytes;  /* of all tensors as they will be in memory, wherever they lie */
    uint64_t mapped_bytes;  /* files that are mapped, or memory that the host lends: not in memory_bytes */
    uint64_t own_bytes;     /* engine, tables, tokenizer, template, and the weights that are read, converted or quantised */
    uint64_t kv_bytes;      /* keys and values of all sessions when they are full, in whole blocks */
    uint64_t scratch_bytes; /* activations, logits, sampling, lists of elements */
    uint64_t open_bytes;    /* the most that is taken while the model is opened */
    uint64_t memory_bytes;  /* what memory_limit must be at least: own_bytes + kv_bytes + scratch_bytes, or open_bytes if that is more */
    uint64_t total_bytes;   /* mapped_bytes + memory_bytes */
} infer_estimate;

/* What the model would take, opened with these options in an engine like this one (NULL: with default options), with so many sessions that are filled
 * token by token or at once and generate with any settings. Weights are not read: of the files the metadata, the directory of tensors and the tokenizer
 * are (streams of a callback, which have no directory to look at alone, are read whole, as infer_model_open does). open and options may be NULL.
 * Not included: forks, checkpoints, stores, adapters, schedulers, the prefix cache, logits of more than one element of a session at a time,
 * infer_embed with models that are no encoders; and texts: while one is tokenised it takes up to some hundred bytes a byte. How to reckon with each is in
 * docs/memory.md. In short: a fork that goes on, and an answer of a scheduler, is at most one more of sessions; a checkpoint is at most the bytes that
 * infer_checkpoint_info says of it; an adapter twice its own_bytes while it is opened; the prefix cache a few per cent more than cache_bytes. The call itself
 * takes what the tokenizer takes, from the engine's allocator.
 * Errors: those of infer_model_open and, for the options, of infer_session_create; LIMIT: it does not fit into the budget, or the engine's kv_budget
 * (with n_ctx 0: not even with a context of 64); the text says how much is needed. */
INFER_API infer_status infer_model_estimate(infer_engine *engine, const infer_source *source, const infer_open_options *open,
                                            const infer_estimate_options *options, infer_estimate *out, infer_error *err);

/* ---- Sessions ---------------------------------------------------------------------------------------------------- */

/* How a session keeps its keys and values. INT8, INT8_64: 8 bits and, per 32 or 64 dimensions of a position's head, a scale: about half of F16's
 * memory, and answers a little further from the model's (docs/accuracy.md). MIXED_F16, MIXED_F32: INT8, and beside it F16 or F32 for the elements
 * that lie at most kv_recent back (docs/state.md). */
enum {
    INFER_KV_F16 = 0,
    INFER_KV_F32 = 1,
    INFER_KV_BF16 = 2,
    INFER_KV_INT8 = 3,
    INFER_KV_INT8_64 = 4,
    INFER_KV_MIXED_F16 = 5,
    INFER_KV_MIXED_F32 = 6
};

/* How a session is made. */
typedef struct infer_session_options {
    uint32_t size;
    uint32_t n_ctx;     /* most elements that the session may hold, at most 2^24; 0: the model's training context. More than that is
                           allowed where positions are computed (answers get worse). Memory grows as it fills */
    int32_t kv_type;    /* INFER_KV_* */
    uint32_t kv_recent; /* of the mixed types: elements kept in the exact type; rounded up to a multiple of 64, at most 4,096; 0: 64 */
    uint32_t cache_flags; /* INFER_CACHE_NO_* */
    uint32_t salt_len;    /* at most INFER_CACHE_SALT_MAX */
    const void *salt;     /* only sessions with the same salt share by the prefix cache: one for each tenant. Copied */
} infer_session_options;
/* INFER_CACHE_NO_LOOKUP: computes everything itself. INFER_CACHE_NO_INSERT: leaves nothing behind for others. */
enum { INFER_CACHE_NO_LOOKUP = 1, INFER_CACHE_NO_INSERT = 2 };

/* Makes an empty session. options may be NULL. Errors: ARGUMENT, UNSUPPORTED (an encoder: see infer_embed), NO_MEMORY. */
INFER_API infer_status infer_session_create(infer_model *model, const infer_session_options *options,
                                            infer_session **out, infer_error *err);
INFER_API infer_session *infer_session_ref(infer_session *session);
INFER_API void infer_session_release(infer_session *session);
INFER_API infer_model *infer_session_model(const infer_session *session); /* borrowed */

/* Elements: a session is a list of them. Each is a token id or an embedding row. Appended elements are pending until a step computes them. */

/* Appends token ids. Errors: TOKEN (id negative or >= the vocabulary), CONTEXT_FULL, NO_MEMORY; none are appended then. */
INFER_API infer_status infer_session_append(infer_session *session, const int32_t *ids, uint64_t count,
                                            infer_error *err);
/* Tokenizes text and appends the ids; flags as for infer_tokenize: INFER_TOKENIZE_ADD_SPECIAL belongs to the first text of a session only.
 * Errors: also STATE (model without tokenizer). */
INFER_API infer_status infer_session_append_text(infer_session *session, const char *text, uint64_t text_len,
                                                 uint32_t flags, infer_error *err);
/* One message of a conversation. This struct never grows. */
typedef struct infer_message {
    const char *role; /* "system", "user", "assistant", or what else the template knows */
    uint64_t role_len;
    const char *content; /* what is said */
    uint64_t content_len;
} infer_message;

/* Renders the model's chat template with these messages, a generation prompt, bos_token and eos_token, and appends the tokens (with BOS
 * before them where the model wants it, the session is empty, and the template has not written it). Spellings of control tokens inside
 * messages count as such, as in every chat template: clean what strangers write. A model without a template gets ChatML
 * (infer_template_is_fallback tells). Other variables: infer_template_render and infer_session_append_text. options may be NULL.
 * Errors: STATE (model without tokenizer), ENCODING, those of infer_template_render, CONTEXT_FULL. */
INFER_API infer_status infer_session_append_chat(infer_session *session, const infer_message *messages, uint64_t count,
                                                 const infer_render_options *options, infer_error *err);

/* Appends embedding rows [count][n_embd] (finite values; used in place of the token embedding, after its scaling). keys: two 64-bit
 * words per row that identify its content for caches: equal keys promise equal rows. Copied. Errors: ARGUMENT, VALUE, CONTEXT_FULL, NO_MEMORY. */
INFER_API infer_status infer_session_append_rows(infer_session *session, const float *rows, const uint64_t *keys,
                                                 uint64_t count, infer_error *err);

/* A session as it is now. */
typedef struct infer_session_info {
    uint32_t size;
    uint32_t n_ctx; /* most elements */
    uint64_t length;      /* elements, computed and pending */
    uint64_t computed;    /* of them computed */
    uint64_t kv_bytes;    /* KV memory that this session holds, shared pages included */
    uint64_t logits_rows; /* rows that infer_session_logits can give now */
    uint64_t kv_shared_bytes; /* of kv_bytes, what other sessions, checkpoints or the cache hold too */
    uint64_t kv_mapped_bytes; /* of kv_bytes, what lies in a mapped checkpoint file and not in the engine's KV memory */
    int32_t approximate;      /* 1: part of the state was grafted or shifted, not computed */
    uint32_t kv_recent;       /* of the mixed types: in force; else 0 */
    uint64_t adapters;        /* identity of the adapters in force for what is appended next, their scales, modes and layers; 0: none */
} infer_session_info;
/* Lengths and memory of the session. */
INFER_API infer_status infer_session_get_info(const infer_session *session, infer_session_info *out, infer_error *err);

/* The ids of elements [first, first + count); an embedding row gives -1. Errors: ARGUMENT. */
INFER_API infer_status infer_session_tokens(const infer_session *session, uint64_t first, uint64_t count, int32_t *ids,
                                            infer_error *err);

/* Rolls back to a length (in elements). State that must be computed again becomes pending; *rerun (may be NULL) tells how many
 * elements. Logits of the last step are gone: the next step or generation computes the last element again for them. Errors: ARGUMENT (length above the present one), NO_MEMORY. */
INFER_API infer_status infer_session_truncate(infer_session *session, uint64_t length, uint64_t *rerun,
                                              infer_error *err);

/* A second session with the same elements, state, logits and sampler, not generating: computed state is shared, not copied, until one side
 * changes it. Takes microseconds and a few kilobytes, whatever the length. Errors: NO_MEMORY. */
INFER_API infer_status infer_session_fork(infer_session *session, infer_session **out, infer_error *err);

enum {
    INFER_ROWS_LAST = 0, /* of the last element computed, when this step computes the last pending one */
    INFER_ROWS_NONE = 1,
    INFER_ROWS_ALL = 2,
    INFER_ROWS_MASK = 3 /* of the elements whose byte in mask is not 0 */
};

/* Hidden states of elements that a step computes: for probes, steering vectors, embeddings of one's own making. Elements whose hidden states are
 * wanted are computed, never taken from the prefix cache. */
enum { INFER_HIDDEN_FINAL = -1 }; /* behind the last layer and the final norm: what the output matrix multiplies */
/* Which hidden states a step gives, and where to. */
typedef struct infer_hidden {
    uint32_t size;
    int32_t elements;       /* which: INFER_ROWS_LAST, NONE, ALL or MASK, as for logits. LAST of a session without pending elements computes its
                               last element again */
    const uint8_t *mask;    /* for INFER_ROWS_MASK: one byte for each pending element */
    const int32_t *layers;  /* [layer_count] numbers from 0: what has flowed through that layer (the residual stream, adapters' additions included);
                               or INFER_HIDDEN_FINAL, which NULL with a count of 0 means too */
    uint32_t layer_count;
    uint32_t reserved;
    float *out;             /* [rows][layer_count][n_embd]: elements in order, layers in the order of the list */
    uint64_t capacity;      /* floats in out */
    uint64_t rows;          /* out: elements that were written; what lies behind them is undefined */
} infer_hidden;

/* One session's part of a step. */
typedef struct infer_step_item {
    uint32_t size;
    int32_t status;         /* out: an infer_status of this session */
    infer_session *session; /* whose pending elements are computed */
    uint64_t max_elements;  /* of the pending ones, how many at most; 0: all */
    const uint8_t *mask;    /* for INFER_ROWS_MASK: one byte for each pending element */
    int32_t logits;         /* INFER_ROWS_* */
    uint32_t reserved;
    uint64_t done;          /* out: elements computed, or taken from the prefix cache */
    infer_hidden *hidden;   /* hidden states to give; NULL: none. One struct an item; too small a capacity is BUFFER, for the whole call */
} infer_step_item;

/* Computes pending elements of count different sessions of one model in batches. Bad items (ARGUMENT) fail the whole call before
 * anything is done or written. Else returns INFER_OK when every item succeeded, or the first item's failure, and each item tells its own
 * status and progress. Long work is cut into chunks of at most 256 elements over all sessions; cancelling (cancel may be NULL) drops the chunk in
 * work, no other. A session without pending elements is done at once and keeps its logits; if the last element's are not there (rolled back,
 * or not asked for) and the item says INFER_ROWS_LAST, it is computed again. Of any other session the logits of the step before are
 * gone, also when this one fails.
 * Errors per item: LIMIT (KV budget), NO_MEMORY, NONFINITE, CANCELLED, CHANGED (a mapped file shrank), FORMAT (a page of a mapped
 * checkpoint file is damaged), HOST (the executor), THREAD (none of the engine's could be started). */
INFER_API infer_status infer_step(infer_step_item *items, uint64_t count, infer_cancel *cancel, infer_error *err);

/* Logits of row number `row` of the last step, in element order: vocab_size floats, borrowed until the session is used again.
 * *position (may be NULL) is the element's index. Errors: ARGUMENT, STATE (none). */
INFER_API infer_status infer_session_logits(const infer_session *session, uint64_t row, const float **logits,
                                            uint64_t *position, infer_error *err);

/* ---- Sampling ---------------------------------------------------------------------------------------------------- */

/* May change the logits before sampling: vocab_size floats, in place; -INFINITY forbids a token, NaN and +INFINITY are errors. ids: the session's
 * elements so far. Returns 0, or a negative infer_status, which ends the call. It may call the library, for other sessions too, and of its own
 * session infer_session_get_info and infer_session_release: then what the call has to tell is gone when it returns. */
typedef infer_status (*infer_logits_fn)(void *user, float *logits, uint64_t vocab_size, const int32_t *ids,
                                        uint64_t count);

/* This struct never grows. */
typedef struct infer_bias {
    int32_t id; /* token id */
    float bias; /* added to the logit; -INFINITY forbids the token */
} infer_bias;

/* Applied in this order: host callback, bias, penalties, temperature, top_k, top_p, min_p, typical; then one draw. After INFER_INIT,
 * infer_sampling_default, or both, set what differs. NaN in any field is refused. */
typedef struct infer_sampling {
    uint32_t size;
    uint32_t top_k;            /* keep the k most likely; 0: all */
    float temperature;         /* logits are divided by it; 0: greedy (ties go to the lower id) */
    float top_p;               /* keep the smallest set with at least this much probability; 0 or 1: all */
    float min_p;               /* drop tokens less likely than this share of the most likely; 0: none */
    float typical_p;           /* locally typical sampling; 0 or 1: all */
    float repetition_penalty;  /* positive logits of seen tokens are divided by it, negative multiplied; 0 or 1: none */
    float presence_penalty;    /* subtracted once from the logit of each seen token */
    float frequency_penalty;   /* subtracted once per occurrence */
    uint32_t penalty_last_n;   /* how many elements back count as seen; 0: all */
    uint64_t seed;             /* the draw for position p is a function of (seed, p) alone */
    const infer_bias *bias;    /* copied */
    uint64_t bias_count;
    infer_logits_fn callback; /* or NULL */
    void *callback_user;
    uint32_t top_logprobs;     /* alternatives to report with each token, at most 20 */
    int32_t logprobs;          /* 1: report the log-probability of each sampled token, before temperature and filters (after callback, bias and penalties) */
} infer_sampling;

/* What infer-cli uses: temperature 0.7, top_k 40, top_p 0.95, min_p 0.05, seed 0. INFER_INIT alone means greedy. size must be set. */
INFER_API infer_status infer_sampling_default(infer_sampling *sampling, infer_error *err);

/* Sets a session's sampling; takes effect at the next sampled token. Bounds: temperature 0 to 1000, repetition_penalty 0 or 0.001 to
 * 1000, presence and frequency penalties -1000 to 1000, biases -1e6 to 1e6 or -INFINITY. Errors: ARGUMENT (names the field), TOKEN (an
 * id of the bias list), NO_MEMORY; the old settings stay then. */
INFER_API infer_status infer_session_set_sampling(infer_session *session, const infer_sampling *sampling,
                                                  infer_error *err);

/* This struct never grows. */
typedef struct infer_logprob {
    int32_t id; /* token id */
    float logprob; /* natural logarithm */
} infer_logprob;

/* A drawn token. */
typedef struct infer_sample_result {
    uint32_t size;
    int32_t id; /* the token */
    float logprob;               /* when asked for, else 0 */
    uint32_t top_count; /* items of top */
    const infer_logprob *top;    /* borrowed until the session is used again; most likely first */
} infer_sample_result;

/* Draws the next token from the last logits row; it is not appended. Errors: STATE (no logits, or every token is forbidden), NONFINITE,
 * HOST (the callback failed or wrote NaN or +INFINITY), NO_MEMORY. */
INFER_API infer_status infer_session_sample(infer_session *session, infer_sample_result *out, infer_error *err);

/* ---- Scoring ----------------------------------------------------------------------------------------------------- */

/* How likely given tokens are. */
typedef struct infer_score {
    uint32_t size;
    uint32_t top_logprobs;  /* alternatives to give with each id, at most 20 */
    float *logprobs;        /* [count] out: of each id, natural logarithms; NULL: not wanted */
    infer_logprob *top;     /* [count][top_logprobs] out: what would have been most likely instead, most likely first (the id itself among it, where it is;
                               of a smaller vocabulary the rest has id -1); NULL: not wanted */
    uint64_t first;         /* out: ids at the beginning without a log-probability, for which 0 (and alternatives -1) is written: 1 when no logits come
                               before the first id (the session was empty, or ended with a prefix), else 0 */
    double sum;             /* out: of the log-probabilities of the others */
} infer_score;

/* Appends count ids, as infer_session_append does, and tells how likely each is after all that stands before it: under the model's own distribution,
 * whatever the session's sampling says. What is pending is computed first; the last id is left pending, and the logits that the session has then are
 * those of some of the last elements. At most 32 rows of logits are kept at a time, whatever count is. To score again, roll back: a session of which
 * only the prompt was computed scores one continuation after another with infer_session_truncate, or forks do.
 * A failure leaves the session as it was (its prompt may have gone to the prefix cache), and what is in the arrays undefined.
 * Errors: ARGUMENT, CONTEXT_FULL, TOKEN, and those of infer_step. */
INFER_API infer_status infer_session_score(infer_session *session, const int32_t *ids, uint64_t count, infer_score *score, infer_cancel *cancel,
                                           infer_error *err);

/* ---- Generation -------------------------------------------------------------------------------------------------- */

enum {
    INFER_EVENT_PREFILL = 1, /* part of the prompt was computed: done, total */
    INFER_EVENT_TOKEN = 2,   /* a token was chosen: id, text (may be empty: half a character, or what may become a stop string), logprobs */
    INFER_EVENT_DONE = 3,    /* the end: finish_reason, text (what was held back) */
    INFER_EVENT_SHIFT = 4    /* the context was full and its middle was dropped: done elements, total are left; only with shift_drop */
};
enum {
    INFER_FINISH_STOP = 1,        /* an end-of-turn token, or one of stop_ids */
    INFER_FINISH_LENGTH = 2,      /* max_tokens */
    INFER_FINISH_CONTEXT = 3,     /* the context is full */
    INFER_FINISH_STOP_STRING = 4, /* one of stops */
    INFER_FINISH_REPETITION = 5,  /* repeat_guard */
    INFER_FINISH_TIME = 6,        /* of a scheduler's request: its time_limit */
    INFER_FINISH_CANCELLED = 7,   /* of a scheduler's request: infer_request_cancel */
    INFER_FINISH_ERROR = 8        /* of a scheduler's request: see its event's error */
};

/* What a piece of generation did. */
typedef struct infer_event {
    uint32_t size;
    int32_t kind;            /* INFER_EVENT_* */
    int32_t id;              /* -1 unless TOKEN */
    int32_t finish_reason;   /* INFER_FINISH_* */
    const char *text;        /* never NULL; borrowed until the session is used again; whole characters (at DONE with what was begun of the last one) */
    uint64_t text_len;
    uint64_t done, total;    /* PREFILL, SHIFT: elements */
    float logprob; /* TOKEN, when asked for */
    uint32_t top_count; /* items of top */
    const infer_logprob *top; /* TOKEN: alternatives, most likely first; borrowed as text is */
    int32_t stop_index;      /* DONE with INFER_FINISH_STOP_STRING: which of stops; else -1 */
    uint32_t reserved;
} infer_event;

/* A string. This struct never grows. */
typedef struct infer_text {
    const char *text; /* UTF-8, or any bytes where the function says so */
    uint64_t text_len;
} infer_text;

/* How an answer ends. */
typedef struct infer_generate_options {
    uint32_t size;
    uint32_t flags;          /* INFER_GENERATE_IGNORE_EOS, INFER_GENERATE_SHOW_SPECIAL */
    uint64_t max_tokens;     /* 0: until the context is full. The end-of-turn token counts */
    uint64_t shift_keep;     /* with shift_drop: the first elements, which stay */
    uint64_t shift_drop;     /* when the context is full, drop so many elements behind those as infer_session_shift does, and go on: what follows is
                                approximate. 0: never, the answer ends there. keep + drop must be less than n_ctx */
    const infer_text *stops; /* strings that end the answer, whatever tokens they come in: nothing of one is given out, nor what follows it, and text
                                that may become one is held back until it is known, at the latest to DONE. The answer ends at the first byte at which
                                a stop string is complete; of several the longest counts, of equal ones the first. They are bytes, and may begin or
                                end inside a character. At most 64 of 1 to 1,024 bytes. Copied. Text of the prompt, and of what is appended while
                                the answer is being made, takes no part */
    uint64_t stop_count;
    const int32_t *stop_ids; /* further tokens that end the answer, as end-of-turn tokens do, but also with INFER_GENERATE_IGNORE_EOS; at most 64. Copied */
    uint64_t stop_id_count;
    uint64_t repeat_guard;   /* ends an answer that repeats itself without end: when its last repeat_guard tokens are a pattern of at most a quarter of
                                their number, over and over. At least 16, at most 4,096; 0: never. What is appended while the answer is being made
                                begins the count anew */
} infer_generate_options;
enum { INFER_GENERATE_IGNORE_EOS = 1, INFER_GENERATE_SHOW_SPECIAL = 2 };

/* Begins an answer: counts start anew; without new input it goes on where the session stands. options may be NULL. The session keeps all tokens of
 * the answer, those of a stop string too: infer_session_truncate drops them, and ends an answer that is being made (what is held back is lost).
 * Checkpoints keep an answer that is being made, forks do not. Of several reasons to end at one token the first of these is told: a stop string, an
 * end-of-turn or stop token, repetition, max_tokens.
 * Errors: ARGUMENT (names the field), TOKEN (a stop id that the model has not), STATE (the session is empty), UNSUPPORTED (shift_drop with learned
 * positions; stops without a tokenizer), NO_MEMORY; an answer that was being made then goes on. */
INFER_API infer_status infer_generate_begin(infer_session *session, const infer_generate_options *options,
                                            infer_error *err);
/* Does a bounded piece of work, one chunk of the prompt or one token, and tells what happened. A chosen token is appended to the
 * session (the end-of-turn token too). After DONE, STATE until the next begin. A failed or cancelled call may be repeated.
 * Errors: STATE, and those of infer_step and infer_session_sample. */
INFER_API infer_status infer_generate_next(infer_session *session, infer_event *event, infer_cancel *cancel,
                                           infer_error *err);

/* Return 0 to go on, anything else to stop: the call then returns INFER_ERROR_CANCELLED, after DONE too. Must not call back into the session. */
typedef int32_t (*infer_event_fn)(void *user, const infer_event *event);
/* begin and next until DONE, each event to the callback, which is required. After the callback has stopped it before DONE, or an error of next,
 * infer_generate_next may go on with the same answer. Errors: those of begin and next. */
INFER_API infer_status infer_generate(infer_session *session, const infer_generate_options *options,
                                      infer_event_fn callback, void *user, infer_cancel *cancel, infer_error *err);

/* ---- Adapters ---------------------------------------------------------------------------------------------------- */

/* What changes a model's behaviour for one session, beside the weights, which stay as they are: LoRA matrices, steering vectors, soft prompts, prefixes.
 * An adapter is opened for a model once, and then attached to any number of its sessions; sessions with different adapters step in one batch, each
 * with the bits that it would have alone. See docs/adapters.md. */

enum {
    INFER_ADAPTER_LORA = 1,        /* PEFT or GGUF: beside matrices of the base. Attached */
    INFER_ADAPTER_STEERING = 2,    /* a vector for each of some layers. Attached */
    INFER_ADAPTER_SOFT_PROMPT = 3, /* learned embedding rows. Appended */
    INFER_ADAPTER_PREFIX = 4       /* learned keys and values of every layer. Appended */
};

/* Opens an adapter: a GGUF LoRA or control vector; a PEFT folder, or the weights in one; a steering vector or a soft prompt in a safetensors or
 * torch file. Each matrix finds its place in the model, and what it is used with is prepared, so that attaching it later is quick. The file is used
 * in place: what is said of models' files holds. The handle keeps the model. options may be NULL.
 * Errors name the tensor or key: those of infer_file_open, and MISSING (a target that the model does not have, adapter_config.json), SHAPE, VALUE (for
 * another architecture, a layer beyond the last, a number that is not finite), UNSUPPORTED (a method that is not built, or a matrix whose products take no
 * adapter, such as experts'; a build without xxHash). */
INFER_API infer_status infer_adapter_open(infer_model *model, const infer_source *source, const infer_open_options *options,
                                          infer_adapter **out, infer_error *err);
/* The same for a path (zero-terminated) of a file or folder, with default options. */
INFER_API infer_status infer_adapter_open_path(infer_model *model, const char *path, infer_adapter **out, infer_error *err);
INFER_API infer_adapter *infer_adapter_ref(infer_adapter *adapter);
INFER_API void infer_adapter_release(infer_adapter *adapter);
INFER_API infer_model *infer_adapter_model(const infer_adapter *adapter); /* borrowed */
/* A new reference on an adapter that is open for the model and has this content, as infer_adapter_info.hash tells it. Errors: NOT_FOUND. */
INFER_API infer_status infer_adapter_find(infer_model *model, const uint8_t hash[16], infer_adapter **out, infer_error *err);

/* What an open adapter is. */
typedef struct infer_adapter_info {
    uint32_t size;
    int32_t kind;           /* INFER_ADAPTER_* */
    uint8_t hash[16];       /* of the content (names, shapes, scales, numbers), not of the file: equal on all machines. XXH3: no defence against forgery */
    uint64_t targets;       /* LoRA: matrices; steering: layers; else 0 */
    uint64_t bytes;         /* of the numbers, as stored */
    uint64_t own_bytes;     /* of memory beside the mapped file */
    uint32_t rank;          /* LoRA: the largest; else 0 */
    uint32_t rows;          /* soft prompts and prefixes: elements that appending makes; else 0 */
    uint32_t invocation_count; /* aLoRA: tokens that infer_adapter_invocation gives; 0: acts everywhere */
    uint32_t reserved;
    char base[128];         /* what the file calls its base model, zero-terminated; "" */
} infer_adapter_info;
/* Kind, content hash and sizes. */
INFER_API infer_status infer_adapter_get_info(const infer_adapter *adapter, infer_adapter_info *out, infer_error *err);
/* Name of target number index of a LoRA adapter, as GGUF names it: borrowed, zero-terminated. NULL: there is none. */
INFER_API const char *infer_adapter_target(const infer_adapter *adapter, uint64_t index);
/* The invocation tokens of an aLoRA: borrowed. NULL: none. */
INFER_API const int32_t *infer_adapter_invocation(const infer_adapter *adapter, uint64_t *count);

enum {
    INFER_ADAPTER_ADD = 0,    /* steering: scale * v is added to what leaves the layer. LoRA: always */
    INFER_ADAPTER_PROJECT = 1 /* steering: scale times the part that points along v is taken out */
};

/* An adapter as a session uses it. */
typedef struct infer_adapter_use {
    uint32_t size;
    int32_t mode;           /* INFER_ADAPTER_ADD, INFER_ADAPTER_PROJECT */
    infer_adapter *adapter; /* LoRA or steering */
    float scale;            /* 1: as the file has it. 0: the item does nothing, to the bit. -65,536 to 65,536 */
    uint32_t first_layer;   /* acts on the layers from this one on ... */
    uint32_t layer_count;   /* ... so many; 0: to the last */
    uint32_t reserved;
} infer_adapter_use;

/* What is in force for the elements that are appended to the session from now on: this list (at most 16 items, in the order in which they are
 * applied; each filled by INFER_INIT), in place of the list before. count 0: nothing. May be called at any time, also in the middle of an answer. Elements
 * that the session has already keep the adapters that they were appended under, computed or not: nothing is computed again. An aLoRA comes into force with
 * its invocation tokens. The adapters are kept. Takes microseconds. Errors: ARGUMENT (another model's adapter; a scale that is not a number or too
 * large; a layer range; a kind that is appended), NO_MEMORY: the list before stays then. */
INFER_API infer_status infer_session_set_adapters(infer_session *session, const infer_adapter_use *uses, uint64_t count, infer_error *err);
/* Item number index of the list; INFER_ERROR_NOT_FOUND beyond its last. uses with scale 0 are not in it. The adapter is borrowed. */
INFER_API infer_status infer_session_adapter(const infer_session *session, uint64_t index, infer_adapter_use *out, infer_error *err);
/* Appends a soft prompt (its rows, as infer_session_append_rows does) or a prefix (elements that are not computed: their keys and values are
 * written; no logits come from them). Errors: ARGUMENT (another kind or model), CONTEXT_FULL, NO_MEMORY. */
INFER_API infer_status infer_session_append_adapter(infer_session *session, infer_adapter *adapter, infer_error *err);

/* ---- Embeddings --------------------------------------------------------------------------------------------------- */

/* How the hidden states of a text become one vector. RANK is what rerankers declare; it cannot be computed yet. */
enum {
    INFER_POOLING_MODEL = 0, /* as the file says: infer_model_info.pooling */
    INFER_POOLING_NONE = 1,  /* one vector for each token */
    INFER_POOLING_MEAN = 2,
    INFER_POOLING_CLS = 3,   /* the first token's */
    INFER_POOLING_LAST = 4,
    INFER_POOLING_RANK = 5
};

enum {
    INFER_EMBED_RAW = 1,          /* vectors as they come; else each is scaled to length 1 (with INFER_POOLING_NONE none is) */
    INFER_EMBED_TRUNCATE = 2,     /* texts with more than max_tokens tokens lose their end (not the special tokens there); else they are refused */
    INFER_EMBED_NO_SPECIAL = 4,   /* texts get no special tokens; else those that the model file says, as INFER_TOKENIZE_ADD_SPECIAL */
    INFER_EMBED_PARSE_SPECIAL = 8 /* as INFER_TOKENIZE_PARSE_SPECIAL */
};

/* How embeddings are made. */
typedef struct infer_embed_options {
    uint32_t size;
    int32_t pooling;     /* INFER_POOLING_*, but not RANK */
    uint32_t flags;      /* INFER_EMBED_* */
    uint32_t dimensions; /* keep the first so many floats of a vector and scale those: for models that were trained for it ("Matryoshka"); 0: all */
    uint64_t max_tokens; /* of a text, special tokens included; 0: infer_model_info.embed_tokens. More than the model was trained for is ARGUMENT where
                            positions are learned */
} infer_embed_options;

/* One text and its embedding. */
typedef struct infer_embed_item {
    uint32_t size;
    int32_t status;      /* out: an infer_status of this text */
    const char *text;    /* UTF-8; or NULL, and ids */
    uint64_t text_len;
    const int32_t *ids;  /* [id_count] token ids, taken as they are */
    uint64_t id_count;
    float *out;          /* [rows][width]: width is infer_model_info.embedding_width (n_embd for INFER_POOLING_NONE), or options.dimensions */
    uint64_t capacity;   /* floats in out */
    uint64_t rows;       /* out: 1, or with INFER_POOLING_NONE the number of tokens; also with BUFFER */
    uint64_t tokens;     /* out: tokens of the whole text, special ones included */
    int32_t truncated;   /* out: 1: not all of them were used */
    uint32_t reserved;
} infer_embed_item;

/* Makes embeddings of count texts, several of them in one pass: with encoders, and with any other model from its final hidden states. A text's bits
 * depend on it and the model alone, not on the texts beside it. Keys and values are in f32. Encoders are computed layer by layer: besides the
 * weights that takes memory for one layer's keys and values and three rows of activations for each token of the longest text (8,192 tokens of
 * width 768: about 130 MB, kept by the engine for later calls). Other models use KV memory as sessions do. Adapters take no part: for those, step a
 * session with an infer_hidden. Instructions ("search_query: ", "query: ") are part of the text: the host writes them.
 * Bad items (ARGUMENT) fail the whole call before anything is done or written. Else returns INFER_OK when every text succeeded, or the first
 * failure, and each item tells its own status. options may be NULL. Errors per item: STATE (a text, but the model has no tokenizer), CONTEXT_FULL (too
 * many tokens), TOKEN (an id), VALUE (no tokens), BUFFER, LIMIT, NO_MEMORY, NONFINITE, CANCELLED, CHANGED, HOST, THREAD.
 * Errors of the call: UNSUPPORTED (the file declares a kind of pooling that is not supported, and options.pooling is MODEL). */
INFER_API infer_status infer_embed(infer_model *model, infer_embed_item *items, uint64_t count, const infer_embed_options *options,
                                   infer_cancel *cancel, infer_error *err);

#ifdef __cplusplus
}
#endif
#endif
