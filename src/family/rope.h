/* rope.h - rotary frequencies from a configuration, in binary64 by our own functions.
 *
 * Plain: w_i = theta^(-2i / dims).  linear: w / factor.  llama3 (Llama 3.1's scaling by wavelength)
 * and yarn (arXiv:2309.00071) as Hugging Face transformers define them.
 */
#pragma once
#include "family.h"

/* What yarn multiplies attention by when the context grew by `factor`: 0.1 mscale ln(factor) + 1.
 */
double rope_mscale(double factor, double mscale);
/* Fills freqs[dims / 2] and the factor of cos and sin. */
MUST_CHECK enum status rope_frequencies(const struct rope_config *config, float *freqs,
                                        float *factor, struct error *err);
