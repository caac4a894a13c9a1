/* api_fields.c - the table of request fields, and their reading. */
#include "api_fields.h"

#include "limits.h"
#include "random.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { ON_CHAT = 1, ON_COMPLETION = 2, ON_BOTH = 3, MAX_TOKENS_DEFAULT = 16 };

/* Fields that are read by name elsewhere are rows too: what is no row is refused. */
static const struct field {
    const char *name;
    int kinds;
    bool is_ignored;
} table[] = {
    {"model", ON_BOTH, false},
    {"messages", ON_CHAT, false},
    {"tools", ON_CHAT, false},
    {"tool_choice", ON_CHAT, false},
    {"response_format", ON_CHAT, false},
    {"chat_template_kwargs", ON_CHAT, false},
    {"add_generation_prompt", ON_CHAT, false},
    {"parse_special", ON_CHAT, false},
    {"continue_final_message", ON_CHAT, false},
    {"max_completion_tokens", ON_CHAT, false},
    {"modalities", ON_CHAT, false},
    {"prompt", ON_COMPLETION, false},
    {"echo", ON_COMPLETION, false},
    {"suffix", ON_COMPLETION, false},
    {"best_of", ON_COMPLETION, false},
    {"max_tokens", ON_BOTH, false},
    {"min_tokens", ON_BOTH, false},
    {"temperature", ON_BOTH, false},
    {"top_p", ON_BOTH, false},
    {"top_k", ON_BOTH, false},
    {"min_p", ON_BOTH, false},
    {"n", ON_BOTH, false},
    {"stop", ON_BOTH, false},
    {"stop_token_ids", ON_BOTH, false},
    {"ignore_eos", ON_BOTH, false},
    {"stream", ON_BOTH, false},
    {"stream_options", ON_BOTH, false},
    {"presence_penalty", ON_BOTH, false},
    {"frequency_penalty", ON_BOTH, false},
    {"repetition_penalty", ON_BOTH, false},
    {"repeat_penalty", ON_BOTH, false},
    {"logit_bias", ON_BOTH, false},
    {"logprobs", ON_BOTH, false},
    {"top_logprobs", ON_CHAT, false},
    {"seed", ON_BOTH, false},
    {"draft", ON_BOTH, false},
    {"user", ON_BOTH, true},
    {"metadata", ON_BOTH, true},
    {"store", ON_CHAT, true},
    {"service_tier", ON_CHAT, true},
    {"safety_identifier", ON_CHAT, true},
    {"prompt_cache_key", ON_CHAT, true},
    {"prompt_cache_retention", ON_CHAT, true},
    {"prediction", ON_CHAT, true},
    {"verbosity", ON_CHAT, true},
    {"reasoning_effort", ON_CHAT, false},
    {"parallel_tool_calls", ON_CHAT, false},
    {"cache_salt", ON_BOTH, false},
    {"cache_prompt", ON_BOTH, true},
    {"timings_per_token", ON_BOTH, true},
};

/* One reading: the first failure wins. */
struct reading {
    struct api_fields *out;
    const struct json *body;
    const struct model *model;
    struct arena *arena;
    struct error *err;
    enum status status;
};

static void fail(struct reading *r, const char *field, const char *what) {
    if (r->status == STATUS_OK) {
        r->out->param = field;
        r->status = error_set(r->err, STATUS_BAD_INPUT, "%s: %s", field, what);
    }
}

/* NULL when the field is absent or null. */
static const struct json *get(const struct reading *r, const char *field) {
    const struct json *value = json_get(r->body, field);
    return json_kind(value) == JSON_KIND_NULL ? NULL : value;
}

static double number(struct reading *r, const char *field, double fallback) {
    const struct json *value = get(r, field);
    if (value != NULL && json_kind(value) != JSON_KIND_INT && json_kind(value) != JSON_KIND_REAL) {
        fail(r, field, "wants a number");
    }
    return json_number(value, fallback);
}

