/* op_test.c - the front of the op table: the rule table, scratch, and the measuring mode. */
#include "op.h"
#include "test.h"

TEST(rules_follow_the_table_of_the_contract) {
    static const struct {
        enum dtype dtype;
        int32_t rows;
        enum acts acts;
        enum rule rule;
    } table[] = {
        {DT_BF16, 32, ACTS_INT16, RULE_A2}, {DT_F16, 4096, ACTS_INT16, RULE_A2},
        {DT_BF16, 32, ACTS_INT8, RULE_A2},  {DT_BF16, 31, ACTS_INT16, RULE_A},
        {DT_BF16, 4096, ACTS_F32, RULE_A},  {DT_F32, 4096, ACTS_INT16, RULE_A},
        {DT_F32, 4096, ACTS_INT8, RULE_A},  {DT_Q4_K, 32, ACTS_INT16, RULE_B},
        {DT_Q8, 32, ACTS_INT8, RULE_B},     {DT_Q4_K, 31, ACTS_INT16, RULE_A},
        {DT_Q4_K, 4096, ACTS_F32, RULE_A},  {DT_F8_E4M3, 4096, ACTS_INT16, RULE_A},
    };
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        CHECK_EQ_INT(rule_of(table[i].dtype, table[i].rows, table[i].acts), table[i].rule);
    }
    for (enum dtype dtype = DT_Q8_0; dtype < DT_COUNT; dtype++) {
        CHECK_EQ_INT(rule_of(dtype, 64, ACTS_INT16), RULE_B);
    }
}
END

    /* A layer's worth of ops; the weights have 3, 5 and 3 rows. */
    static struct tensor
    small_forward(struct exec *x, const struct weight *up, const struct weight *down,
                  const struct weight *gain, const struct batch *batch) {
    struct tensor s = op_embed(x, down, batch);
    size_t mark = exec_mark(x);
    struct tensor h = op_matmul(x, op_rms_norm(x, s, gain, 1e-5f), up);
    op_add(x, h, op_silu_mul(x, op_matmul(x, s, up), h));
    op_trace(x, "h", 0, h);
    exec_release(x, mark);
    return op_gather_out(x, op_matmul(x, s, up), batch);
}

static void count_trace(void *user, const char *name, int32_t layer, struct tensor t) {
    CHECK_EQ_STR(name, "h");
    CHECK_EQ_INT(layer, 0);
    CHECK_EQ_INT(t.rows, 2);
    *(int *)user += 1;
}

TEST(a_measured_pass_takes_exactly_the_scratch_it_was_measured_for) {
    float up_data[5 * 3] = {1, 2, 3, 4, 5}, down_data[4 * 3] = {1, 1, 1, 2, 2, 2};
    float gain_data[3] = {1, 1, 1};
    struct weight up = {.t = tensor_of(DT_F32, 5, 3, up_data), .name = "up"};
    struct weight down = {.t = tensor_of(DT_F32, 4, 3, down_data), .name = "down"};
    struct weight gain = {.t = tensor_of(DT_F32, 1, 3, gain_data), .name = "gain"};
    const int32_t ids[2] = {1, 0}, positions[2] = {0, 1}, out_rows[1] = {1};
    const struct batch batch = {
        .n_rows = 2, .ids = ids, .positions = positions, .out_rows = out_rows, .n_out = 1};

    struct exec measuring = exec_measuring();
    struct tensor shape = small_forward(&measuring, &up, &down, &gain, &batch);
    CHECK(shape.data == NULL);
    CHECK_EQ_INT(shape.rows, 1);
    CHECK_EQ_INT(shape.cols, 5);

    struct exec x;
    struct error err = {0};
    int n_traced = 0;
    const struct backend_options options = {0};
    CHECK_OK(exec_open(&x, &backend_ref, &options, &err), err);
    CHECK_OK(exec_reserve(&x, measuring.scratch_peak, &err), err);
    x.trace = count_trace;
    x.trace_user = &n_traced;
    struct tensor y = small_forward(&x, &up, &down, &gain, &batch);
    CHECK_EQ_INT(x.scratch_peak, measuring.scratch_peak);
    CHECK_EQ_INT(n_traced, 1);
    CHECK_EQ_INT((uintptr_t)y.data % 64, 0);
    CHECK(((float *)y.data)[0] == 1 + 2 + 3);  // row 1 is token 0: ones
    CHECK(((float *)y.data)[1] == 4 + 5);
    exec_close(&x);
}
END

TEST(scratch_grows_and_is_never_taken_away) {
    struct exec x;
    struct error err = {0};
    const struct backend_options options = {0};
    CHECK_OK(exec_open(&x, &backend_ref, &options, &err), err);
    CHECK_OK(exec_reserve(&x, 1000, &err), err);
    CHECK_OK(exec_reserve(&x, 500, &err), err);
    CHECK_EQ_INT(x.scratch_size, 1000);
    CHECK_OK(exec_reserve(&x, 2000, &err), err);
    CHECK_EQ_INT(x.scratch_size, 2000);
    size_t mark = exec_mark(&x);
    exec_tensor(&x, 2, 3);
    CHECK_EQ_INT(x.scratch_used, 64);
    exec_tensor(&x, 0, 3);
    CHECK_EQ_INT(x.scratch_used, 64);
    exec_release(&x, mark);
    CHECK_EQ_INT(x.scratch_used, 0);
    exec_close(&x);
}
END

SUITE(op, 10, rules_follow_the_table_of_the_contract,
      a_measured_pass_takes_exactly_the_scratch_it_was_measured_for,
      scratch_grows_and_is_never_taken_away)
