/* test.h - the vocabulary of tests, over Check: a suite per module, a process per test.
 *
 *   TEST(a_sentence_that_is_true_when_it_passes) CHECK_EQ_INT(got, wanted); END
 *   SUITE(json, 10, a_sentence_that_is_true_when_it_passes, another)
 *
 * tests/suites.h lists every suite once.  Data lives under tests/data, read relative to the
 * repository root, where the tests run.
 */
#pragma once
#include <check.h>
#include <string.h>

#define TEST(name) START_TEST(name)
#define END END_TEST
#define CHECK(condition) ck_assert_msg((condition), "%s", #condition)
#define CHECK_EQ_INT(got, wanted) ck_assert_int_eq((long long)(got), (long long)(wanted))
#define CHECK_EQ_STR(got, wanted) ck_assert_str_eq((got), (wanted))
#define CHECK_EQ_BYTES(got, wanted, size) ck_assert_mem_eq((got), (wanted), (size))
/* A function returned success; its error sentence is printed otherwise. */
#define CHECK_OK(call, err) ck_assert_msg((call) == STATUS_OK, "%s", (err).text)
#define CHECK_CONTAINS(text, part)                                                                 \
    ck_assert_msg(strstr((text), (part)) != NULL, "'%s' does not contain '%s'", (text), (part))

/* Gives a function `Suite *NAME_suite(void)` that runs the tests with `timeout_s` each. */
#define SUITE(name, timeout_s, ...)                                                                \
    Suite *name##_suite(void) {                                                                    \
        const TTest *const list[] = {__VA_ARGS__};                                                 \
        Suite *suite = suite_create(#name);                                                        \
        TCase *tcase = tcase_create(#name);                                                        \
        tcase_set_timeout(tcase, (timeout_s));                                                     \
        for (size_t i = 0; i < sizeof list / sizeof list[0]; i++) {                                \
            tcase_add_test(tcase, list[i]);                                                        \
        }                                                                                          \
        suite_add_tcase(suite, tcase);                                                             \
        return suite;                                                                              \
    }