static int32_t integer(struct reading *r, const char *field, int32_t fallback, int32_t min,
                       int32_t max) {
    const struct json *value = get(r, field);
    int64_t n = json_int(value, INT64_MIN);
    if (value == NULL) {
        return fallback;
    }
    if (n == INT64_MIN || n < min) {
        fail(r, field,
             min > 0 ? "wants a whole number, 1 or more" : "wants a whole number, 0 or more");
        return fallback;
    }
    if (n > max) {
        if (max < LIMIT_CONTEXT) {
            fail(r, field, "is larger than this server allows");
        }
        return max;  // a huge token limit means: as many as fit
    }
    return (int32_t)n;
}

static bool boolean(struct reading *r, const char *field, bool fallback) {
    const struct json *value = get(r, field);
    if (value != NULL && json_kind(value) != JSON_KIND_BOOL) {
        fail(r, field, "wants true or false");
    }
    return json_bool(value, fallback);
}

/* Fields whose reading elsewhere takes any other kind for absence. */
static const struct shape {
    const char *field;
    enum json_kind kind;
    const char *what;
} shapes[] = {
    {"echo", JSON_KIND_BOOL, "wants true or false"},
    {"add_generation_prompt", JSON_KIND_BOOL, "wants true or false"},
    {"parse_special", JSON_KIND_BOOL, "wants true or false"},
    {"continue_final_message", JSON_KIND_BOOL, "wants true or false"},
    {"parallel_tool_calls", JSON_KIND_BOOL, "wants true or false"},
    {"reasoning_effort", JSON_KIND_STRING, "wants a string"},
    {"model", JSON_KIND_STRING, "wants a string"},
    {"suffix", JSON_KIND_STRING, "wants a string"},
    {"tools", JSON_KIND_ARRAY, "wants a list of tools"},
    {"modalities", JSON_KIND_ARRAY, "wants a list of strings"},
    {"stream_options", JSON_KIND_OBJECT, "wants an object"},
    {"response_format", JSON_KIND_OBJECT, "wants an object"},
    {"chat_template_kwargs", JSON_KIND_OBJECT, "wants an object"},
};

static void check_shapes(struct reading *r) {
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        const struct json *value = get(r, shapes[i].field);
        if (value != NULL && json_kind(value) != shapes[i].kind) {
            fail(r, shapes[i].field, shapes[i].what);
        }
    }
}

static void check_names(struct reading *r, enum api_kind kind) {
    int wanted = kind == API_CHAT ? ON_CHAT : ON_COMPLETION;
    for (void *it = json_first(r->body); it != NULL; it = json_next(r->body, it)) {
        bool is_known = false;
        for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
            is_known |= (table[i].kinds & wanted) != 0 && strcmp(table[i].name, json_key(it)) == 0;
        }
        if (!is_known && json_kind(json_value(it)) != JSON_KIND_NULL) {
            const char *name = arena_printf(r->arena, "%s", json_key(it));
            fail(r, name, "this server does not know the field, and will not ignore it silently");
        }
    }
}

static void read_sampling(struct reading *r) {
    struct sampling *s = &r->out->sampling;
    double repeat = number(r, "repeat_penalty", 1);
    *s = (struct sampling){
        .temperature = number(r, "temperature", r->model->temperature),
        .top_p = number(r, "top_p", r->model->top_p),
        .min_p = number(r, "min_p", r->model->min_p),
        .top_k = 0,
        .repetition_penalty = number(r, "repetition_penalty", repeat),
        .presence_penalty = number(r, "presence_penalty", 0),
        .frequency_penalty = number(r, "frequency_penalty", 0),
    };
    const struct json *top_k = get(r, "top_k");
    s->top_k = json_int(top_k, 0) == -1 ? 0  // some clients say "all" so
                                        : integer(r, "top_k", r->model->top_k, 0, INT32_MAX);
    const struct json *seed = get(r, "seed");
    r->out->has_seed = seed != NULL;
    if (seed != NULL && json_kind(seed) != JSON_KIND_INT) {
        fail(r, "seed", "wants a 64-bit integer");
    }
    s->seed = seed != NULL ? (uint64_t)json_int(seed, 0) : random_seed();
}

