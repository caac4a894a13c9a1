/* metrics.c - GET /metrics: Prometheus text 0.0.4, under names of our own and under vLLM's. */
#include "metrics.h"

#include "limits.h"
#include "routes.h"

#include <stddef.h>
#include <string.h>

void metrics_init(struct metrics *metrics) {
    *metrics = (struct metrics){.n_rows = 0};
    pthread_mutex_init(&metrics->lock, NULL);
}

void metrics_count(struct metrics *metrics, const char *route, int status) {
    int32_t i = 0;
    pthread_mutex_lock(&metrics->lock);
    while (i < metrics->n_rows &&
           (metrics->rows[i].route != route || metrics->rows[i].status != status)) {
        i++;
    }
    if (i == metrics->n_rows && i < METRICS_ROWS) {
        metrics->rows[metrics->n_rows++] = (struct metrics_row){.route = route, .status = status};
    }
    if (i < METRICS_ROWS) {
        metrics->rows[i].n++;
    }
    pthread_mutex_unlock(&metrics->lock);
}

/* ---- tables --------------------------------------------------------------------------------- */

enum kind { COUNTER, GAUGE };  // int64_t, int32_t

/* One number of the engine: where it stands, under which names.  `vllm` may be NULL. */
static const struct number {
    const char *name, *vllm, *help;
    enum kind kind;
    size_t at;
} numbers[] = {
#define AT(field) offsetof(struct engine_counters, field)
    {"requests_total", NULL, "requests accepted", COUNTER, AT(n_requests)},
    {"requests_finished_total", NULL, "replies that ended by themselves", COUNTER, AT(n_finished)},
    {"requests_cut_total", NULL, "of these, by their token limit", COUNTER, AT(n_length)},
    {"requests_cancelled_total", NULL, "replies whose client left", COUNTER, AT(n_cancelled)},
    {"requests_failed_total", NULL, "replies that failed", COUNTER, AT(n_failed)},
    {"prompt_tokens_total", "prompt_tokens_total", "prompt tokens computed", COUNTER,
     AT(n_prompt_tokens)},
    {"cached_tokens_total", "prefix_cache_hits_total", "prompt tokens not computed again", COUNTER,
     AT(n_cached_tokens)},
    {"completion_tokens_total", "generation_tokens_total", "tokens drawn", COUNTER,
     AT(n_completion_tokens)},
    {"passes_total", NULL, "passes through the model", COUNTER, AT(n_passes)},
    {"rows_total", NULL, "rows of all passes", COUNTER, AT(n_rows)},
    {"draft_rounds_total", "spec_decode_num_drafts_total", "passes of replies that drafted",
     COUNTER, AT(n_draft_rounds)},
    {"draft_tokens_total", "spec_decode_num_draft_tokens_total", "tokens drafted", COUNTER,
     AT(n_drafted)},
    {"draft_accepted_total", "spec_decode_num_accepted_tokens_total",
     "drafted tokens that survived", COUNTER, AT(n_accepted)},
    {"requests_running", "num_requests_running", "sessions in the passes", GAUGE, AT(n_running)},
    {"requests_waiting", "num_requests_waiting", "requests in the queue", GAUGE, AT(n_waiting)},
    {"pages_used", NULL, "attention pages of running sessions", GAUGE, AT(n_pages_used)},
    {"pages_max", NULL, "attention pages that memory allows", GAUGE, AT(n_pages_max)},
};

static const struct times {
    const char *name, *vllm, *help;
    size_t at;
} times[] = {
    {"queue_seconds", "request_queue_time_seconds", "from submission to the first row", AT(queue)},
    {"prefill_seconds", "request_prefill_time_seconds", "from the first row to the first token",
     AT(prefill)},
    {"time_to_first_token_seconds", "time_to_first_token_seconds",
     "from submission to the first token", AT(first_token)},
    {"time_per_token_seconds", "inter_token_latency_seconds", "mean of a reply, once a token",
     AT(per_token)},
    {"decode_seconds", "request_decode_time_seconds", "from the first token to the last",
     AT(decode)},
    {"request_seconds", "e2e_request_latency_seconds", "from submission to the end", AT(whole)},
#undef AT
};

/* ---- text ----------------------------------------------------------------------------------- */

/* The prefix of every name, and the label that vLLM's dashboards filter by. */
struct naming {
    const char *prefix, *label;  // "selfsame_", ""; or "vllm:", "model_name=\"...\""
};

static void put_head(struct buffer *out, const struct naming *n, const char *name, const char *type,
                     const char *help) {
    buffer_printf(out, "# HELP %s%s %s\n# TYPE %s%s %s\n", n->prefix, name, help, n->prefix, name,
                  type);
}

static void put_number(struct buffer *out, const struct naming *n, const char *name,
                       const struct number *number, const struct engine_counters *counters) {
    const char *at = (const char *)counters + number->at;
    long long value = number->kind == COUNTER ? (long long)*(const int64_t *)(const void *)at
                                              : *(const int32_t *)(const void *)at;
    put_head(out, n, name, number->kind == COUNTER ? "counter" : "gauge", number->help);
    buffer_printf(out, n->label[0] != '\0' ? "%s%s{%s} %lld\n" : "%s%s%s %lld\n", n->prefix, name,
                  n->label, value);
}

