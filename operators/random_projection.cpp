#include "operators/random_projection.hpp"

#include "operators/call.hpp"
#include "operators/describe.hpp"
#include "operators/overlap.hpp"

namespace twinops {
namespace {

using Direction = ArgumentInfo::Direction;
using Form = ArgumentInfo::Form;

constexpr std::array kSequenceArguments{kRandomArguments[0], kRandomArguments[1]};

constexpr auto kForwardArguments =
    join(std::array<ArgumentInfo, 2>{{
             {"x", Direction::input, Form::tensor, true, kFloatingTypes,
              "Of shape [..., columns], any strides."},
             {"y", Direction::output, Form::tensor, true, kFloatingTypes,
              "Of shape [..., k] and x's type, any strides."},
         }},
         kSequenceArguments);
constexpr auto kBackwardArguments =
    join(std::array<ArgumentInfo, 2>{{
             {"dy", Direction::input, Form::tensor, true, kFloatingTypes,
              "The gradient of y, of shape [..., k], any strides."},
             {"dx", Direction::output, Form::tensor, true, kFloatingTypes,
              "The gradient of x, of shape [..., columns] and dy's type, any strides."},
         }},
         kSequenceArguments);

constexpr auto kAttributes =
    join(std::array<AttributeInfo, 1>{{{"s", AttributeValue::of(3.0), nullptr,
                                        "One entry of R in s is not 0; from 1 to 2^31, rounded to "
                                        "float."}}},
         kSequenceAttributes);

float read_sparsity(const Call& call) {
  const double s = call.real("s");
  if (!(s >= 1 && s <= kMostSparsity))
    call.refuse(std::string(call.info().name) + ": s", "expected 1 to 2^31; got " + describe(s));
  return static_cast<float>(s);
}

void expect_rows_of(const Call& call, const char* x_name, const char* y_name) {
  const Tensor &x = call.tensor(x_name), &y = call.tensor(y_name);
  if (x.rank == 0) call.refuse(call.where(x_name), "expected a dimension or more; got a scalar");
  if (y.type != x.type)
    call.refuse(call.where(y_name), std::string("expected the type of ") + x_name + ", " +
                                        name(x.type) + "; got " + name(y.type));
  bool same = y.rank == x.rank;
  for (int i = 0; same && i + 1 < x.rank; ++i) same = y.shape[i] == x.shape[i];
  if (!same)
    call.refuse(call.where(y_name), std::string("expected the shape of ") + x_name + ", " +
                                        describe_shape(x) + ", but for the last dimension; got " +
                                        describe_shape(y));
}

Layout<2> read_outer(const Call& call, const char* x_name, const Tensor& x, const Tensor& y) {
  const Strides x_strides = strides_of(x), y_strides = strides_of(y);
  Layout<2> outer;
  if (!collapse<2>(outer, x.rank - 1, x.shape, {y_strides.data(), x_strides.data()}))
    call.refuse(call.where(x_name),
                "its strides need more than " + std::to_string(kMaxAxes) + " axes");
  return outer;
}

Projection read_projection(const Call& call, const char* x_name, const char* y_name,
                           bool backward) {
  expect_rows_of(call, x_name, y_name);
  const Tensor &x = call.tensor(x_name), &y = call.tensor(y_name);
  const int last = x.rank - 1;
  Projection p{};
  p.type = x.type;
  p.x = x.data;
  p.y = y.data;
  p.terms = x.shape[last];
  p.outputs = y.shape[last];
  p.backward = backward;
  std::int64_t entries = 0;
  if (__builtin_mul_overflow(p.terms, p.outputs, &entries))
    call.refuse(call.where(x_name), "the matrix's indexes do not fit 63 bits");
  p.random = read_sequence(call, entries);
  const float s = read_sparsity(call);
  const std::int64_t k = backward ? p.terms : p.outputs;
  p.words = projection_words(s);
  if (k != 0)
    p.scale = p.type == Type::float64 ? projection_scale<double>(s, k)
                                      : static_cast<double>(projection_scale<float>(s, k));
  refuse_overlaps(call, {});
  if (y.elements == 0) return p;
  p.rows = y.elements / p.outputs;
  p.x_step = x.stride(last);
  p.y_step = y.stride(last);
  p.outer = read_outer(call, x_name, x, y);
  return p;
}

}  // namespace

const OperatorInfo RandomProjection::info{
    "random_projection",
    "y = sqrt(s / k) x R: the rows of x in k dimensions, their distances kept; R is sparse and "
    "drawn from a seed.",
    kForwardArguments, kAttributes};
const OperatorInfo RandomProjectionGrad::info{
    "random_projection_grad", "The gradient of random_projection: dx = sqrt(s / k) dy R^T.",
    kBackwardArguments, kAttributes};

Projection RandomProjection::parse(const Call& call) {
  return read_projection(call, "x", "y", false);
}
Projection RandomProjectionGrad::parse(const Call& call) {
  return read_projection(call, "dy", "dx", true);
}

}  // namespace twinops
