// A random word exactly at the threshold, in every kernel that compares words: the probability (or
// the sparsity) is chosen so that words which occur lie on both sides of it, one step apart. Only
// there does `<` differ from `<=`; of random words one in 2^32 would show it.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>

#include "numerics/dropout.hpp"
#include "numerics/projection.hpp"
#include "tests/support/dropout_row.hpp"
#include "tools/proof/trial.hpp"
#include "tools/proof/values.hpp"

namespace twinops::test {
namespace {

using proof::Outcome;
using proof::Problem;
using proof::TensorSpec;
using proof::Trial;

constexpr std::int64_t kRows = 64, kColumns = 67, kElements = kRows * kColumns;
constexpr std::int64_t kSeed = 20261128;

constexpr struct {
  const char* name;
  RandomLayout layout;
} kLayouts[] = {{"contiguous", RandomLayout::contiguous},
                {"strided", RandomLayout::strided},
                {"triton", RandomLayout::triton},
                {"torch", RandomLayout::torch}};
constexpr std::uint64_t kPeriod = 256;  // a block of layout torch
constexpr std::uint8_t kVector = 4;     // that of layout torch in float32

std::uint32_t word_at(RandomLayout layout, std::int64_t element) {
  const Sequence sequence{static_cast<std::uint64_t>(kSeed), 0, 0};
  return word_of({layout, kVector, kPeriod}, sequence, static_cast<std::uint64_t>(element));
}

// An element whose word is the last on one side of a threshold, and the attribute that puts the
// threshold there.
struct Edge {
  double attribute;
  std::int64_t at;
  std::string kind;
};

// At most three of each kind. kinds(attribute, word): what the word is there, or "".
template <class Kinds>
std::vector<Edge> take_three(const std::vector<float>& attributes, std::uint32_t word,
                             std::int64_t at, std::map<std::string, int>& count, Kinds&& kinds) {
  std::vector<Edge> found;
  for (const float attribute : attributes) {
    const std::string kind = kinds(attribute, word);
    if (!kind.empty() && count[kind]++ < 3) found.push_back({attribute, at, kind});
  }
  return found;
}

std::vector<Edge> dropout_edges(RandomLayout layout) {
  std::vector<Edge> edges;
  std::map<std::string, int> count;
  for (std::int64_t e = 0; e < kElements; ++e) {
    const std::uint32_t word = word_at(layout, e);
    std::vector<float> near;
    for (const std::uint32_t w : {word - 1, word, word + 1})
      near.push_back(layout == RandomLayout::triton ? triton_uniform(w) : 1.0f - curand_uniform(w));
    std::erase_if(near, [](float p) { return !(p > 0 && p < 1); });
    const auto more = take_three(near, word, e, count, [&](float p, std::uint32_t w) {
      const KeepRange keep = keep_range(layout, p);
      const std::uint32_t from_first = w - keep.first;
      return from_first == keep.count       ? "the first word above"
             : from_first == keep.count - 1 ? "the last word below"
             : from_first == 0              ? "the first word kept"
             : from_first == ~0u            ? "the last word before"
                                            : "";
    });
    edges.insert(edges.end(), more.begin(), more.end());
  }
  return edges;
}

std::vector<Edge> projection_edges() {
  std::vector<Edge> edges;
  std::map<std::string, int> count;
  for (std::int64_t e = 0; e < kElements; ++e) {
    const std::uint32_t word = word_at(RandomLayout::contiguous, e);
    std::vector<float> near;
    for (const std::uint32_t words : {word, word + 1, word / 2, word / 2 + 1})
      if (words != 0) near.push_back(static_cast<float>(0x1p31 / words));
    std::erase_if(near, [](float s) { return !(s >= 1 && s <= kMostSparsity); });
    const auto more = take_three(near, word, e, count, [](float s, std::uint32_t w) {
      const std::uint64_t words = projection_words(s);
      return w == words           ? "the first of -1"
             : w == words - 1     ? "the last of +1"
             : w == 2 * words     ? "the first of 0"
             : w == 2 * words - 1 ? "the last of -1"
                                  : "";
    });
    edges.insert(edges.end(), more.begin(), more.end());
  }
  return edges;
}

// Whether an element is kept, in words of 64 bits that do not wrap.
bool is_kept(RandomLayout layout, double p, std::int64_t element) {
  const KeepRange keep = keep_range(layout, static_cast<float>(p));
  const std::uint64_t word = word_at(layout, element), first = keep.first;
  return word >= first && word < first + keep.count;
}
int entry(double s, std::int64_t element) {
  const std::uint64_t word = word_at(RandomLayout::contiguous, element);
  const std::uint64_t words = projection_words(static_cast<float>(s));
  return word < words ? 1 : word < 2 * words ? -1 : 0;
}

// 1 at one element, else 0.
proof::Fill one_at(std::int64_t element) {
  return [element](const proof::Memory& memory) {
    proof::constant(0)(memory);
    proof::Memory one = memory;
    one.data = static_cast<char*>(memory.data) + element * (memory.type.bits / 8);
    one.elements = 1;
    proof::constant(1)(one);
  };
}
// The unit matrix of kRows x kRows, or of kColumns x kColumns.
proof::Fill unit(std::int64_t size) {
  return [size](const proof::Memory& memory) {
    proof::constant(0)(memory);
    for (std::int64_t i = 0; i < size; ++i) {
      proof::Memory one = memory;
      one.data = static_cast<char*>(memory.data) + i * (size + 1) * (memory.type.bits / 8);
      one.elements = 1;
      proof::constant(1)(one);
    }
  };
}

// One call of each operator that compares words with a threshold; a new one must come here.
Problem problem(const std::string& op, DLDataType type, const Edge& edge, const char* layout) {
  const TensorSpec t{type, {kRows, kColumns}};
  Problem p(op);
  if (op == "random_projection" || op == "random_projection_grad") {
    const bool forward = op == "random_projection";
    const std::int64_t from = forward ? kRows : kColumns;
    p.input(forward ? "x" : "dy", {{type, {from, from}}}, unit(from))
        .output(forward ? "y" : "dx", {{type, {from, kElements / from}}});
    return p.attribute("s", edge.attribute).attribute("seed", kSeed);
  }
  if (op == "dropout" || op == "bias_dropout_residual" || op == "softmax_dropout")
    p.input("x", {t}, proof::constant(1)).output("y", {t});
  else if (op == "dropout_grad" || op == "bias_dropout_residual_grad")
    p.input("dy", {t}, proof::constant(1)).output("dx", {t});
  else if (op == "softmax_dropout_grad")
    p.input("probabilities", {t}, proof::constant(0.25))
        .input("dy", {t}, one_at(edge.at))
        .output("dx", {t});
  else
    ADD_FAILURE() << op << " draws words, and this test does not know how it is called";
  return p.attribute("p", edge.attribute)
      .attribute("seed", kSeed)
      .attribute("layout", layout)
      .attribute("period", static_cast<std::int64_t>(kPeriod));
}

std::vector<std::string> operators_with(const char* attribute) {
  std::vector<std::string> names;
  for (std::size_t i = 0; i < twinops_operator_count(); ++i) {
    const twinops_operator_info& op = *twinops_operator_at(i);
    for (std::size_t a = 0; a < op.attribute_count; ++a)
      if (std::strcmp(op.attributes[a]->default_value.name, attribute) == 0)
        names.emplace_back(op.name);
  }
  return names;
}

std::vector<float> floats(const Trial& trial, const Outcome& outcome) {
  for (const Trial::Place& place : trial.places())
    if (place.argument->is_output) {
      std::vector<float> values((place.end - place.begin) / sizeof(float));
      std::memcpy(values.data(), outcome.block.data() + place.begin, place.end - place.begin);
      return values;
    }
  return {};
}

class ExactThreshold : public DropoutRow {
 protected:
  // Every type as the reference has it, and in float32 what `check` says.
  template <class Check>
  void run(const std::string& op, const Edge& edge, const char* layout, Check&& check) const {
    SCOPED_TRACE(op + ", " + layout + ", " + edge.kind + ", element " + std::to_string(edge.at) +
                 ", attribute " + std::to_string(edge.attribute));
    for (const DLDataType type : proof::kFloatingTypes) {
      const Trial trial(problem(op, type, edge, layout), 1);
      const Outcome actual = proof::run(trial, GetParam(), {.threads = 1});
      const auto difference =
          proof::first_difference(trial, proof::run(trial, "cpu/scalar"), actual);
      EXPECT_FALSE(difference) << twinops_type_name(type) << ": " << proof::describe(*difference);
      if (type.bits == 32) check(floats(trial, actual));
    }
  }
};
INSTANTIATE_TEST_SUITE_P(EveryRow, ExactThreshold, testing::ValuesIn(available_rows()), test_name);

TEST_P(ExactThreshold, OfDropout) {
  for (const auto& [layout, kind] : kLayouts) {
    const std::vector<Edge> edges = dropout_edges(kind);
    for (const char* needed : {"the first word above", "the last word below"})
      EXPECT_TRUE(std::ranges::any_of(edges, [&](const Edge& e) { return e.kind == needed; }))
          << layout << ": no word lies there";
    for (const std::string& op : operators_with("p"))
      for (const Edge& edge : edges)
        run(op, edge, layout, [&](const std::vector<float>& y) {
          const bool one = op == "softmax_dropout_grad";  // where nothing is kept, dx is zeros
          for (std::int64_t e = one ? edge.at : 0; e < (one ? edge.at + 1 : kElements); ++e)
            ASSERT_EQ(y[static_cast<std::size_t>(e)] != 0, is_kept(kind, edge.attribute, e)) << e;
        });
  }
}

TEST_P(ExactThreshold, OfProjections) {
  const std::vector<Edge> edges = projection_edges();
  for (const char* needed :
       {"the first of -1", "the last of +1", "the first of 0", "the last of -1"})
    EXPECT_TRUE(std::ranges::any_of(edges, [&](const Edge& e) { return e.kind == needed; }))
        << needed << ": no word lies there";
  for (const std::string& op : operators_with("s"))
    for (const Edge& edge : edges)
      run(op, edge, "contiguous", [&](const std::vector<float>& y) {
        const bool forward = op == "random_projection";
        for (std::int64_t e = 0; e < kElements; ++e) {
          const std::int64_t at = forward ? e : e % kColumns * kRows + e / kColumns;
          const float value = y[static_cast<std::size_t>(at)];
          ASSERT_EQ((value > 0) - (value < 0), entry(edge.attribute, e)) << e;
        }
      });
}

}  // namespace
}  // namespace twinops::test
