#include "buffer.h"
#include "test.h"

TEST(buffer_refuses_what_does_not_fit_and_keeps_the_rest) {
    struct buffer buffer;
    buffer_init(&buffer, 5);

    CHECK(buffer_text(&buffer, "abc"));
    CHECK(!buffer_text(&buffer, "def"));
    CHECK(buffer.is_full);
    CHECK_EQ_STR(buffer.data, "abc");  // untouched by the refusal
    CHECK(buffer_text(&buffer, "de"));
    CHECK_EQ_STR(buffer.data, "abcde");
    buffer_free(&buffer);
}
END

TEST(buffer_drops_from_the_front) {
    struct buffer buffer;
    buffer_init(&buffer, 100);
    buffer_text(&buffer, "abcdef");
    buffer_drop(&buffer, 2);
    CHECK_EQ_STR(buffer.data, "cdef");
    CHECK_EQ_INT(buffer.size, 4);
    buffer_free(&buffer);
}
END

SUITE(buffer, 10, buffer_refuses_what_does_not_fit_and_keeps_the_rest, buffer_drops_from_the_front)
