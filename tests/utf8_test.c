#include "test.h"
#include "utf8.h"

TEST(utf8_round_trips_every_code_point_and_refuses_surrogates) {
    for (uint32_t point = 0; point < 0x110000; point++) {
        char bytes[4];
        uint32_t back = 0;
        int length = utf8_encode(point, bytes);
        bool is_surrogate = point >= 0xD800 && point < 0xE000;
        CHECK_EQ_INT(utf8_decode(bytes, (size_t)length, &back), is_surrogate ? 0 : length);
        if (!is_surrogate) {
            CHECK_EQ_INT(back, point);
        }
    }
}
END

TEST(utf8_refuses_overlong_and_truncated_bytes) {
    CHECK(!utf8_is_valid("\xC0\x80", 2));
    CHECK(!utf8_is_valid("\xE0\x9F\xBF", 3));
    CHECK(!utf8_is_valid("\xF4\x90\x80\x80", 4));
    CHECK(!utf8_is_valid("\xE2\x82", 2));
    CHECK(utf8_is_valid("\xE2\x82\xAC", 3));
}
END

TEST(utf8_tail_is_what_may_still_become_a_character) {
    CHECK_EQ_INT(utf8_incomplete_tail("ab", 2), 0);
    CHECK_EQ_INT(utf8_incomplete_tail("a\xE2", 2), 1);
    CHECK_EQ_INT(utf8_incomplete_tail("a\xE2\x82", 3), 2);
    CHECK_EQ_INT(utf8_incomplete_tail("a\xE2\x82\xAC", 4), 0);
    CHECK_EQ_INT(utf8_incomplete_tail("\xF0\x9F\xA6", 3), 3);
    CHECK_EQ_INT(utf8_incomplete_tail("\xED\xA0", 2), 0);  // a surrogate can never finish
    CHECK_EQ_INT(utf8_incomplete_tail("\x80\x80", 2), 0);
}
END

SUITE(utf8, 20, utf8_round_trips_every_code_point_and_refuses_surrogates,
      utf8_refuses_overlong_and_truncated_bytes, utf8_tail_is_what_may_still_become_a_character)
