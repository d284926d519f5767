#include "operators/dropout_work.hpp"

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

// The bias of shape [columns] or of x's shape, and its strides along x's axes.
const Tensor* read_bias(const Call& call, const DropoutNames& names, const Tensor& x,
                        Strides& strides) {
  strides.assign(x.rank, 0);
  const Tensor* bias = names.bias == nullptr ? nullptr : call.optional_tensor(names.bias);
  if (bias == nullptr) return nullptr;
  if (bias->rank == 1 && x.rank > 1) {
    if (bias->type != x.type) expect_like(call, names.bias, *bias, names.x, x);
    if (bias->shape[0] != x.shape[x.rank - 1])
      call.refuse(call.where(names.bias), "expected [" + std::to_string(x.shape[x.rank - 1]) +
                                              "], the last dimension of " + names.x + ", or " +
                                              describe_shape(x) + "; got " + describe_shape(*bias));
    strides[x.rank - 1] = bias->stride(0);
  } else {
    expect_like(call, names.bias, *bias, names.x, x);
    strides = strides_of(*bias);
  }
  return bias;
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

template <class F>
double scale_of(float p, bool upscale, bool training) {
  if (training) return upscale && p < 1.0f ? keep_scale<F>(p) : F(1);
  return upscale ? F(1) : F(1.0f - p);
}

// Which elements are kept, and the scale.
void read_probability(const Call& call, DropoutWork& work) {
  const double asked = call.real("p");
  if (!(asked >= 0 && asked <= 1))
    call.refuse(std::string(call.info().name) + ": p",
                "expected a probability in [0, 1]; got " + describe(asked));
  using Source = DropoutWork::Source;
  const auto p = static_cast<float>(asked);
  const bool training = call.flag("training"), upscale = call.text("mode") == "upscale_in_train";
  if (!training)
    work.source = Source::all;
  else if (p == 1.0f)
    work.source = Source::none;
  else if (work.source == Source::all && p != 0.0f)  // no mask is given
    work.source = Source::draw;
  if (work.source == Source::draw) {
    work.keep = keep_range(work.random.layout, p);
    work.random_words = work.random.words;
  }
  work.scale = work.type == Type::float64 ? scale_of<double>(p, upscale, training)
                                          : scale_of<float>(p, upscale, training);
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
  work.flat =
      x.contiguous && y.contiguous && gapless(bias) && gapless(residual) && work.random.consecutive;
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