static void read_bias(struct reading *r) {
    const struct json *object = get(r, "logit_bias");
    size_t n = json_count(object), i = 0;
    if (object != NULL && json_kind(object) != JSON_KIND_OBJECT) {
        fail(r, "logit_bias", "wants an object of token id to number");
        return;
    }
    if (n > LIMIT_LOGIT_BIAS) {
        fail(r, "logit_bias", "has too many entries");
        return;
    }
    struct logit_bias *biases = arena_array(r->arena, n, sizeof *biases);
    for (void *it = json_first(object); it != NULL; it = json_next(object, it)) {
        char *end;
        long id = strtol(json_key(it), &end, 10);
        double bias = json_number(json_value(it), NAN);
        if (*end != '\0' || end == json_key(it) || id < 0 || id >= r->model->vocab || isnan(bias)) {
            fail(r, "logit_bias", "wants token ids of this vocabulary, with numbers");
            return;
        }
        biases[i++] = (struct logit_bias){(int32_t)id, bias};
    }
    r->out->sampling.biases = biases;
    r->out->sampling.n_biases = (int32_t)n;
}

static void read_stops(struct reading *r) {
    const struct json *stop = get(r, "stop");
    bool is_list = json_kind(stop) == JSON_KIND_ARRAY;
    size_t n = stop == NULL ? 0 : is_list ? json_count(stop) : 1;
    if (n > LIMIT_STOPS) {
        fail(r, "stop", "has too many strings (16 at most)");
        return;
    }
    r->out->stops = arena_array(r->arena, n, sizeof *r->out->stops);
    for (size_t i = 0; i < n; i++) {
        const struct json *one = is_list ? json_at(stop, i) : stop;
        size_t size = json_text_size(one);
        if (json_kind(one) != JSON_KIND_STRING || size == 0 || size > LIMIT_STOP_BYTES ||
            strlen(json_text(one, "")) != size) {
            fail(r, "stop", "wants a string, or a list of strings, none empty or over 1024 bytes");
            return;
        }
        r->out->stops[i] = json_text(one, "");
    }
    r->out->n_stops = (int32_t)n;
}

static void read_salt(struct reading *r) {
    const struct json *salt = get(r, "cache_salt");
    size_t size = json_text_size(salt);
    if (salt != NULL && (json_kind(salt) != JSON_KIND_STRING || size == 0 ||
                         size > LIMIT_SALT_BYTES || strlen(json_text(salt, "")) != size)) {
        fail(r, "cache_salt", "wants a string of 1 to 1024 bytes");
    }
    r->out->cache_salt = json_text(salt, "");
}

static void read_stop_ids(struct reading *r) {
    const struct json *ids = get(r, "stop_token_ids");
    size_t n = json_count(ids);
    if (ids != NULL && (json_kind(ids) != JSON_KIND_ARRAY || n > LIMIT_STOPS)) {
        fail(r, "stop_token_ids", "wants a list of up to 16 token ids");
        return;
    }
    r->out->stop_ids = arena_array(r->arena, n, sizeof *r->out->stop_ids);
    for (size_t i = 0; i < n; i++) {
        int64_t id = json_int(json_at(ids, i), -1);
        if (id < 0 || id >= r->model->vocab) {
            fail(r, "stop_token_ids", "wants token ids of this vocabulary");
            return;
        }
        r->out->stop_ids[i] = (int32_t)id;
    }
    r->out->n_stop_ids = (int32_t)n;
}

/* chat: logprobs is a switch and top_logprobs a count; completions: logprobs is the count. */
static void read_logprobs(struct reading *r, enum api_kind kind) {
    if (kind == API_COMPLETION) {
        r->out->top_logprobs = integer(r, "logprobs", -1, 0, 5);
        return;
    }
    bool is_on = boolean(r, "logprobs", false);
    int32_t n = integer(r, "top_logprobs", 0, 0, LIMIT_TOP_LOGPROBS);
    if (!is_on && n > 0) {
        fail(r, "top_logprobs", "needs logprobs: true");
    }
    r->out->top_logprobs = is_on ? n : -1;
}

/* What the template gets from elsewhere; a template of the client's own would run its loops here.
 */
static void check_template_fields(struct reading *r) {
    static const char *const ours[] = {"messages",  "tools",     "documents",
                                       "bos_token", "eos_token", "chat_template"};
    for (size_t i = 0; i < sizeof ours / sizeof ours[0]; i++) {
        if (json_get(get(r, "chat_template_kwargs"), ours[i]) != NULL) {
            fail(r, "chat_template_kwargs",
                 "may not set messages, tools, documents, bos_token, eos_token or chat_template");
        }
    }
}

