/* suites.h - every suite, one line each: X(name) is name_suite() in tests/name_test.c. */
SUITE_ROW(buffer)
SUITE_ROW(json)
SUITE_ROW(threads)
SUITE_ROW(utf8)
SUITE_ROW(tokenizer)
SUITE_ROW(detokenizer)
SUITE_ROW(conformance)
SUITE_ROW(pretokenize)
