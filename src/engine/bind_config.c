/* bind_config.c - the config table: from config.json's spellings, old and new, or GGUF metadata. */
#include "bind.h"

#include "limits.h"
#include "quant.h"
#include "rope.h"

#include <float.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SLOT_ALIGNMENT = 64 };

enum status bind_family(struct model *model, struct error *err) {
    const struct json *config = checkpoint_config(model->checkpoint);
    bool is_gguf = checkpoint_kind(model->checkpoint) == CHECKPOINT_GGUF;
    const char *name = is_gguf ? checkpoint_string(model->checkpoint, "general.architecture")
                               : json_text(json_get(config, "model_type"), NULL);
    char list[200];
    if (name == NULL) {
        return error_set(err, STATUS_BAD_INPUT, "%s: does not say what kind of model it is (%s)",
                         checkpoint_path(model->checkpoint),
                         is_gguf ? "general.architecture" : "model_type in config.json");
    }
    model->family = is_gguf ? family_find_gguf(name) : family_find(name);
    if (model->family != NULL) {
        return STATUS_OK;
    }
    family_list(list, sizeof list);
    return error_set(err, STATUS_UNSUPPORTED, "%s: model type '%s' is not supported; supported: %s",
                     checkpoint_path(model->checkpoint), name, list);
}

/* The value under "a.b" in config.json. */
static const struct json *json_path(const struct json *json, const char *path) {
    char key[LIMIT_NAME_BYTES];
    for (const char *dot; (dot = strchr(path, '.')) != NULL; path = dot + 1) {
        snprintf(key, sizeof key, "%.*s", (int)(dot - path), path);
        json = json_get(json, key);
    }
    return json_get(json, path);
}

/* STATUS_NOT_FOUND, without a sentence, when the checkpoint does not say. */
static enum status read_number(const struct model *model, const struct config_spec *spec,
                               double *out, struct error *err) {
    const struct json *config = checkpoint_config(model->checkpoint);
    if (config == NULL) {
        char key[LIMIT_NAME_BYTES];
        if (spec->gguf_key == NULL) {
            return STATUS_NOT_FOUND;
        }
        if (spec->gguf_key[0] == '=') {
            *out = atof(spec->gguf_key + 1);
            return STATUS_OK;
        }
        snprintf(key, sizeof key, "%s.%s", model->family->gguf_arch, spec->gguf_key);
        *out = checkpoint_number(model->checkpoint, key, spec->fallback);
        return checkpoint_has(model->checkpoint, key) ? STATUS_OK : STATUS_NOT_FOUND;
    }
    const struct json *value = json_path(config, spec->json_key);
    enum json_kind kind = json_kind(value);
    if (kind == JSON_KIND_ABSENT || kind == JSON_KIND_NULL) {
        return STATUS_NOT_FOUND;
    }
    bool is_bool = kind == JSON_KIND_BOOL;
    if (is_bool != (spec->type == CONFIG_BOOL) ||
        (!is_bool && kind != JSON_KIND_INT && kind != JSON_KIND_REAL)) {
        return error_set(err, STATUS_BAD_INPUT, "%s: '%s' in its config is not a %s",
                         checkpoint_path(model->checkpoint), spec->json_key,
                         spec->type == CONFIG_BOOL ? "bool" : "number");
    }
    *out = is_bool ? json_bool(value, false) : json_number(value, 0);
    return STATUS_OK;
}

/* A string of letters, one a layer. */
static enum status read_letters(const struct model *model, const char *letters, const char *text,
                                uint8_t *kinds, struct error *err) {
    for (size_t i = 0; text[i] != '\0' && i < LIMIT_LAYERS; i++) {
        const char *letter = letters != NULL ? strchr(letters, text[i]) : NULL;
        if (letter == NULL) {
            return error_set(err, STATUS_UNSUPPORTED, "%s: layer %zu is of kind '%c'",
                             checkpoint_path(model->checkpoint), i, text[i]);
        }
        kinds[i] = (uint8_t)(letter - letters + 1);
    }
    return STATUS_OK;
}

