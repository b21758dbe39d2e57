#include "graph/utf8.hpp"

#include <gtest/gtest.h>

#include <optional>
#include <string>

namespace heliograph {
namespace {

TEST(Utf8, IsThatOfRfc3629) {
  for (const char* text :
       {"", "plain", "\x7f", "gr\u00fcn", "\u0800", "\ud7ff\ue000\uffff", "\U00010000\U0010ffff"}) {
    const std::optional<std::u32string> codes = decode_utf8(text);
    ASSERT_TRUE(codes) << text;
    std::string again;
    for (const char32_t code : *codes) append_utf8(again, code);
    EXPECT_EQ(again, text);
  }
  for (const char* text : {"caf\xe9", "\x80", "\xc3", "\xc3(", "\xe4\xb8", "\xf0\x9f\x98",
                           "\xc1\xbf", "\xe0\x9f\xbf", "\xf0\x8f\xbf\xbf", "\xed\xa0\x80",
                           "\xed\xbf\xbf", "\xf4\x90\x80\x80", "\xf8\x88\x80\x80\x80", "\xff"}) {
    EXPECT_FALSE(is_utf8(text)) << text;
  }
}

}  // namespace
}  // namespace heliograph
