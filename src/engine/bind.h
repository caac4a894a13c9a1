/* bind.h - walks a family's tables: numbers from the checkpoint's config, weights to where the
 * family wants them, slots to their places in a page.
 */
#pragma once
#include "model.h"

/* Which family the checkpoint is; refuses others by name, listing what is supported. */
MUST_CHECK enum status bind_family(struct model *model, struct error *err);
/* Config struct, rope frequencies, slots; fills the model's numbers. */
MUST_CHECK enum status bind_config(struct model *model, struct error *err);
/* Heads that the chosen backend cannot attend with are refused. */
MUST_CHECK enum status bind_check_backend(const struct model *model, struct error *err);
/* Every weight, checked, packed by the backend. */
MUST_CHECK enum status bind_weights(struct model *model, struct error *err);
void bind_close(struct model *model);