/* A list of layer kinds by name, into a byte a layer; no list leaves zeros. */
static enum status read_layers(const struct model *model, const struct config_spec *spec,
                               uint8_t *kinds, struct error *err) {
    const struct json *list = json_path(checkpoint_config(model->checkpoint), spec->json_key);
    size_t n = json_kind(list) == JSON_KIND_ARRAY ? json_count(list) : 0;
    if (json_kind(list) == JSON_KIND_STRING) {
        return read_letters(model, model->family->layer_letters, json_text(list, ""), kinds, err);
    }
    for (size_t i = 0; i < n && i < LIMIT_LAYERS; i++) {
        const char *const *names = model->family->layer_kinds;
        const char *name = json_text(json_at(list, i), "");
        uint8_t kind = 0;
        while (names[kind] != NULL && strcmp(names[kind], name) != 0) {
            kind++;
        }
        if (names[kind] == NULL) {
            return error_set(err, STATUS_UNSUPPORTED, "%s: '%s' in its config: layer %zu is '%s'",
                             checkpoint_path(model->checkpoint), spec->json_key, i, name);
        }
        kinds[i] = (uint8_t)(kind + 1);
    }
    return STATUS_OK;
}

/* Layers by number. */
static enum status read_listed(const struct model *model, const struct config_spec *spec,
                               uint8_t *is_listed, struct error *err) {
    const struct json *list = json_path(checkpoint_config(model->checkpoint), spec->json_key);
    size_t n = json_kind(list) == JSON_KIND_ARRAY ? json_count(list) : 0;
    for (size_t i = 0; i < n; i++) {
        double layer = json_number(json_at(list, i), -1);
        if (!(layer >= 0 && layer < LIMIT_LAYERS)) {
            return error_set(err, STATUS_BAD_INPUT, "%s: '%s' in its config: no layer %g",
                             checkpoint_path(model->checkpoint), spec->json_key, layer);
        }
        is_listed[(size_t)layer] = 1;
    }
    return STATUS_OK;
}

static bool is_in_range(const struct config_spec *spec, double number) {
    switch (spec->type) {
    case CONFIG_INT:
        return number >= (spec->is_required ? 1 : 0) && number <= LIMIT_CONTEXT &&
               number == (double)(int64_t)number;
    case CONFIG_FLOAT:
        return number >= 0 && number <= (double)FLT_MAX;
    default:
        return true;
    }
}

static enum status read_field(const struct model *model, const struct config_spec *spec,
                              void *config, struct error *err) {
    double number = spec->fallback;
    const char *path = checkpoint_path(model->checkpoint);
    bool is_gguf = checkpoint_kind(model->checkpoint) == CHECKPOINT_GGUF;
    const char *key = is_gguf && spec->gguf_key != NULL ? spec->gguf_key : spec->json_key;
    void *at = (unsigned char *)config + spec->at;
    if (spec->type == CONFIG_LAYERS) {
        return read_layers(model, spec, at, err);
    }
    if (spec->type == CONFIG_LISTED) {
        return read_listed(model, spec, at, err);
    }
    enum status status = read_number(model, spec, &number, err);
    if (status == STATUS_NOT_FOUND && spec->is_required) {
        return error_set(err, STATUS_BAD_INPUT, "%s: its config has no '%s'", path, key);
    }
    if (status != STATUS_OK && status != STATUS_NOT_FOUND) {
        return status;
    }
    if (!is_in_range(spec, number)) {
        return error_set(err, STATUS_BAD_INPUT, "%s: '%s' is %.10g", path, key, number);
    }
    switch (spec->type) {
    case CONFIG_INT:
        *(int32_t *)at = (int32_t)number;
        break;
    case CONFIG_FLOAT:
        *(float *)at = (float)number;
        break;
    default:
        *(bool *)at = number != 0;
        break;
    }
    return STATUS_OK;
}

/* `scaling` is the object of one rope, or NULL. */
static enum status read_rope_object(const struct json *config, const struct json *scaling,
                                    struct rope_config *rope, struct error *err) {
    static const struct {
        const char *name;
        enum rope_kind kind;
    } kinds[] = {{"default", ROPE_PLAIN},
                 {"linear", ROPE_LINEAR},
                 {"llama3", ROPE_LLAMA3},
                 {"yarn", ROPE_YARN}};
    double theta = json_number(json_get(config, "rope_theta"), 0);
    const char *type = json_text(json_get(scaling, "rope_type"), NULL);
    type = type != NULL ? type : json_text(json_get(scaling, "type"), "default");

    rope->theta = json_number(json_get(scaling, "rope_theta"), theta);
    rope->factor = json_number(json_get(scaling, "factor"), 1);
    rope->low_freq_factor = json_number(json_get(scaling, "low_freq_factor"), 0);
    rope->high_freq_factor = json_number(json_get(scaling, "high_freq_factor"), 0);
    rope->original_context =
        json_number(json_get(scaling, "original_max_position_embeddings"),
                    json_number(json_get(config, "max_position_embeddings"), 0));
    rope->beta_fast = json_number(json_get(scaling, "beta_fast"), 32);
    rope->beta_slow = json_number(json_get(scaling, "beta_slow"), 1);
    rope->mscale = json_number(json_get(scaling, "mscale"), 0);
    rope->mscale_all_dim = json_number(json_get(scaling, "mscale_all_dim"), 0);
    rope->attention_factor = json_number(json_get(scaling, "attention_factor"), 0);
    rope->truncate = json_bool(json_get(scaling, "truncate"), true);
    rope->part = json_number(json_get(scaling, "partial_rotary_factor"),
                             json_number(json_get(config, "partial_rotary_factor"), 0));
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        if (strcmp(kinds[i].name, type) == 0) {
            rope->kind = kinds[i].kind;
            return STATUS_OK;
        }
    }
    return error_set(err, STATUS_UNSUPPORTED, "rope scaling '%s' is not supported", type);
}

