/* main.c - runs the suites whose name contains the argument, or all; ends with 'N passed, N
 * failed'. */
#include "test.h"

#include <stdio.h>
#include <stdlib.h>

#define SUITE_ROW(name) Suite *name##_suite(void);
#include "suites.h"
#undef SUITE_ROW

static const struct {
    const char *name;
    Suite *(*make)(void);
} suites[] = {
#define SUITE_ROW(name) {#name, name##_suite},
#include "suites.h"
#undef SUITE_ROW
};

int main(int argc, char **argv) {
    SRunner *runner = srunner_create(NULL);
    for (size_t i = 0; i < sizeof suites / sizeof suites[0]; i++) {
        if (argc < 2 || strstr(suites[i].name, argv[1]) != NULL) {
            srunner_add_suite(runner, suites[i].make());
        }
    }
    srunner_run_all(runner, CK_NORMAL);
    int n_failed = srunner_ntests_failed(runner);
    int n_run = srunner_ntests_run(runner);
    srunner_free(runner);
    printf("%d passed, %d failed\n", n_run - n_failed, n_failed);
    return n_run > 0 && n_failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
