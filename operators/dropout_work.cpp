#include "operators/dropout_work.hpp"

#include "operators/call.hpp"
#include "operators/describe.hpp"
#include "operators/overlap.hpp"

namespace twinops {
namespace {

void expect_like(const Call& call, const char* name, const Tensor& t, const char* x_name,
                 const Tensor& x) {
  if (t.type != x.type)
    call.refuse(call.where(name), std::string("expected the type of ") + x_name + ", " +
                                      twinops::name(x.type) + "; got " + twinops::name(t.type));
  if (!same_shape(t, x))
    call.refuse(call.where(name), std::string("expected the shape of ") + x_name + ", " +
                                      describe_shape(x) + "; got " + describe_shape(t));
}

// The bias and its strides along x's axes, to whose shape it broadcasts.
const Tensor* read_bias(const Call& call, const DropoutNames& names, const Tensor& x,
                        Strides& strides) {
  strides.assign(x.rank, 0);
  const Tensor* bias = names.bias == nullptr ? nullptr : call.optional_tensor(names.bias);
  if (bias == nullptr) return nullptr;
  if (bias->type != x.type) expect_like(call, names.bias, *bias, names.x, x);
  for (int i = 0; i < bias->rank; ++i) {
    const int axis = x.rank - bias->rank + i;
    if (bias->shape[i] == 1) continue;
    if (axis < 0 || bias->shape[i] != x.shape[axis])
      call.refuse(call.where(names.bias), std::string("expected a shape that broadcasts to ") +
                                              names.x + "'s, " + describe_shape(x) + "; got " +
                                              describe_shape(*bias));
    strides[axis] = bias->stride(i);
  }
  return bias;
}

// Whether element i's bias is bias[i mod bias.elements]: its dimensions are the last ones of x's,
// behind dimensions of 1.
bool repeats(const Tensor& bias, const Tensor& x) {
  std::int64_t elements = 1;
  for (int i = 1; i <= bias.rank && elements < bias.elements; ++i) {
    if (bias.shape[bias.rank - i] != x.shape[x.rank - i]) return false;
    elements *= bias.shape[bias.rank - i];
  }
  return true;
}

void read_mask(const Call& call, const DropoutNames& names, const Tensor& x, DropoutWork& work) {
  const Tensor* mask = call.optional_tensor(names.mask);
  if (mask == nullptr) return;
  const std::string got = "; got " + std::string(name(mask->type)) + describe_shape(*mask);
  const bool bits = mask->type == Type::uint32;
  if (bits && (mask->rank != 1 || mask->elements != (x.elements + 31) / 32))
    call.refuse(call.where(names.mask), "expected uint32[" +
                                            std::to_string((x.elements + 31) / 32) +
                                            "], a bit for each element of " + names.x + got);
  if (!bits && !same_shape(*mask, x))
    call.refuse(call.where(names.mask), std::string("expected a byte for each element of ") +
                                            names.x + ", shape " + describe_shape(x) + got);
  if (!mask->contiguous) call.refuse(call.where(names.mask), "expected a mask without gaps");
  if (names.mask_is_input) {
    work.mask_in = mask->data;
    work.source = bits ? DropoutWork::Source::bits : DropoutWork::Source::bytes;
  } else {
    work.mask_out = mask->data;
    work.sink = bits ? DropoutWork::Sink::bits : DropoutWork::Sink::bytes;
  }
}

// The threshold and the scale, of compute type F. drops_all: no element is kept, and none scaled.
template <class F>
void read_keep(DropoutWork& work, double p, bool drops_all, bool upscale, bool training) {
  const RandomLayout layout = work.random.layout;
  const F keep = keep_probability<F>(layout, p);
  if (work.source == DropoutWork::Source::draw)
    work.keep = layout == RandomLayout::torch ? words_below(keep)
                                              : keep_range(layout, static_cast<float>(p));
  if (training)
    work.scale = upscale && !drops_all ? keep_scale<F>(layout, p) : F(1);
  else
    work.scale = upscale ? F(1) : keep;
}

// Which elements are kept, and the scale.
void read_probability(const Call& call, DropoutWork& work) {
  const double asked = call.real("p");
  if (!(asked >= 0 && asked <= 1))
    call.refuse(std::string(call.info().name) + ": p",
                "expected a probability in [0, 1]; got " + describe(asked));
  using Source = DropoutWork::Source;
  const double p = work.random.layout == RandomLayout::torch ? asked : static_cast<float>(asked);
  const bool training = call.flag("training"), upscale = call.text("mode") == "upscale_in_train";
  if (!training)
    work.source = Source::all;
  else if (p == 1)
    work.source = Source::none;
  else if (work.source == Source::all && p != 0)  // no mask is given
    work.source = Source::draw;
  if (work.source == Source::draw) work.random_words = work.random.words;
  const bool drops_all = p == 1;
  if (work.type == Type::float64)
    read_keep<double>(work, asked, drops_all, upscale, training);
  else
    read_keep<float>(work, asked, drops_all, upscale, training);
}

}  // namespace

DropoutWork read_dropout(const Call& call, const DropoutNames& names) {
  const Tensor &x = call.tensor(names.x), &y = call.tensor(names.y);
  expect_like(call, names.y, y, names.x, x);
  const DropoutWork work = read_dropout_work(call, names, x, {y.data, strides_of(y), y.contiguous});
  const InPlace in_place[] = {{names.y, names.x}, {names.y, names.residual}};
  refuse_overlaps(call, std::span(in_place, names.residual == nullptr ? 1 : 2));
  return work;
}

DropoutWork read_dropout_work(const Call& call, const DropoutNames& names, const Tensor& x,
                              const DropoutTarget& y) {
  DrawStrides draws;
  Strides bias_strides;
  DropoutWork work{};
  const Tensor* bias = read_bias(call, names, x, bias_strides);
  const Tensor* residual =
      names.residual == nullptr ? nullptr : call.optional_tensor(names.residual);
  if (residual != nullptr) expect_like(call, names.residual, *residual, names.x, x);
  work.type = x.type;
  work.elements = x.elements;
  work.x = x.data;
  work.y = y.data;
  work.bias = bias != nullptr ? bias->data : nullptr;
  work.residual = residual != nullptr ? residual->data : nullptr;
  work.random = read_random(call, x, draws);
  read_mask(call, names, x, work);
  read_probability(call, work);
  if (x.elements == 0) return work;

  const auto gapless = [](const Tensor* t) { return t == nullptr || t->contiguous; };
  work.flat = x.contiguous && y.contiguous && gapless(bias) && gapless(residual) &&
              work.random.consecutive && (bias == nullptr || repeats(*bias, x));
  work.bias_period = bias != nullptr ? bias->elements : x.elements;
  const auto logical = row_major(x), x_strides = strides_of(x);
  const auto residual_strides = residual != nullptr ? strides_of(*residual) : Strides(x.rank, 0);
  if (!collapse<DropoutWork::kOperands>(
          work.layout, x.rank, x.shape,
          {logical.data(), y.strides.data(), x_strides.data(), bias_strides.data(),
           residual_strides.data(), draws.draw.data(), draws.row.data()}))
    call.refuse(call.where(names.x),
                "its strides need more than " + std::to_string(kMaxAxes) + " axes");
  return work;
}

}  // namespace twinops