/* Old configs spell rope_theta at the top and rope_scaling beside it; new ones use rope_parameters,
 * by kind of layer where kinds differ; all say rope_type or type. */
static enum status read_rope_json(const struct json *config, struct rope_config *rope,
                                  struct error *err) {
    const struct json *scaling = json_get(config, "rope_parameters");
    const struct json *full = json_get(scaling, "full_attention");
    if (json_kind(full) == JSON_KIND_OBJECT) {
        scaling = full;
    } else if (json_kind(scaling) != JSON_KIND_OBJECT) {
        scaling = json_get(config, "rope_scaling");
    }
    return read_rope_object(config, scaling, rope, err);
}

/* Of layers with a window: never scaled in old configs. */
static enum status read_local_rope_json(const struct json *config, struct rope_config *rope,
                                        struct error *err) {
    const struct json *window = json_get(json_get(config, "rope_parameters"), "sliding_attention");
    if (json_kind(window) == JSON_KIND_OBJECT) {
        return read_rope_object(config, window, rope, err);
    }
    rope->theta = json_number(json_get(config, "rope_local_base_freq"), 0);
    rope->factor = 1;
    return STATUS_OK;
}

static enum status read_rope_gguf(const struct model *model, struct rope_config *rope,
                                  struct error *err) {
    const struct checkpoint *c = model->checkpoint;
    const char *arch = model->family->gguf_arch;
    char key[4][LIMIT_NAME_BYTES];
    snprintf(key[0], sizeof key[0], "%s.rope.freq_base", arch);
    snprintf(key[1], sizeof key[1], "%s.rope.scaling.type", arch);
    snprintf(key[2], sizeof key[2], "%s.rope.scaling.factor", arch);
    snprintf(key[3], sizeof key[3], "%s.rope.scaling.original_context_length", arch);
    const char *type = checkpoint_string(c, key[1]);
    *rope = (struct rope_config){
        .theta = checkpoint_number(c, key[0], 10000),
        .factor = checkpoint_number(c, key[2], 1),
        .original_context = checkpoint_number(c, key[3], 0),
        .beta_fast = 32,
        .beta_slow = 1,
        .truncate = true,
    };
    if (type == NULL || strcmp(type, "none") == 0) {
        rope->kind = ROPE_PLAIN;
    } else if (strcmp(type, "linear") == 0) {
        rope->kind = ROPE_LINEAR;
    } else if (strcmp(type, "yarn") == 0) {
        rope->kind = ROPE_YARN;
    } else {
        return error_set(err, STATUS_UNSUPPORTED, "rope scaling '%s' is not supported", type);
    }
    return STATUS_OK;
}

/* GGUF writes llama3's scaling as a tensor of divisors, rope_freqs.weight. */
static enum status read_divisors(struct model *model, struct rope_config *rope, struct error *err) {
    const struct checkpoint *c = model->checkpoint;
    const struct checkpoint_tensor *t = checkpoint_find(c, "rope_freqs.weight");
    char key[LIMIT_NAME_BYTES];
    if (checkpoint_kind(c) != CHECKPOINT_GGUF) {
        return STATUS_OK;
    }
    snprintf(key, sizeof key, "%s.rope.dimension_count", model->family->gguf_arch);
    if (checkpoint_int(c, key, rope->dims) != rope->dims) {
        return error_set(err, STATUS_UNSUPPORTED, "%s: %lld of %d dimensions of a head are rotated",
                         checkpoint_path(c), (long long)checkpoint_int(c, key, 0), (int)rope->dims);
    }
    if (t == NULL) {
        return STATUS_OK;
    }
    if (t->dtype != DT_F32 || t->n_dims != 1 || t->dims[0] != rope->dims / 2) {
        return error_set(err, STATUS_BAD_INPUT, "%s: rope_freqs.weight wants %d values", t->file,
                         (int)rope->dims / 2);
    }
    float *divisors = arena_array(&model->arena, (size_t)rope->dims / 2, sizeof *divisors);
    quant_to_f32(DT_F32, t->data, divisors, rope->dims / 2);
    for (int32_t i = 0; i < rope->dims / 2; i++) {
        if (!(divisors[i] > 0)) {
            return error_set(err, STATUS_BAD_INPUT, "%s: rope_freqs.weight[%d] is not above 0",
                             t->file, (int)i);
        }
    }
    rope->divisors = divisors;
    return STATUS_OK;
}

