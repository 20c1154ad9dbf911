/* What is served where: each endpoint's file has its own table. */
#include "http.h"

extern const struct route adapter_routes[];
extern const struct route anthropic_routes[];
extern const struct route checkpoints_routes[];
extern const struct route embeddings_routes[];
extern const struct route health_routes[];
extern const struct route info_routes[];
extern const struct route native_chat_routes[];
extern const struct route native_infer_routes[];
extern const struct route native_score_routes[];
extern const struct route native_text_routes[];
extern const struct route openai_chat_routes[];
extern const struct route openai_completions_routes[];
extern const struct route openai_models_routes[];
extern const struct route page_routes[];
extern const struct route responses_routes[];

const struct route *const route_tables[] = {
    adapter_routes,
    anthropic_routes,
    checkpoints_routes,
    embeddings_routes,
    health_routes,
    info_routes,
    native_chat_routes,
    native_infer_routes,
    native_score_routes,
    native_text_routes,
    openai_chat_routes,
    openai_completions_routes,
    openai_models_routes,
    page_routes,
    responses_routes,
    NULL,
};
