// Memory that outputs share with themselves, with each other or with inputs is refused; views that
// interleave without touching are not.
#include "tests/support/overlap.hpp"

namespace twinops::test {
namespace {

const std::string kNotInPlace = ", but is not the same tensor in place";

TEST_F(Overlap, OutputsOverlapInPart) {
  EXPECT_EQ(refusal({other({8}), other({8})}, {view(0, {8}), view(7, {8})}),
            message("out[1]", "out[0]"));
  EXPECT_EQ(refusal({other({8}), other({8})}, {view(7, {8}), view(0, {8})}),
            message("out[0]", "out[1]"));
}
TEST_F(Overlap, AnOutputLiesInAnother) {
  EXPECT_EQ(refusal({other({32}), other({4})}, {view(0, {32}), view(10, {4})}),
            message("out[1]", "out[0]"));
}
TEST_F(Overlap, TheSameOutputTwice) {
  EXPECT_TRUE(refusal({other({8}), other({8})}, {view(0, {8}), view(0, {8})}));
}
TEST_F(Overlap, FarApartInTheList) {
  std::vector<View> xs, outs;
  for (int i = 0; i < 15; ++i) {
    xs.push_back(other({4}));
    outs.push_back(view(4 * i, {4}));
  }
  EXPECT_EQ(refusal(xs, outs), std::nullopt) << "neighbours only touch";
  xs.push_back(other({2}));
  outs.push_back(view(21, {2}));
  EXPECT_EQ(refusal(xs, outs), message("out[15]", "out[5]"));
}
TEST_F(Overlap, ALongOneBehindShortOnes) {
  EXPECT_EQ(refusal({other({60}), other({1}), other({1}), other({1})},
                    {view(0, {60}), view(60, {1}), view(61, {1}), view(59, {1})}),
            message("out[3]", "out[0]"));
}
// Two that only touch, under a third that spans them and shares memory with neither.
TEST_F(Overlap, TouchingUnderOneThatSpansThem) {
  EXPECT_EQ(refusal({view(0, {2}, {40}), view(10, {10})}, {other({2}), view(20, {10})}),
            std::nullopt);
  EXPECT_EQ(refusal({view(0, {2}, {40}), view(10, {11})}, {other({2}), view(20, {11})}),
            message("out[1]", "x[1]") + kNotInPlace);
}
TEST_F(Overlap, InPlaceIsAllowed) {
  EXPECT_EQ(refusal({view(0, {8}), view(8, {8})}, {view(0, {8}), view(8, {8})}), std::nullopt);
}
TEST_F(Overlap, InPlaceByOtherWordsIsAllowed) {
  EXPECT_EQ(refusal({view(0, {2, 4}, {4, 1})}, {view(0, {2, 4})}), std::nullopt);
  EXPECT_EQ(refusal({view(0, {1, 4}, {99, 1})}, {view(0, {1, 4}, {4, 1})}), std::nullopt);
}
// Arrays whose members look alike but for one thing are not one list given twice.
TEST_F(Overlap, TheSameMemoryInAnotherShape) {
  const auto message = refusal({view(0, {4}), view(8, {4, 2})}, {view(0, {4}), view(8, {2, 4})});
  ASSERT_TRUE(message);
  EXPECT_NE(message->find("out[1]: expected the shape of its input, [4, 2]"), std::string::npos);
}
TEST_F(Overlap, TheSameMemoryInAnotherType) {
  const auto message = refusal({View(memory_, kF16, {8})}, {View(memory_, kBf16, {8})});
  ASSERT_TRUE(message);
  EXPECT_NE(message->find("out[0]: expected the type of its input, float16"), std::string::npos);
}
TEST_F(Overlap, TheSameMemoryInAnotherOrder) {
  EXPECT_TRUE(refusal({view(0, {2, 4})}, {view(0, {2, 4}, {1, 2})}));
}
TEST_F(Overlap, InPlaceMovedByOne) {
  EXPECT_EQ(refusal({view(0, {8})}, {view(1, {8})}), message("out[0]", "x[0]") + kNotInPlace);
  EXPECT_EQ(refusal({view(1, {8})}, {view(0, {8})}), message("out[0]", "x[0]") + kNotInPlace);
}
TEST_F(Overlap, OverAnotherMembersInput) {
  EXPECT_EQ(refusal({view(0, {8}), view(8, {8})}, {view(8, {8}), view(16, {8})}),
            message("out[0]", "x[1]") + kNotInPlace);
}
TEST_F(Overlap, InPlaceAndReadByAnotherMember) {
  EXPECT_EQ(refusal({view(0, {8}), view(0, {8})}, {view(0, {8}), view(8, {8})}),
            message("out[0]", "x[1]") + kNotInPlace);
}
TEST_F(Overlap, TransposedInPlace) {
  EXPECT_EQ(refusal({view(0, {3, 3})}, {view(0, {3, 3}, {1, 3})}),
            message("out[0]", "x[0]") + kNotInPlace);
}
TEST_F(Overlap, ReversedInPlace) {
  EXPECT_EQ(refusal({view(0, {8})}, {view(7, {8}, {-1})}), message("out[0]", "x[0]") + kNotInPlace);
  EXPECT_EQ(refusal({view(7, {8}, {-1})}, {view(7, {8}, {-1})}), std::nullopt);
}
TEST_F(Overlap, InputsMayBeTheSame) {
  EXPECT_EQ(refusal({view(0, {8}), view(0, {8})}, {view(8, {8}), view(16, {8})}), std::nullopt);
}
TEST_F(Overlap, EmptyTensorsShareNothing) {
  EXPECT_EQ(refusal({view(0, {0}), view(0, {8})}, {view(3, {0}), view(0, {8})}), std::nullopt);
}
TEST_F(Overlap, ScaleAndFlagInATensor) {
  const View scale = view(4, {}), found = view(5, {});
  EXPECT_EQ(refusal({other({8})}, {view(0, {8})}, scale, View(&found_, kU8, {})),
            message("out[0]", "scale") + kNotInPlace);
  EXPECT_EQ(refusal({other({8})}, {view(0, {8})}, View(&scale_, kF32, {}), found),
            message("found_inf", "out[0]"));
  EXPECT_EQ(refusal({view(0, {8})}, {view(8, {8})}, View(&scale_, kF32, {}), found),
            message("found_inf", "x[0]") + kNotInPlace);
  EXPECT_EQ(refusal({other({8})}, {view(16, {8})}, scale, scale),
            message("found_inf", "scale") + kNotInPlace);
}
TEST_F(Overlap, ABooleanBetweenStridedElements) {
  const View flag(reinterpret_cast<char*>(memory_ + 1) + 3, kU8, {1});
  const View hit(reinterpret_cast<char*>(memory_ + 2) + 3, kU8, {1});
  const View scale(&scale_, kF32, {});
  EXPECT_EQ(refusal({other({8})}, {view(0, {8}, {2})}, scale, flag), std::nullopt);
  EXPECT_EQ(refusal({other({8})}, {view(0, {8}, {2})}, scale, hit), message("found_inf", "out[0]"));
}

TEST_F(Overlap, ColumnSlicesOfOneMatrix) {
  const View left = view(0, {8, 3}, {8, 1}), right = view(3, {8, 5}, {8, 1});
  EXPECT_EQ(refusal({left, right}, {left, right}), std::nullopt);
  EXPECT_EQ(refusal({other({8, 3}), other({8, 5})}, {left, right}), std::nullopt);
  const View middle = view(2, {8, 2}, {8, 1});
  EXPECT_EQ(refusal({left, middle}, {left, middle}), message("out[1]", "out[0]"));
}
TEST_F(Overlap, AColumnAndASliceOfIt) {
  const View column = view(3, {8, 1}, {8, 1}), slice = view(2, {8, 3}, {8, 1});
  EXPECT_EQ(refusal({column, slice}, {column, slice}), message("out[0]", "out[1]"));
  const View rest = view(4, {8, 3}, {8, 1});
  EXPECT_EQ(refusal({column, rest}, {column, rest}), std::nullopt);
}
TEST_F(Overlap, AMatrixAndItsColumn) {
  EXPECT_EQ(refusal({other({8, 8}), other({8})}, {view(0, {8, 8}), view(3, {8}, {8})}),
            message("out[1]", "out[0]"));
}
TEST_F(Overlap, EvenAndOddElements) {
  const View even = view(0, {16}, {2}), odd = view(1, {16}, {2}), fourth = view(4, {8}, {4});
  EXPECT_EQ(refusal({even, odd}, {even, odd}), std::nullopt);
  EXPECT_EQ(refusal({odd, fourth}, {odd, fourth}), std::nullopt);
  EXPECT_EQ(refusal({even, fourth}, {even, fourth}), message("out[1]", "out[0]"));
}
TEST_F(Overlap, ABroadcastInputOverAnOutput) {
  EXPECT_EQ(refusal({view(3, {8}, {0})}, {view(0, {8})}), message("out[0]", "x[0]") + kNotInPlace);
  EXPECT_EQ(refusal({view(8, {8}, {0})}, {view(0, {8})}), std::nullopt);
}

const std::string kItself =
    "check_finite_and_unscale: out[0]: its strides let two elements share memory";
TEST_F(Overlap, AnOutputWithItself) {
  EXPECT_EQ(refusal({other({8})}, {view(0, {8}, {0})}), kItself);
  EXPECT_EQ(refusal({other({2, 8})}, {view(0, {2, 8}, {0, 1})}), kItself);
  EXPECT_EQ(refusal({other({4, 4})}, {view(0, {4, 4}, {3, 1})}), kItself);
  EXPECT_EQ(refusal({other({4, 4})}, {view(0, {4, 4}, {1, 1})}), kItself);
  EXPECT_EQ(refusal({other({4, 4})}, {view(3, {4, 4}, {4, -1})}), std::nullopt);
  EXPECT_EQ(refusal({other({4, 4})}, {view(0, {4, 4}, {1, 4})}), std::nullopt);
  EXPECT_EQ(refusal({other({1, 4})}, {view(0, {1, 4}, {0, 1})}), std::nullopt);
}

TEST_F(Overlap, AnOutputWhosePlacesInterleave) {
  EXPECT_EQ(refusal({other({2, 3})}, {view(0, {2, 3}, {3, 2})}), std::nullopt);
  EXPECT_EQ(refusal({other({2, 4})}, {view(0, {2, 4}, {3, 2})}), std::nullopt);
  EXPECT_EQ(refusal({other({3, 4})}, {view(0, {3, 4}, {3, 2})}), kItself);
}

}  // namespace
}  // namespace twinops::test