static void put_times(struct buffer *out, const struct naming *n, const char *name,
                      const struct times *row, const struct engine_counters *counters) {
    const struct histogram *h =
        (const struct histogram *)(const void *)((const char *)counters + row->at);
    const char *comma = n->label[0] != '\0' ? "," : "";
    const char *open = n->label[0] != '\0' ? "{" : "", *close = n->label[0] != '\0' ? "}" : "";
    int64_t below = 0;
    put_head(out, n, name, "histogram", row->help);
    for (int i = 0; i < HISTOGRAM_BUCKETS; i++) {
        below += h->counts[i];
        buffer_printf(out, "%s%s_bucket{%s%sle=\"%g\"} %lld\n", n->prefix, name, n->label, comma,
                      histogram_bounds[i], (long long)below);
    }
    long long all = histogram_count(h);
    buffer_printf(out, "%s%s_bucket{%s%sle=\"+Inf\"} %lld\n", n->prefix, name, n->label, comma,
                  all);
    buffer_printf(out, "%s%s_sum%s%s%s %.9g\n", n->prefix, name, open, n->label, close, h->sum);
    buffer_printf(out, "%s%s_count%s%s%s %lld\n", n->prefix, name, open, n->label, close, all);
}

static void put_answers(struct buffer *out, struct metrics *metrics) {
    buffer_text(out, "# HELP selfsame_http_answers_total answers by route and status\n"
                     "# TYPE selfsame_http_answers_total counter\n");
    pthread_mutex_lock(&metrics->lock);
    for (int32_t i = 0; i < metrics->n_rows; i++) {
        const struct metrics_row *row = &metrics->rows[i];
        buffer_printf(out, "selfsame_http_answers_total{route=\"%s\",status=\"%d\"} %lld\n",
                      row->route, row->status, (long long)row->n);
    }
    pthread_mutex_unlock(&metrics->lock);
}

static void reply_text(struct http_exchange *x, struct buffer *out) {
    http_reply(x, 200, "text/plain; version=0.0.4; charset=utf-8", out->data, out->size);
    buffer_free(out);
}

void api_metrics(struct server *server, struct http_exchange *x) {
    struct engine_counters counters = engine_counters(server->engine);
    const struct naming naming = {"selfsame_", ""};
    struct buffer out;
    buffer_init(&out, LIMIT_BODY_BYTES);
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        put_number(&out, &naming, numbers[i].name, &numbers[i], &counters);
    }
    for (size_t i = 0; i < sizeof times / sizeof times[0]; i++) {
        put_times(&out, &naming, times[i].name, &times[i], &counters);
    }
    put_answers(&out, &server->metrics);
    reply_text(x, &out);
}

/* Names are letters, digits and what labels may hold; a model's name may be a file's. */
static const char *label_of(struct arena *arena, const char *name) {
    char *copy = arena_printf(arena, "model_name=\"%s\"", name);
    for (char *c = copy + strlen("model_name=\""); c[1] != '\0'; c++) {
        *c = *c == '"' || *c == '\\' || *c == '\n' ? '_' : *c;
    }
    return copy;
}

/* The names that dashboards made for vLLM read. */
void api_metrics_vllm(struct server *server, struct http_exchange *x) {
    struct engine_counters c = engine_counters(server->engine);
    const struct naming naming = {"vllm:", label_of(&x->arena, engine_model(server->engine)->name)};
    struct buffer out;
    buffer_init(&out, LIMIT_BODY_BYTES);
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        if (numbers[i].vllm != NULL) {
            put_number(&out, &naming, numbers[i].vllm, &numbers[i], &c);
        }
    }
    for (size_t i = 0; i < sizeof times / sizeof times[0]; i++) {
        put_times(&out, &naming, times[i].vllm, &times[i], &c);
    }
    put_head(&out, &naming, "request_success_total", "counter", "replies by reason");
    buffer_printf(&out, "vllm:request_success_total{%s,finished_reason=\"stop\"} %lld\n",
                  naming.label, (long long)(c.n_finished - c.n_length));
    buffer_printf(&out, "vllm:request_success_total{%s,finished_reason=\"length\"} %lld\n",
                  naming.label, (long long)c.n_length);
    put_head(&out, &naming, "prefix_cache_queries_total", "counter", "prompt tokens looked up");
    buffer_printf(&out, "vllm:prefix_cache_queries_total{%s} %lld\n", naming.label,
                  (long long)(c.n_prompt_tokens + c.n_cached_tokens));
    put_head(&out, &naming, "kv_cache_usage_perc", "gauge", "share of pages in use, 0 to 1");
    buffer_printf(&out, "vllm:kv_cache_usage_perc{%s} %.6g\n", naming.label,
                  c.n_pages_max > 0 ? (double)c.n_pages_used / c.n_pages_max : 0.0);
    reply_text(x, &out);
}
