/* weight.h - a weight as ops see it: what the checkpoint stores, and how it enters a dot product.
 *
 * The rule and the activation format are part of the model's digest (ARITHMETIC.md, "Rule table").
 */
#pragma once
#include "tensor.h"

enum acts {
    ACTS_INT16,  // two int8 slices per activation: the default
    ACTS_INT8,   // one slice: faster prefill, more error
    ACTS_F32,    // rule A for every weight
};

enum rule {
    RULE_A,   // float dot, 32 segments
    RULE_A2,  // block fixed point for bf16 and f16 matrices, groups of 128
    RULE_B,   // quantised dot
};

/* A matrix [rows = outputs, cols = inputs], or a vector (rows == 1, f32). */
struct weight {
    struct tensor t;     // as stored, lent by the checkpoint or the model; device memory on a GPU
    enum rule rule;      // matrices only
    enum acts acts;      // matrices only
    struct tensor bias;  // f32 [1, rows]; data is NULL when there is none
    void *packed;        // what the backend made of it; NULL when it reads `t` as it is
    const char *name;    // in the checkpoint, for errors
};

/* The rule that the contract's table gives a linear layer's matrix. */
enum rule rule_of(enum dtype dtype, int32_t rows, enum acts acts);
