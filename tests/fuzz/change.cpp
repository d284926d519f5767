// Changes to a case: lengths, types, strides, places, attributes, arguments. Most leave a call that
// is right, so that kernels run; the others must be refused.
#include <algorithm>
#include <limits>

#include "tests/fuzz/call.hpp"

namespace fuzz {
namespace {

using proof::Argument;
using proof::Problem;
using proof::TensorSpec;

constexpr std::int64_t kSizes[] = {0,   1,    2,    3,    4,    5,    7,    8,    9,    15,  16,
                                   17,  31,   32,   33,   34,   48,   63,   64,   65,   66,  96,
                                   127, 128,  129,  130,  192,  255,  256,  257,  511,  512, 513,
                                   777, 1023, 1024, 1025, 1100, 2047, 2048, 2049, 4097, 6000};
constexpr DLDataType kTypes[] = {
    {kDLFloat, 16, 1}, {kDLBfloat, 16, 1}, {kDLFloat, 32, 1}, {kDLFloat, 64, 1}, {6, 8, 1},
    {kDLUInt, 8, 1},   {kDLInt, 32, 1},    {kDLUInt, 32, 1},  {kDLInt, 64, 1},   {kDLUInt, 64, 1}};
constexpr std::int64_t kInts[] = {0,
                                  1,
                                  2,
                                  3,
                                  4,
                                  5,
                                  7,
                                  8,
                                  16,
                                  63,
                                  64,
                                  100,
                                  1000,
                                  -1,
                                  -2,
                                  -4,
                                  1 << 20,
                                  std::numeric_limits<std::int32_t>::max(),
                                  std::numeric_limits<std::int64_t>::max(),
                                  std::numeric_limits<std::int64_t>::min(),
                                  std::int64_t{1} << 62};
const double kReals[] = {0,
                         1,
                         0.5,
                         0.1,
                         0.999,
                         3,
                         1.5,
                         1e-300,
                         1e300,
                         0x1p-24,
                         -1,
                         -0.0,
                         2,
                         16,
                         1e-10,
                         0x1p31,
                         0x1p-149,
                         std::numeric_limits<double>::infinity(),
                         -std::numeric_limits<double>::infinity(),
                         std::numeric_limits<double>::quiet_NaN()};
const char* const kWords[] = {"",
                              "0",
                              "1",
                              "0,1",
                              "64",
                              "3,4",
                              "-1",
                              "a",
                              "99999999999999999999",
                              ",",
                              "1,",
                              "2,2,2",
                              "4,17,40",
                              "0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0"};

std::int64_t elements_of(const TensorSpec& t) {
  std::int64_t n = 1;
  for (const std::int64_t size : t.shape)
    if (__builtin_mul_overflow(n, size, &n)) return std::numeric_limits<std::int64_t>::max();
  return n;
}
std::vector<std::int64_t> row_major(const std::vector<std::int64_t>& shape) {
  std::vector<std::int64_t> strides(shape.size(), 1);
  for (std::size_t i = shape.size(); i-- > 1;)
    strides[i - 1] = strides[i] * std::max<std::int64_t>(shape[i], 1);
  return strides;
}

std::vector<TensorSpec*> tensors_of(Problem& problem) {
  std::vector<TensorSpec*> all;
  for (Argument& a : problem.arguments)
    for (TensorSpec& t : a.tensors) all.push_back(&t);
  return all;
}

// One length wherever it stands, and what a bit mask of the tensor is then.
void change_length(Problem& problem, Bytes& bytes) {
  const std::vector<TensorSpec*> all = tensors_of(problem);
  if (all.empty()) return;
  const TensorSpec& chosen = *all[bytes.below(all.size())];
  if (chosen.shape.empty()) return;
  const std::int64_t from = chosen.shape[bytes.below(chosen.shape.size())], to = bytes.of(kSizes);
  std::vector<std::pair<TensorSpec*, TensorSpec*>> bit_masks;
  for (TensorSpec* mask : all) {
    if (mask->type.code != kDLUInt || mask->type.bits != 32 || mask->shape.size() != 1) continue;
    for (TensorSpec* of : all)
      if (mask != of && mask->shape[0] == (elements_of(*of) + 31) / 32)
        bit_masks.emplace_back(mask, of);
  }
  for (TensorSpec* t : all) {
    bool changed = false;
    for (std::int64_t& size : t->shape)
      if (size == from) size = to, changed = true;
    if (changed && !t->strides.empty()) t->strides = row_major(t->shape);
  }
  for (const auto& [mask, of] : bit_masks) mask->shape[0] = (elements_of(*of) + 31) / 32;
}

void change_type(Problem& problem, Bytes& bytes) {
  const std::vector<TensorSpec*> all = tensors_of(problem);
  if (all.empty()) return;
  const DLDataType from = all[bytes.below(all.size())]->type, to = bytes.of(kTypes);
  const bool one = bytes.below(4) == 3;
  for (TensorSpec* t : all) {
    if (t->type.code != from.code || t->type.bits != from.bits) continue;
    t->type = to;
    if (one) return;
  }
}

void change_strides(Problem& problem, Bytes& bytes) {
  const std::vector<TensorSpec*> all = tensors_of(problem);
  if (all.empty()) return;
  TensorSpec& t = *all[bytes.below(all.size())];
  t.strides = row_major(t.shape);
  if (t.shape.empty()) return;
  const std::size_t axis = bytes.below(t.shape.size());
  switch (bytes.below(6)) {
    case 0:
      t.strides.clear();
      return;
    case 1:  // gaps
      for (std::size_t i = 0; i <= axis; ++i) t.strides[i] *= 2 + static_cast<std::int64_t>(axis);
      return;
    case 2:
      t.strides[axis] = -t.strides[axis];
      return;
    case 3:  // one element again and again
      t.strides[axis] = 0;
      return;
    case 4: {  // in another order
      std::vector<std::size_t> order(t.shape.size());
      for (std::size_t i = 0; i < order.size(); ++i) order[i] = (i + axis) % order.size();
      if (bytes.below(2) == 1) std::reverse(order.begin(), order.end());
      std::int64_t step = 1;
      for (const std::size_t i : order) {
        t.strides[i] = step;
        step *= std::max<std::int64_t>(t.shape[i], 1);
      }
      return;
    }
    default:
      t.strides[axis] = bytes.of(kInts);
  }
}

void change_attribute(Problem& problem, Bytes& bytes) {
  const twinops_operator_info* const op = twinops_find_operator(problem.op.c_str());
  if (op == nullptr || op->attribute_count == 0) return;
  const twinops_attribute_info& info = *op->attributes[bytes.below(op->attribute_count)];
  const std::string name = info.default_value.name;
  std::erase_if(problem.attributes, [&](const proof::Attribute& a) { return a.name == name; });
  switch (info.default_value.kind) {
    case TWINOPS_BOOL:
      problem.attribute(name, bytes.below(2) == 1);
      return;
    case TWINOPS_INT:
      problem.attribute(name, bytes.of(kInts));
      return;
    case TWINOPS_FLOAT:
      problem.attribute(name, bytes.of(kReals));
      return;
    default:
      break;
  }
  std::vector<std::string> words(std::begin(kWords), std::end(kWords));
  for (std::string rest = info.choices == nullptr ? "" : info.choices; !rest.empty();) {
    const std::size_t bar = rest.find('|');
    for (int often = 0; often < 8; ++often) words.push_back(rest.substr(0, bar));
    rest = bar == std::string::npos ? "" : rest.substr(bar + 1);
  }
  problem.attribute(name, words[bytes.below(words.size())].c_str());
}

void change_arguments(Problem& problem, Bytes& bytes) {
  if (problem.arguments.empty()) return;
  const std::size_t i = bytes.below(problem.arguments.size());
  Argument& a = problem.arguments[i];
  const std::size_t kind = bytes.below(6);
  if (kind == 0) {
    problem.arguments.erase(problem.arguments.begin() + static_cast<std::ptrdiff_t>(i));
  } else if (kind == 1) {
    std::swap(a, problem.arguments[bytes.below(problem.arguments.size())]);
  } else if (kind == 2 && !a.tensors.empty()) {
    a.tensors.pop_back();
  } else if (kind == 3 && !a.tensors.empty() && a.tensors.size() < 200) {
    for (Argument& other : problem.arguments)  // of every list, so that they stay of one length
      if (other.tensors.size() == a.tensors.size() && a.tensors.size() > 1 && &other != &a)
        other.tensors.push_back(other.tensors.back());
    a.tensors.push_back(a.tensors.back());
  } else if (kind == 4) {
    const twinops_operator_info* const op = twinops_find_operator(problem.op.c_str());
    const twinops_argument_info& info = *op->arguments[bytes.below(op->argument_count)];
    const TensorSpec like = a.tensors.empty() ? TensorSpec{kTypes[2], {}} : a.tensors.front();
    TensorSpec t{info.types[bytes.below(info.type_count)], like.shape};
    if (bytes.below(2) == 1) t.shape = {};
    if (info.is_output)
      problem.output(info.name, {t});
    else
      problem.input(info.name, {t}, {});
  } else if (kind == 5 && !a.tensors.empty()) {
    std::swap(a.tensors[bytes.below(a.tensors.size())], a.tensors[bytes.below(a.tensors.size())]);
  }
}

// An output over an input, or apart again; and where memory begins.
void change_place(Problem& problem, Bytes& bytes) {
  const std::vector<TensorSpec*> all = tensors_of(problem);
  if (all.empty()) return;
  TensorSpec& t = *all[bytes.below(all.size())];
  switch (bytes.below(3)) {
    case 0:
      t.over.reset();
      return;
    case 1:
      t.over = problem.arguments[bytes.below(problem.arguments.size())].name;
      return;
    default:
      t.offset = static_cast<std::int64_t>(bytes.below(40));
  }
}

}  // namespace

void change(Problem& problem, Bytes& bytes) {
  for (std::size_t left = bytes.below(12); left > 0 && !bytes.empty(); --left) {
    switch (bytes.below(8)) {
      case 0:
      case 1:
        change_length(problem, bytes);
        break;
      case 2:
        change_type(problem, bytes);
        break;
      case 3:
        change_strides(problem, bytes);
        break;
      case 4:
      case 5:
        change_attribute(problem, bytes);
        break;
      case 6:
        change_arguments(problem, bytes);
        break;
      default:
        change_place(problem, bytes);
    }
  }
}

}  // namespace fuzz