static enum status set_rope(struct model *model, size_t at, struct rope_config *config,
                            struct error *err) {
    struct rope *rope = (struct rope *)((unsigned char *)model->weights + at);
    if (at == 0) {
        return STATUS_OK;
    }
    enum status status = read_divisors(model, config, err);
    if (status != STATUS_OK) {
        return status;
    }
    config->theta = config->theta != 0 ? config->theta : 10000;
    float *freqs = arena_array(&model->arena, (size_t)(config->dims / 2), sizeof *freqs);
    rope->freqs.t = tensor_of(DT_F32, 1, config->dims / 2, freqs);
    rope->freqs.name = "rope frequencies";
    rope->is_interleaved = config->is_interleaved;
    return rope_frequencies(config, freqs, &rope->factor, err);
}

static void set_kv_slot(struct model *model, const struct slot_request *request, void *at) {
    struct kv_slot *slot = at;
    *slot = (struct kv_slot){
        .format = model->options.kv,
        .n_heads = request->n_heads,
        .head_dim = request->head_dim,
        .offset = model->page_size,
    };
    model->page_size += kv_slot_size(slot);
}

static void set_recurrent_slot(struct model *model, const struct slot_request *request, void *at) {
    struct recurrent_slot *slot = at;
    *slot = (struct recurrent_slot){
        .n_state = request->n_state, .n_log = request->n_log, .offset = model->fixed_size};
    model->fixed_size +=
        (recurrent_slot_size(slot) + SLOT_ALIGNMENT - 1) / SLOT_ALIGNMENT * SLOT_ALIGNMENT;
}

static void set_slots(struct model *model) {
    const struct family *family = model->family;
    unsigned char *weights = model->weights;
    unsigned char *layers = *(unsigned char **)(void *)(weights + family->layers_at);
    struct slot_request *requests = mem_zero(LIMIT_SLOTS, sizeof *requests);
    int32_t n = family->slots(weights + family->config_at, requests);
    for (int32_t i = 0; i < n; i++) {
        const struct slot_request *request = &requests[i];
        unsigned char *base =
            request->layer < 0 ? weights : layers + (size_t)request->layer * family->layer_size;
        if (request->n_heads > 0) {
            set_kv_slot(model, request, base + request->at);
        } else {
            set_recurrent_slot(model, request, base + request->at);
        }
    }
    free(requests);
}

static int32_t config_int(const struct model *model, size_t at) {
    const unsigned char *config = (unsigned char *)model->weights + model->family->config_at;
    return *(const int32_t *)(const void *)(config + at);
}

/* The vocabulary's size may be missing in GGUF: the embedding has it. */
static void infer_vocab(struct model *model) {
    const struct family *family = model->family;
    unsigned char *config = (unsigned char *)model->weights + family->config_at;
    int32_t *vocab = (int32_t *)(void *)(config + family->vocab_at);
    const struct checkpoint_tensor *embed = checkpoint_find(model->checkpoint, "token_embd.weight");
    if (*vocab == 0 && embed != NULL && embed->n_dims == 2 && embed->dims[0] <= LIMIT_VOCAB) {
        *vocab = (int32_t)embed->dims[0];
    }
}

/* `%d` in the name of a draft head's tensor is the number of layers. */
static bool has_tensor(const struct model *model, const char *name) {
    char full[LIMIT_NAME_BYTES];
    const char *hole = strstr(name, "%d");
    if (hole == NULL) {
        snprintf(full, sizeof full, "%s.weight", name);
    } else {
        snprintf(full, sizeof full, "%.*s%d%s.weight", (int)(hole - name), name,
                 (int)model->n_layers, hole + 2);
    }
    return checkpoint_find(model->checkpoint, full) != NULL;
}

