/* stream.h - events out of the scheduler, one stream a request: the only lock between a session and
 * its reader.
 *
 * Two owners, the scheduler and the reader; the last to let go frees the stream and its request.
 * The reader's half is in engine.h (stream_next, stream_cancel, stream_close).
 */
#pragma once
#include "engine.h"

struct stream *stream_open_take(struct request *request);
/* The request was refused after all: frees the stream, not the request. */
void stream_give_back(struct stream *stream);
struct request *stream_request(struct stream *stream);
bool stream_is_cancelled(struct stream *stream);
/* LIMIT_UNREAD events wait for the reader: the session should, too. */
bool stream_is_behind(struct stream *stream);
double stream_submitted_ms(const struct stream *stream);

/* The scheduler's side.  What the event points to is copied. */
void stream_put(struct stream *stream, const struct event *event);
/* No more events: drop the scheduler's share. */
void stream_release(struct stream *stream);
