/* vocab.h - a model's text side: tokenizer, chat template, end tokens, sampling defaults. */
#pragma once
#include "model.h"

MUST_CHECK enum status vocab_open(struct model *model, struct error *err);
