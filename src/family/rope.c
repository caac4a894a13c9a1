/* rope.c - rotary frequencies: plain, linear, llama3, yarn. */
#include "rope.h"

#include "arithmetic64.h"

#define PI 3.14159265358979323846

static double power(double base, double exponent) {
    return canon64_exp(exponent * canon64_log(base));
}

/* Wavelengths above the low border are divided by the factor, below the high border kept, between
 * them blended. */
static double scale_llama3(const struct rope_config *c, double w) {
    double wavelength = 2.0 * PI / w;
    double low = c->original_context / c->low_freq_factor;
    double high = c->original_context / c->high_freq_factor;
    if (wavelength < high) {
        return w;
    }
    if (wavelength > low) {
        return w / c->factor;
    }
    double smooth = (c->original_context / wavelength - c->low_freq_factor) /
                    (c->high_freq_factor - c->low_freq_factor);
    return (1.0 - smooth) * (w / c->factor) + smooth * w;
}

/* The dimension whose wavelength turns `beta` times in the original context. */
static double yarn_dimension(const struct rope_config *c, double beta) {
    return c->dims * canon64_log(c->original_context / (2.0 * PI * beta)) /
           (2.0 * canon64_log(c->theta));
}

static double scale_yarn(const struct rope_config *c, int32_t i, double w) {
    double low = yarn_dimension(c, c->beta_fast), high = yarn_dimension(c, c->beta_slow);
    if (c->truncate) {
        low = floor(low);
        high = ceil(high);
    }
    low = low < 0 ? 0 : low;
    high = high > c->dims - 1 ? c->dims - 1 : high;
    if (low == high) {
        high += 0.001;
    }
    double ramp = (i - low) / (high - low);
    ramp = ramp < 0 ? 0 : ramp > 1 ? 1 : ramp;
    return w * (1.0 - ramp) + w / c->factor * ramp;
}

double rope_mscale(double factor, double mscale) {
    return factor <= 1.0 ? 1.0 : 0.1 * mscale * canon64_log(factor) + 1.0;
}

static double attention_factor(const struct rope_config *c) {
    if (c->kind != ROPE_YARN) {
        return 1.0;
    }
    if (c->attention_factor != 0) {
        return c->attention_factor;
    }
    if (c->mscale != 0 && c->mscale_all_dim != 0) {
        return rope_mscale(c->factor, c->mscale) / rope_mscale(c->factor, c->mscale_all_dim);
    }
    return rope_mscale(c->factor, 1.0);
}

static enum status check(const struct rope_config *c, struct error *err) {
    bool is_llama3 = c->kind == ROPE_LLAMA3;
    if (c->dims < 2 || c->dims % 2 != 0 || !(c->theta > 1)) {
        return error_set(err, STATUS_BAD_INPUT, "rope: %d dimensions with theta %g", (int)c->dims,
                         c->theta);
    }
    if (c->kind != ROPE_PLAIN && !(c->factor > 0)) {
        return error_set(err, STATUS_BAD_INPUT, "rope: a scaling factor of %g", c->factor);
    }
    if ((is_llama3 || c->kind == ROPE_YARN) && !(c->original_context > 0)) {
        return error_set(err, STATUS_BAD_INPUT, "rope: no original_max_position_embeddings");
    }
    if (is_llama3 && !(c->low_freq_factor > 0 && c->high_freq_factor > c->low_freq_factor)) {
        return error_set(err, STATUS_BAD_INPUT, "rope: llama3 factors %g and %g",
                         c->low_freq_factor, c->high_freq_factor);
    }
    return STATUS_OK;
}

enum status rope_frequencies(const struct rope_config *config, float *freqs, float *factor,
                             struct error *err) {
    enum status status = check(config, err);
    if (status != STATUS_OK) {
        return status;
    }
    for (int32_t i = 0; i < config->dims / 2; i++) {
        double w = power(config->theta, -2.0 * i / config->dims);
        switch (config->kind) {
        case ROPE_PLAIN:
            break;
        case ROPE_LINEAR:
            w = w / config->factor;
            break;
        case ROPE_LLAMA3:
            w = scale_llama3(config, w);
            break;
        case ROPE_YARN:
            w = scale_yarn(config, i, w);
            break;
        }
        freqs[i] = (float)(config->divisors != NULL ? w / config->divisors[i] : w);
    }
    *factor = (float)attention_factor(config);
    return STATUS_OK;
}
