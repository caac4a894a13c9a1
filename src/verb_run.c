/* verb_run.c - selfsame run: one reply to a prompt, or a chat in the terminal. */
#include "chat.h"
#include "file.h"
#include "receipt.h"
#include "transcript.h"
#include "utf8.h"
#include "verbs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* What the terminal loop keeps between turns: the messages so far, as JSON without the brackets. */
struct chat {
    const struct args *args;
    struct engine *engine;
    struct buffer messages;
};

static void add_message(struct chat *chat, const char *role, const char *text, size_t size) {
    struct json_writer w = {.out = &chat->messages, .needs_comma = chat->messages.size > 0};
    json_open_object(&w);
    json_pair_string(&w, "role", role);
    json_put_key(&w, "content");
    json_put_bytes(&w, text, size);
    json_close_object(&w);
}

static enum status encode_chat(struct chat *chat, struct token_ids *ids, struct error *err) {
    struct buffer text;
    struct json *request = NULL;
    buffer_init(&text, LIMIT_BODY_BYTES);
    buffer_printf(&text, "{\"messages\":[%s]}", chat->messages.data);
    enum status status = json_parse(&request, text.data, text.size, "the conversation", err);
    if (status == STATUS_OK) {
        status = chat_encode(engine_model(chat->engine), request, (int64_t)time(NULL), ids, err);
    }
    json_close(request);
    buffer_free(&text);
    return status;
}

static enum status fill_request(const struct args *args, const struct model *model,
                                const struct token_ids *ids, struct request *request,
                                struct error *err) {
    const char **stops = arena_copy(&request->arena, args->stops.at, sizeof args->stops.at);
    request->prompt = arena_copy(&request->arena, ids->at, (size_t)ids->n * sizeof *ids->at);
    request->n_prompt = ids->n;
    request->max_tokens = args->max_tokens > 0 ? args->max_tokens : 0;
    request->ignores_eos = args->ignore_eos;
    request->stops = stops;
    request->n_stops = args->stops.n;
    request->drafts = args->no_draft ? DRAFTS_OFF : DRAFTS_ON;
    return args_sampling(args, model, &request->sampling, &request->has_seed, err);
}

/* The reply as it comes; with --json, gathered. */
struct reply {
    struct buffer text;
    struct token_ids ids;
    const struct token_ids *prompt;
    struct receipt receipt;
    struct timings timings;
};

static void print_json(const struct chat *chat, const struct reply *reply) {
    struct buffer out;
    buffer_init(&out, LIMIT_BODY_BYTES);
    struct json_writer w = {.out = &out};
    json_open_object(&w);
    json_put_key(&w, "text");
    json_put_bytes(&w, reply->text.data != NULL ? reply->text.data : "", reply->text.size);
    transcript_put_ids(&w, "prompt_ids", reply->prompt->at, reply->prompt->n);
    transcript_put_ids(&w, "tokens", reply->ids.at, reply->ids.n);
    json_pair_string(&w, "finish_reason", finish_name(reply->receipt.finish));
    json_put_key(&w, "usage");
    json_open_object(&w);
    json_pair_int(&w, "prompt_tokens", reply->receipt.usage.n_prompt);
    json_pair_int(&w, "completion_tokens", reply->receipt.usage.n_completion);
    json_close_object(&w);
    json_put_key(&w, "timings");
    timings_put_json(&w, &reply->timings);
    json_put_key(&w, "selfsame");
    receipt_put_json(&w, chat->engine, &reply->receipt);
    json_close_object(&w);
    puts(out.data);
    buffer_free(&out);
}

static void print_summary(const struct reply *reply) {
    const struct receipt *r = &reply->receipt;
    double seconds = reply->timings.decode_ms / 1e3;
    fprintf(stderr,
            "\n[%d + %d tokens, first after %.0f ms, %.1f tok/s; %d of %d drafts accepted; ",
            (int)r->usage.n_prompt, (int)r->usage.n_completion, reply->timings.first_token_ms,
            seconds > 0 ? (r->usage.n_completion - 1) / seconds : 0.0, (int)r->drafts.accepted,
            (int)r->drafts.drafted);
    fprintf(stderr, "tokens %.16s, witness %.16s]\n", r->tokens_sha256, r->witness);
}

static void keep_tokens(struct reply *reply, const struct event *event, bool prints) {
    buffer_append(&reply->text, event->text, event->text_size);
    if (prints) {
        fwrite(event->text, 1, event->text_size, stdout);
        fflush(stdout);
    }
    for (int32_t i = 0; i < event->n_tokens; i++) {
        if (reply->ids.n == reply->ids.room) {
            reply->ids.room = reply->ids.room > 0 ? reply->ids.room * 2 : 256;
            reply->ids.at =
                mem_grow(reply->ids.at, (size_t)reply->ids.room * sizeof *reply->ids.at);
        }
        reply->ids.at[reply->ids.n++] = event->tokens[i].id;
    }
}