/* Exports without the draft head keep its number of layers in their config. */
static void infer_draft(struct model *model) {
    const struct family *family = model->family;
    unsigned char *config = (unsigned char *)model->weights + family->config_at;
    if (family->n_draft_layers_at == 0) {
        return;
    }
    if (family->draft_weights == NULL || !has_tensor(model, family->draft_weights[0].name)) {
        *(int32_t *)(void *)(config + family->n_draft_layers_at) = 0;
    }
}

static enum status check_numbers(const struct model *model, struct error *err) {
    const char *path = checkpoint_path(model->checkpoint);
    const struct json *config = checkpoint_config(model->checkpoint);
    const char *act = json_text(json_get(config, "hidden_act"), NULL);
    act = json_text(json_get(config, "hidden_activation"), act);
    if (model->vocab < 1) {
        return error_set(err, STATUS_BAD_INPUT, "%s: its config has no 'vocab_size'", path);
    }
    if (model->n_layers > LIMIT_LAYERS || model->vocab > LIMIT_VOCAB || model->dim > LIMIT_DIM) {
        return error_set(err, STATUS_UNSUPPORTED,
                         "%s: %d layers of %d with a vocabulary of %d are past what is supported: "
                         "%d, %d, %d",
                         path, (int)model->n_layers, (int)model->dim, (int)model->vocab,
                         LIMIT_LAYERS, LIMIT_DIM, LIMIT_VOCAB);
    }
    if (act != NULL && strcmp(act, model->family->activation) != 0) {
        return error_set(err, STATUS_UNSUPPORTED, "%s: hidden_act '%s' in a %s model", path, act,
                         model->family->name);
    }
    return STATUS_OK;
}

enum status bind_config(struct model *model, struct error *err) {
    const struct family *family = model->family;
    struct rope_config rope[2] = {0};
    model->weights = arena_alloc(&model->arena, family->model_size);
    unsigned char *config = (unsigned char *)model->weights + family->config_at;

    enum status status = packing_read(&model->packing, model->checkpoint, err);
    for (int32_t i = 0; i < family->n_config && status == STATUS_OK; i++) {
        status = read_field(model, &family->config[i], config, err);
    }
    if (status == STATUS_OK) {
        const struct json *json = checkpoint_config(model->checkpoint);
        status = json != NULL ? read_rope_json(json, rope, err) : read_rope_gguf(model, rope, err);
        if (status == STATUS_OK && json != NULL && family->local_rope_at != 0) {
            status = read_local_rope_json(json, &rope[1], err);
        }
    }
    if (status != STATUS_OK) {
        return status;
    }
    infer_vocab(model);
    model->n_layers = config_int(model, family->n_layers_at);
    infer_draft(model);
    model->vocab = config_int(model, family->vocab_at);
    model->dim = config_int(model, family->dim_at);
    model->context_max = config_int(model, family->context_at);
    status = check_numbers(model, err);
    if (status == STATUS_OK) {
        status = family->finish_config(config, rope, err);
    }
    if (status == STATUS_OK) {
        model->has_draft_head =
            family->draft_weights != NULL && config_int(model, family->n_draft_layers_at) > 0;
        status = set_rope(model, family->rope_at, rope, err);
    }
    if (status == STATUS_OK) {
        status = set_rope(model, family->local_rope_at, &rope[1], err);
    }
    if (status != STATUS_OK) {
        return status;
    }
    void **layers = (void **)(void *)((unsigned char *)model->weights + family->layers_at);
    *layers = arena_array(&model->arena, (size_t)model->n_layers, family->layer_size);
    set_slots(model);
    return STATUS_OK;
}

enum status bind_check_backend(const struct model *model, struct error *err) {
    const struct family *family = model->family;
    const struct backend *backend = model->exec.backend;
    const unsigned char *weights = model->weights;
    struct slot_request *requests = mem_zero(LIMIT_SLOTS, sizeof *requests);
    int32_t n = family->slots(weights + family->config_at, requests), bad = 0;
    for (int32_t i = 0; i < n; i++) {
        bool fits = requests[i].head_dim % backend->head_dim_unit == 0 &&
                    requests[i].head_dim <= backend->head_dim_max;
        bad = fits ? bad : requests[i].head_dim;
    }
    free(requests);
    return bad == 0
               ? STATUS_OK
               : error_set(err, STATUS_UNSUPPORTED,
                           "%s: heads of %d dimensions: device '%s' wants multiples of %d up to %d",
                           model->name, (int)bad, backend->name, (int)backend->head_dim_unit,
                           (int)backend->head_dim_max);
}
