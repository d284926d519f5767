#include "operators/random_fill.hpp"

#include "operators/call.hpp"
#include "operators/overlap.hpp"

namespace twinops {

RandomFill read_random_fill(const Call& call, const char* name) {
  const Tensor& out = call.tensor(name);
  DrawStrides draws;
  RandomFill fill{{out.data, out.elements, read_random(call, out, draws)}, false, {}};
  refuse_overlaps(call, {});
  if (out.elements == 0) return fill;
  fill.flat = out.contiguous && fill.random.consecutive;
  const Strides logical = row_major(out), strides = strides_of(out);
  if (!collapse<RandomFill::kOperands>(
          fill.layout, out.rank, out.shape,
          {logical.data(), strides.data(), draws.draw.data(), draws.row.data()}))
    call.refuse(call.where(name),
                "its strides need more than " + std::to_string(kMaxAxes) + " axes");
  return fill;
}

}  // namespace twinops
