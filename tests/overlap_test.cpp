// Memory that outputs share with themselves, with each other or with inputs is refused; views that
// interleave without touching are not. Small random views are compared with a brute-force search.
#include <gtest/gtest.h>

#include <optional>
#include <random>
#include <set>

#include "tests/support/raw_call.hpp"

namespace twinops::test {
namespace {

constexpr int kFloats = 64;

// A call over views of one block of memory, which a refusal must leave alone.
class Overlap : public testing::Test {
 protected:
  using Shape = std::vector<std::int64_t>;

  View view(std::int64_t offset, Shape shape, Shape strides = {}) {
    return View(memory_ + offset, kF32, std::move(shape), std::move(strides));
  }
  std::optional<std::string> refusal(const std::vector<View>& xs, const std::vector<View>& outs) {
    return refusal(xs, outs, View(&scale_, kF32, {}), View(&found_, kU8, {}));
  }
  // The message, or nothing if the call is accepted.
  std::optional<std::string> refusal(const std::vector<View>& xs, const std::vector<View>& outs,
                                     const View& scale, const View& found_inf) {
    RawCall call("check_finite_and_unscale");
    std::vector<const DLTensor*> x, out;
    for (const View& v : xs) x.push_back(&v.tensor);
    for (const View& v : outs) out.push_back(&v.tensor);
    call.add("x", x);
    call.add("scale", scale);
    call.add("out", out);
    call.add("found_inf", found_inf);
    std::fill(std::begin(memory_), std::end(memory_), 2.0f);
    const twinops_status status = call.run();
    if (status == TWINOPS_OK) return std::nullopt;
    EXPECT_EQ(status, TWINOPS_INVALID_ARGUMENT);
    for (float value : memory_) EXPECT_EQ(value, 2.0f) << "a refused call wrote";
    return twinops_last_error();
  }
  View other(Shape shape) {  // an input of this shape somewhere else
    inputs_.emplace_back(kFloats, 2.0f);
    return View(inputs_.back().data(), kF32, std::move(shape));
  }
  static std::string message(const std::string& out, const std::string& with) {
    const std::string op = "check_finite_and_unscale: ";
    return op + out + ": shares memory with " + op + with;
  }

  alignas(64) float memory_[kFloats];
  std::deque<std::vector<float>> inputs_;
  float scale_ = 2;
  std::uint8_t found_ = 0;
};
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

// Strides of which none is a multiple of another, and each more than all smaller ones add up to.
constexpr std::int64_t kAxes = 17, kReach = (1 << (kAxes + 1)) - 1 - kAxes;
std::vector<std::int64_t> many_strides() {
  std::vector<std::int64_t> strides(kAxes);
  for (int i = 0; i < kAxes; ++i) strides[static_cast<std::size_t>(i)] = (2 << (kAxes - 1 - i)) - 1;
  return strides;
}

// softmax takes a row, and around it as many axes as other operators take in all.
TEST(OverlapOfManyAxes, InSoftmax) {
  const std::vector<std::int64_t> shape(kAxes, 2);
  std::vector<float> memory(static_cast<std::size_t>(kReach + (1 << kAxes)), 1);
  const auto status = [&](const View& x, const View& y) {
    RawCall call("softmax");
    call.add("x", x);
    call.add("out", y);
    return call.run();
  };
  const View x(memory.data(), kF32, shape, many_strides());
  EXPECT_EQ(status(x, View(memory.data() + 3, kF32, shape)), TWINOPS_INVALID_ARGUMENT);
  EXPECT_STREQ(twinops_last_error(),
               "softmax: out: shares memory with softmax: x, but is not the same tensor in place");
  const View apart(memory.data() + kReach, kF32, shape);
  EXPECT_EQ(status(x, apart), TWINOPS_OK) << twinops_last_error();
  EXPECT_EQ(status(apart, x), TWINOPS_OK) << twinops_last_error();
}

TEST_F(Overlap, AnOutputTooEntangledToTell) {
  Shape shape(16, 2), strides;
  for (int i = 15; i >= 0; --i) strides.push_back((1 << 17) + (1 << i));
  std::vector<float> x(1 << 16), out(std::size_t{17} << 17);
  EXPECT_EQ(refusal({View(x.data(), kF32, shape)}, {View(out.data(), kF32, shape, strides)}),
            "check_finite_and_unscale: out[0]: its strides may let two elements share memory: they "
            "are too entangled to tell");
}

// Every pair of small views, against the sets of places that they name.
struct Places {
  std::set<std::int64_t> set;
  bool distinct = true;

