/* model_text.h - a model's text side: tokenizer, chat template, end tokens, sampling defaults. */
#pragma once
#include "model.h"

MUST_CHECK enum status model_text_open(struct model *model, struct error *err);