static enum status follow(struct stream *stream, struct reply *reply, bool prints,
                          struct error *err) {
    for (;;) {
        const struct event *event = stream_next(stream, -1);
        switch (event->kind) {
        case EVENT_TOKENS:
            keep_tokens(reply, event, prints);
            break;
        case EVENT_DONE:
            reply->receipt = *event->receipt;
            reply->timings = *event->timings;
            return STATUS_OK;
        case EVENT_FAILED:
            *err = event->error;
            return event->error.status;
        default:
            break;
        }
    }
}

static enum status answer(struct chat *chat, const struct token_ids *ids, struct reply *reply,
                          struct error *err) {
    struct request *request = request_open();
    struct stream *stream = NULL;
    const struct args *args = chat->args;
    buffer_init(&reply->text, LIMIT_BODY_BYTES);
    reply->prompt = ids;
    enum status status = fill_request(args, engine_model(chat->engine), ids, request, err);
    if (status == STATUS_OK) {
        status = engine_submit_take(chat->engine, request, &stream, err);
    }
    if (status != STATUS_OK) {
        request_close(request);
        return status;
    }
    status = follow(stream, reply, !args->json, err);
    stream_close(stream);
    if (status == STATUS_OK && args->json) {
        print_json(chat, reply);
    } else if (status == STATUS_OK) {
        print_summary(reply);
    }
    return status;
}

static void reply_free(struct reply *reply) {
    buffer_free(&reply->text);
    free(reply->ids.at);
}

static enum status turn(struct chat *chat, const char *text, size_t size, struct error *err) {
    struct token_ids ids = {0};
    struct reply reply = {0};
    enum status status;
    if (chat->args->raw) {
        struct encode_options options = {
            .adds_special = true, .adds_once = true, .parses_special = true};
        status =
            tokenizer_encode(engine_model(chat->engine)->tokenizer, text, size, options, &ids, err);
    } else {
        add_message(chat, "user", text, size);
        status = encode_chat(chat, &ids, err);
    }
    if (status == STATUS_OK) {
        status = answer(chat, &ids, &reply, err);
    }
    if (status == STATUS_OK && !chat->args->raw) {
        add_message(chat, "assistant", reply.text.data != NULL ? reply.text.data : "",
                    reply.text.size);
    }
    reply_free(&reply);
    free(ids.at);
    return status;
}

static enum status run_tokens(struct chat *chat, struct error *err) {
    struct token_ids ids = {0};
    struct reply reply = {0};
    enum status status = verb_read_ids(chat->args->prompt_tokens, &ids.at, &ids.n, err);
    if (status == STATUS_OK) {
        status = answer(chat, &ids, &reply, err);
    }
    reply_free(&reply);
    free(ids.at);
    return status;
}

static enum status run_file(struct chat *chat, struct error *err) {
    struct buffer text;
    buffer_init(&text, LIMIT_TEXT_BYTES);
    enum status status = strcmp(chat->args->file, "-") == 0
                             ? verb_read_input(&text, err)
                             : file_read(chat->args->file, &text, err);
    if (status == STATUS_OK && !chat->args->raw && !utf8_is_valid(text.data, text.size)) {
        status = error_set(err, STATUS_BAD_INPUT, "%s: it is not UTF-8", chat->args->file);
    }
    if (status == STATUS_OK) {
        status = turn(chat, text.data != NULL ? text.data : "", text.size, err);
    }
    buffer_free(&text);
    return status;
}

static enum status run_terminal(struct chat *chat, struct error *err) {
    char *line = NULL;
    size_t room = 0;
    enum status status = STATUS_OK;
    if (isatty(STDIN_FILENO)) {
        fprintf(stderr, "%s: type a message; an empty line or end of input leaves\n",
                engine_model(chat->engine)->name);
    }
    while (status == STATUS_OK) {
        if (isatty(STDIN_FILENO)) {
            fputs("> ", stderr);
        }
        ssize_t size = getline(&line, &room, stdin);
        while (size > 0 && line[size - 1] == '\n') {
            size--;
        }
        if (size <= 0) {
            break;
        }
        status = turn(chat, line, (size_t)size, err);
    }
    free(line);
    return status;
}

enum status verb_run(const struct args *args, struct error *err) {
    struct chat chat = {.args = args};
    struct engine_options options = {
        .chunk = args->chunk, .parallel_max = 1, .drafts = true, .drafters = args->drafter};
    char *path = NULL;
    buffer_init(&chat.messages, LIMIT_BODY_BYTES);

    enum status status = args_model_options(args, &options.model, err);
    if (status == STATUS_OK) {
        status = verb_model_path(args, &path, err);
    }
    if (status == STATUS_OK) {
        status = engine_open(&chat.engine, path, &options, err);
    }
    if (status == STATUS_OK && args->system != NULL) {
        add_message(&chat, "system", args->system, strlen(args->system));
    }
    if (status == STATUS_OK) {
        status = args->prompt_tokens != NULL ? run_tokens(&chat, err)
                 : args->prompt != NULL      ? turn(&chat, args->prompt, strlen(args->prompt), err)
                 : args->file != NULL        ? run_file(&chat, err)
                                             : run_terminal(&chat, err);
    }
    engine_close(chat.engine);
    buffer_free(&chat.messages);
    free(path);
    return status;
}
