// What takes a search to tell of memory that is shared: views along many axes, some too entangled
// to tell, which are refused; and small random views and lists, held to a brute-force search.
#include <sys/mman.h>

#include <random>
#include <set>

#include "tests/support/overlap.hpp"

namespace twinops::test {
namespace {

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

// Sixteen strides of which any sum may meet any sum of sixteen others, and one of each does. None
// of it is touched where all is refused.
TEST_F(Overlap, TwoTensorsTooEntangledToTell) {
  constexpr int kTrials = 8;
  constexpr std::size_t kMany = 16, kHalf = std::size_t{1} << 30;  // bytes
  void* const memory = mmap(nullptr, 2 * kHalf, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  ASSERT_NE(memory, MAP_FAILED);
  float* const middle = static_cast<float*>(memory) + kHalf / sizeof(float);
  const Shape shape(kMany, 2);
  std::mt19937 random(20261126);
  int undecided = 0;
  for (int trial = 0; trial < kTrials; ++trial) {
    Shape x_strides(kMany), out_strides(kMany);
    std::int64_t step = 1025, x_place = 0, out_place = 0;
    for (std::size_t i = kMany; i-- > 0; step = 2 * step + 1 + random() % 3) out_strides[i] = step;
    for (std::int64_t& stride : x_strides) stride = (1 << 14) + random() % 64;
    for (std::size_t i = 0; i < kMany; ++i) {
      x_place += x_strides[i] * (random() % 2);
      out_place += out_strides[i] * (random() % 2);
    }
    const View out(middle + x_place - out_place, kF32, shape, out_strides);
    const auto said = refusal({View(middle, kF32, shape, x_strides)}, {out}).value_or("accepted");
    if (said.ends_with("too entangled to tell"))
      ++undecided;
    else
      EXPECT_NE(said.find("shares memory"), said.npos) << said << ", trial " << trial;
  }
  munmap(memory, 2 * kHalf);
  EXPECT_GT(undecided, 0) << "nothing here was too entangled";
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
