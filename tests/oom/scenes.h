/* Steps that scenarios of several files use. */
#ifndef SCENES_H
#define SCENES_H

#include "oom.h"

enum {
    MODEL_TINY, MODEL_TINY_READ, MODEL_LLAMA, MODEL_LLAMA_Q4, MODEL_GEMMA3, MODEL_MOE, MODEL_MLA, MODEL_GPT2, MODEL_BERT, MODEL_LLAMA_FOLDER,
    MODEL_BERT_FOLDER, MODEL_PHI3_FOLDER
};

infer_status scene_engine(struct world *w, int arg);
infer_status scene_model(struct world *w, int which); /* MODEL_* */
infer_status scene_session(struct world *w, int slot);
infer_status scene_append(struct world *w, int slot_and_count); /* see SLOT */
infer_status scene_prefill(struct world *w, int slot);
#define SLOT(slot, count) ((slot) + (count) * 16)
void scene_add_logits(struct world *w, const infer_session *s);

void scenes_make(void); /* once, before all */

#endif
