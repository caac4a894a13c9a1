/* op_faults.h - the scalar backend with one thing wrong at a time: what the comparison must catch.
 */
#pragma once
#include "op_cases.h"

struct op_fault {
    const char *what;
    enum op_kind kind;  // of the op that is wrong
    struct backend backend;
};

enum { OP_FAULTS = 22 };
void op_faults(struct op_fault out[OP_FAULTS]);