/* Asked for what this version cannot do: refused, never ignored. */
static void read_refused(struct reading *r) {
    const struct json *format = get(r, "response_format");
    const char *type = json_text(json_get(format, "type"), "text");
    if (format != NULL && strcmp(type, "text") != 0) {
        fail(r, "response_format", "only {\"type\": \"text\"} is supported");
    }
    const struct json *modalities = get(r, "modalities");
    for (size_t i = 0; i < json_count(modalities); i++) {
        if (strcmp(json_text(json_at(modalities, i), ""), "text") != 0) {
            fail(r, "modalities", "only \"text\" is supported");
        }
    }
    if (get(r, "suffix") != NULL && json_text_size(get(r, "suffix")) > 0) {
        fail(r, "suffix", "filling in the middle is not supported");
    }
    if (get(r, "best_of") != NULL && json_int(get(r, "best_of"), 0) != r->out->n) {
        fail(r, "best_of", "only a value equal to n is supported");
    }
}

enum status api_fields_read(struct api_fields *out, enum api_kind kind, const struct json *body,
                            const struct model *model, struct arena *arena, struct error *err) {
    struct reading r = {out, body, model, arena, err, STATUS_OK};
    *out = (struct api_fields){0};
    check_names(&r, kind);
    check_shapes(&r);
    check_template_fields(&r);
    out->model = json_text(get(&r, "model"), model->name);
    read_sampling(&r);
    read_bias(&r);
    read_stops(&r);
    read_stop_ids(&r);
    read_salt(&r);
    read_logprobs(&r, kind);
    int32_t fallback = kind == API_COMPLETION ? MAX_TOKENS_DEFAULT : 0;
    out->max_tokens = integer(&r, "max_tokens", fallback, 1, LIMIT_CONTEXT);
    out->max_tokens = integer(&r, "max_completion_tokens", out->max_tokens, 1, LIMIT_CONTEXT);
    out->min_tokens = integer(&r, "min_tokens", 0, 0, LIMIT_CONTEXT);
    out->n = integer(&r, "n", 1, 1, LIMIT_CHOICES);
    out->ignores_eos = boolean(&r, "ignore_eos", false);
    out->is_stream = boolean(&r, "stream", false);
    out->includes_usage = json_bool(json_get(get(&r, "stream_options"), "include_usage"), false);
    if (get(&r, "stream_options") != NULL && !out->is_stream) {
        fail(&r, "stream_options", "only goes with stream: true");
    }
    if (get(&r, "draft") != NULL) {
        out->drafts = boolean(&r, "draft", true) ? DRAFTS_ON : DRAFTS_OFF;
    }
    read_refused(&r);
    if (r.status == STATUS_OK) {
        r.status = sampling_check(&out->sampling, model->vocab, err);
    }
    return r.status;
}

struct request *api_fields_request(const struct api_fields *fields, const int32_t *prompt,
                                   int32_t n_prompt, int32_t choice) {
    struct request *request = request_open();
    struct arena *arena = &request->arena;
    const struct sampling *s = &fields->sampling;
    request->prompt = arena_copy(arena, prompt, (size_t)n_prompt * sizeof *prompt);
    request->n_prompt = n_prompt;
    request->sampling = *s;
    request->sampling.biases =
        arena_copy(arena, s->biases, (size_t)s->n_biases * sizeof *s->biases);
    request->sampling.seed = sampler_choice_seed(s->seed, choice);
    request->has_seed = true;
    request->max_tokens = fields->max_tokens;
    request->min_tokens = fields->min_tokens;
    request->ignores_eos = fields->ignores_eos;
    const char **stops = arena_array(arena, (size_t)fields->n_stops, sizeof *stops);
    for (int32_t i = 0; i < fields->n_stops; i++) {
        stops[i] = arena_string(arena, fields->stops[i], strlen(fields->stops[i]));
    }
    request->stops = stops;
    request->n_stops = fields->n_stops;
    request->stop_ids =
        arena_copy(arena, fields->stop_ids, (size_t)fields->n_stop_ids * sizeof(int32_t));
    request->n_stop_ids = fields->n_stop_ids;
    request->top_logprobs = fields->top_logprobs;
    request->drafts = fields->drafts;
    return request;
}