  Places(std::int64_t offset, const View& v) {
    std::vector<std::int64_t> index(v.shape.size(), 0);
    for (;;) {
      std::int64_t place = offset;
      for (std::size_t i = 0; i < index.size(); ++i) place += index[i] * v.strides[i];
      distinct &= set.insert(place).second;
      std::size_t axis = 0;
      while (axis < index.size() && ++index[axis] == v.shape[axis]) index[axis++] = 0;
      if (axis == index.size()) return;
    }
  }
  bool meets(const Places& other) const {
    for (std::int64_t place : set)
      if (other.set.count(place) != 0) return true;
    return false;
  }
};

TEST_F(Overlap, RandomViewsAsABruteForceSearchSays) {
  constexpr unsigned kSeed = 11;
  SCOPED_TRACE("seed " + std::to_string(kSeed));
  std::mt19937 random(kSeed);
  const auto draw = [&](int from, int to) {
    return static_cast<std::int64_t>(random() % static_cast<unsigned>(to - from + 1)) + from;
  };
  int accepted = 0, refused = 0, over_themselves = 0;
  while (accepted + refused < 20000) {
    std::vector<View> views;
    std::vector<Places> places;
    for (int i = 0; i < 2; ++i) {
      Shape shape, strides;
      const std::int64_t rank = draw(1, 3), offset = draw(0, 40);
      for (std::int64_t axis = 0; axis < rank; ++axis) {
        shape.push_back(draw(1, 4));
        strides.push_back(draw(-12, 12));
      }
      views.push_back(view(offset, shape, strides));
      places.emplace_back(offset, views.back());
    }
    const bool inside = std::all_of(places.begin(), places.end(), [](const Places& p) {
      return *p.set.begin() >= 0 && *p.set.rbegin() < kFloats;
    });
    if (!inside) continue;
    const auto said = refusal({other(views[0].shape), other(views[1].shape)}, views);
    inputs_.clear();
    const bool itself = !places[0].distinct || !places[1].distinct;
    const bool told = said && said->find("its strides let two elements") != std::string::npos;
    ASSERT_TRUE(told == itself && said.has_value() == (itself || places[0].meets(places[1])))
        << said.value_or("accepted") << testing::PrintToString(views[0].shape)
        << testing::PrintToString(views[0].strides) << testing::PrintToString(views[1].shape)
        << testing::PrintToString(views[1].strides) << *places[0].set.begin() << " "
        << *places[1].set.begin();
    ++(itself ? over_themselves : said ? refused : accepted);
  }
  EXPECT_GT(accepted, 2000);
  EXPECT_GT(refused, 2000);
  EXPECT_GT(over_themselves, 2000);
}

// Lists in any order, members in place, apart, empty, and some over others.
TEST_F(Overlap, RandomListsAsABruteForceSearchSays) {
  constexpr unsigned kSeed = 13;
  SCOPED_TRACE("seed " + std::to_string(kSeed));
  std::mt19937 random(kSeed);
  const auto draw = [&](std::size_t below) { return static_cast<std::int64_t>(random() % below); };
  struct Range {
    std::int64_t begin, end;
    bool meets(const Range& other) const { return begin < other.end && other.begin < end; }
  };
  int accepted = 0, refused = 0;
  while (accepted < 3000 || refused < 3000) {
    std::vector<Range> x, out;
    const std::int64_t members = 1 + draw(7), longest = 1 + draw(8), order = draw(3);
    for (std::int64_t i = 0; i < members; ++i) {
      const std::int64_t n = draw(static_cast<std::size_t>(longest));
      const std::int64_t place = order == 0 ? 8 * i : order == 1 ? 8 * (members - 1 - i) : draw(56);
      out.push_back({place, place + n});
      const std::int64_t from = draw(3) != 0 ? place : draw(56);
      x.push_back({from, from + n});
    }
    bool shares = false;
    for (std::size_t i = 0; i < out.size(); ++i)
      for (std::size_t j = 0; j < out.size(); ++j) {
        const auto empty = [](const Range& r) { return r.begin == r.end; };
        if (empty(out[i]) || empty(out[j])) continue;
        shares |= i != j && out[i].meets(out[j]);
        shares |= out[i].meets(x[j]) && !(i == j && out[i].begin == x[j].begin);
      }
    std::vector<View> xs, outs;
    for (std::size_t i = 0; i < x.size(); ++i) {
      xs.push_back(view(x[i].begin, {x[i].end - x[i].begin}));
      outs.push_back(view(out[i].begin, {out[i].end - out[i].begin}));
    }
    ASSERT_EQ(refusal(xs, outs).has_value(), shares) << accepted + refused;
    ++(shares ? refused : accepted);
  }
}

// The same for an output against an input, which may lie over itself.
TEST_F(Overlap, RandomInputsAsABruteForceSearchSays) {
  constexpr unsigned kSeed = 12;
  SCOPED_TRACE("seed " + std::to_string(kSeed));
  std::mt19937 random(kSeed);
  int accepted = 0, refused = 0;
  while (accepted + refused < 10000) {
    const auto draw = [&](int below) {
      return static_cast<std::int64_t>(random() % static_cast<unsigned>(below));
    };
    const Shape shape{1 + draw(4), 1 + draw(4)};
    const Shape out_strides{shape[1] + draw(6), 1}, x_strides{draw(9), draw(5)};
    const std::int64_t x_at = draw(30), out_at = draw(30);
    const View x = view(x_at, shape, x_strides), out = view(out_at, shape, out_strides);
    const Places x_places(x_at, x), out_places(out_at, out);
    bool same = x_at == out_at;
    for (int i = 0; i < 2; ++i) same &= shape[i] == 1 || x_strides[i] == out_strides[i];
    const auto said = refusal({x}, {out});
    ASSERT_EQ(said.has_value(), !same && out_places.meets(x_places)) << x_at << " " << out_at;
    ++(said ? refused : accepted);
  }
  EXPECT_GT(accepted, 1000);
  EXPECT_GT(refused, 1000);
}

}  // namespace
}  // namespace twinops::test
