#include "hosts/paddle/autograd.hpp"

#include <paddle/common/ddim.h>
#include <paddle/utils/optional.h>

#include <memory>
#include <numeric>
#include <utility>

// What Paddle's library has and its package declares nowhere: declarations only, because nothing
// here depends on how an object is laid out. In another Paddle a name that is missing is refused
// when the plugin is loaded.
// NOLINTBEGIN: the names are Paddle's
namespace egr {
class AutogradMeta;
class GradNodeBase;
class EagerUtils {
 public:
  static std::shared_ptr<GradNodeBase> grad_node(const paddle::Tensor&);
  static std::pair<size_t, size_t> OutRankInfo(const paddle::Tensor&);  // slot, place in the slot
  static AutogradMeta* autograd_meta(paddle::Tensor*);
  static void SetHistory(AutogradMeta*, const std::shared_ptr<GradNodeBase>&);
  static void SetOutRankWithSlot(std::vector<AutogradMeta*>*, size_t slot);
};
namespace egr_utils_api {
int64_t RegisterGradientHookForTensor(const paddle::Tensor&,
                                      const std::function<paddle::Tensor(const paddle::Tensor&)>&);
}
}  // namespace egr
namespace paddle::imperative {
enum class AmpLevel { O0 = 0 };
class AmpAttrs {
 public:
  AmpLevel GetAmpLevel() const;
  void SetAmpLevel(AmpLevel);
};
const std::shared_ptr<AmpAttrs>& GetCurrentAmpAttrs();
}  // namespace paddle::imperative
paddle::Tensor transpose_ad_func(const paddle::Tensor&, std::vector<int>,
                                 paddle::optional<paddle::Tensor*>);
paddle::Tensor stack_ad_func(const std::vector<paddle::Tensor>&, int axis,
                             paddle::optional<paddle::Tensor*>);
// NOLINTEND

namespace twinops::paddle_host {
namespace {

using ::paddle::Tensor;

// paddle.amp.auto_cast converts no tensor while this lives.
class WithoutAutoCast {
 public:
  WithoutAutoCast() : settings_(*::paddle::imperative::GetCurrentAmpAttrs()) {
    level_ = settings_.GetAmpLevel();
    if (level_ != Level::O0) settings_.SetAmpLevel(Level::O0);
  }
  WithoutAutoCast(const WithoutAutoCast&) = delete;
  ~WithoutAutoCast() {
    if (level_ != Level::O0) settings_.SetAmpLevel(level_);
  }

 private:
  using Level = ::paddle::imperative::AmpLevel;
  ::paddle::imperative::AmpAttrs& settings_;
  Level level_;
};

// The same tensor, behind a new node: no axis is moved, and nothing is copied.
Tensor same_in_a_node(const Tensor& tensor) {
  std::vector<int> axes(tensor.dims().size());
  std::iota(axes.begin(), axes.end(), 0);
  return transpose_ad_func(tensor, std::move(axes), ::paddle::none);
}

}  // namespace

Tensor node(const Tensor& tensor, const Hook& hook) {
  const WithoutAutoCast guard;
  Tensor result = same_in_a_node(tensor);
  egr::egr_utils_api::RegisterGradientHookForTensor(result, hook);
  return result;
}

Tensor behind(const Tensor& tensor, const Tensor& value, const Hook& gradient) {
  const WithoutAutoCast guard;
  const Tensor within = node(tensor, gradient);
  return link(same_in_a_node(link(within, value)), value);
}

Tensor stack(const std::vector<Tensor>& tensors) {
  const WithoutAutoCast guard;
  return stack_ad_func(tensors, 0, ::paddle::none);
}

Tensor link(const Tensor& tensor, const Tensor& value) {
  Tensor linked;
  linked.set_impl(value.impl());
  linked.set_autograd_meta(const_cast<Tensor&>(tensor).mutable_autograd_meta());
  return linked;
}

Tensor place_of(const Tensor& tensor) {
  Tensor place;
  egr::AutogradMeta* meta = egr::EagerUtils::autograd_meta(&place);
  egr::EagerUtils::SetHistory(meta, egr::EagerUtils::grad_node(tensor));
  const auto [slot, rank] = egr::EagerUtils::OutRankInfo(tensor);
  std::vector<egr::AutogradMeta*> ranks(rank + 1, meta);  // numbered in turn: the last one holds
  egr::EagerUtils::SetOutRankWithSlot(&ranks, slot);
  return place;
}

}  // namespace twinops::paddle_host
