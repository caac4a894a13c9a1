/* api_job.h - one API call's choices, from submission to the last byte, streamed or not.
 *
 * Every API runs through here: it says what it wants computed, and a `struct job_form` says how
 * that is written down.  A job belongs to the connection's thread.
 */
#pragma once
#include "api_blocks.h"
#include "api_fields.h"
#include "api_plan.h"
#include "routes.h"

struct job;

struct choice {
    struct job *job;
    int32_t index;
    struct stream *stream;
    struct reply *reply;   // NULL: all text is content
    struct blocks blocks;  // what came so far
    struct arena arena;    // of the tokens kept for logprobs
    struct event_token *tokens;
    int64_t *offsets;  // bytes of text before each token
    int32_t n_tokens, tokens_room;
    const char *echo;
    size_t echo_size;
    int64_t offset;  // bytes of text so far
    int32_t n_prompt, n_cached;
    const struct event *event;  // its tokens are not written yet
    enum { THINK_MAYBE, THINK_IN, THINK_OUT } think;
    int32_t n_before_think;  // tokens that may still come before reasoning begins
    int32_t reasoning_tokens;
    bool is_done;
    enum finish finish;
    char *stop;  // the client's stop string that ended the reply, or NULL
    struct receipt receipt;
    struct timings timings;
};

/* How an API writes.  Of a stream: `open` once, `part` and `tokens` as text comes, `done` a choice,
 * `close` once unless it failed; `idle` in long silence.  Otherwise `whole`. */
struct job_form {
    const char *id_prefix;  // "chatcmpl-"
    bool is_completion;     // logprobs as the text completions have them
    void (*open)(struct job *job, struct buffer *out);
    /* The prompt's tokens and how many were kept are known.  NULL: never asked for. */
    void (*started)(struct job *job, struct choice *c, struct buffer *out);
    void (*part)(struct job *job, struct choice *c, const struct reply_part *part,
                 struct buffer *out);
    void (*tokens)(struct job *job, struct choice *c, struct buffer *out);  // NULL: never asked for
    void (*done)(struct job *job, struct choice *c, struct buffer *out);
    void (*close)(struct job *job, struct buffer *out);
    void (*fail)(struct job *job, const struct error *err, struct buffer *out);
    void (*idle)(struct job *job, struct buffer *out);
    void (*whole)(struct job *job, struct buffer *out);
    void (*refuse)(struct http_exchange *x, const struct error *err, const char *param);
    void (*free_state)(void *state);  // NULL: free()
};

struct job {
    struct server *server;
    struct http_exchange *x;
    const struct job_form *form;
    char id[48];
    int64_t created;
    char *model;
    bool includes_usage;
    int32_t top_logprobs;
    const char *call_stop;
    char *forced;                     // what replies begin with, or NULL
    int32_t think_open, think_close;  // ids; -1: no such token
    struct choice *choices;
    int32_t n_choices, n_done;
    double last_sent_ms;
    bool has_failed, is_finished;
    struct buffer *out;  // of the stream's piece that is being made; NULL: whole reply
    void *state;         // the form's
};

/* One choice's prompt; `echo` (may be NULL) is text to repeat before the reply. */
struct job_prompt {
    const int32_t *ids;
    int32_t n_ids;
    const char *echo;
    size_t echo_size;
};

struct job_call {
    const struct job_form *form;
    const struct api_fields *fields;
    const struct chat_plan *plan;  // NULL: text is not parsed
    const struct job_prompt *prompts;
    int32_t n_prompts;
    void *state;  // taken: see struct job
};

/* Submits n choices of every prompt and answers the exchange, whatever happens. */
void job_run(struct server *server, struct http_exchange *x, const struct job_call *call);
/* A chat request of OpenAI's shape, from fields to answer; takes `state`. */
void job_run_chat(struct server *server, struct http_exchange *x, const struct job_form *form,
                  const struct json *body, void *state);

/* How many tokens such a request's prompt has. */
MUST_CHECK enum status job_count_tokens(struct server *server, struct http_exchange *x,
                                        const struct json *body, int32_t *n, const char **param,
                                        struct error *err);

/* For forms: a call's id, stable for the reply: PREFIX and digits. */
void job_call_id(char *out, size_t size, const char *prefix, const struct choice *c, int32_t call);
/* Did the reply end with calls to run? */
bool job_ends_in_calls(const struct choice *c);

extern const struct job_form chat_form, completion_form;
