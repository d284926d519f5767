#include "registry/info.hpp"

#include <deque>
#include <vector>

#include "operators/made_once.hpp"
#include "registry/operators.hpp"
#include "registry/rows.hpp"

#if defined(TWINOPS_HAS_CUDA)
#include "kernels_cuda/runtime/device.hpp"
#endif

namespace twinops {
namespace {

// An operator's table and all that it points to.
class OperatorTable {
 public:
  explicit OperatorTable(const OperatorInfo& info) {
    for (const ArgumentInfo& a : info.arguments) add(a);
    for (const AttributeInfo& a : info.attributes) add(a);
    info_ = {sizeof(info_),
             info.name,
             info.doc,
             argument_list_.data(),
             argument_list_.size(),
             attribute_list_.data(),
             attribute_list_.size()};
  }
  OperatorTable(const OperatorTable&) = delete;
  const twinops_operator_info* get() const { return &info_; }

 private:
  void add(const ArgumentInfo& a) {
    auto& types = types_.emplace_back();
    for (int i = 0; i < kTypeCount; ++i)
      if (a.types.has(static_cast<Type>(i))) types.push_back(to_dlpack(static_cast<Type>(i)));
    arguments_.push_back({sizeof(twinops_argument_info),
                          a.direction == ArgumentInfo::Direction::output,
                          a.form == ArgumentInfo::Form::list, a.required, a.name, a.doc,
                          types.data(), types.size()});
    argument_list_.push_back(&arguments_.back());
  }
  void add(const AttributeInfo& a) {
    const AttributeValue& v = a.default_value;
    attributes_.push_back({sizeof(twinops_attribute_info),
                           a.doc,
                           a.choices,
                           {sizeof(twinops_attribute), static_cast<std::int32_t>(v.kind), a.name,
                            v.integer, v.real, v.text}});
    attribute_list_.push_back(&attributes_.back());
  }

  twinops_operator_info info_;
  std::deque<std::vector<DLDataType>> types_;
  std::deque<twinops_argument_info> arguments_;
  std::deque<twinops_attribute_info> attributes_;
  std::vector<const twinops_argument_info*> argument_list_;
  std::vector<const twinops_attribute_info*> attribute_list_;
};

struct RowText {
  std::string why_not;
  twinops_row row;
};

template <class Table>
auto at(const Table& table, std::size_t index) {
  return index < table.size() ? &table[index] : nullptr;
}

}  // namespace

const twinops_operator_info* operator_info(std::size_t index) {
  static constinit MadeOnce<std::deque<OperatorTable>> kept;
  const OperatorTable* table = at(kept.get([] {
    std::deque<OperatorTable> made;
    for (const Operator& op : operators()) made.emplace_back(*op.info);
    return made;
  }),
                                  index);
  return table == nullptr ? nullptr : table->get();
}

const twinops_row* row_info(std::size_t index) {
  static constinit MadeOnce<std::deque<RowText>> kept;
  const RowText* text = at(kept.get([] {
    std::deque<RowText> made;
    for (std::size_t i = 0; i < rows().size(); ++i) {
      RowText& text = made.emplace_back(RowText{rows()[i].why_not(), {}});
      text.row = {sizeof(twinops_row), text.why_not.empty(), row_name(i), text.why_not.c_str()};
    }
    return made;
  }),
                           index);
  return text == nullptr ? nullptr : &text->row;
}

#if defined(TWINOPS_HAS_CUDA)
std::size_t device_count() { return cuda_probe().devices.size(); }

const twinops_device* device_info(std::size_t index) {
  static constinit MadeOnce<std::vector<twinops_device>> kept;
  return at(kept.get([] {
    std::vector<twinops_device> made;
    for (const CudaDevice& d : cuda_probe().devices) {
      const CudaCode& code = cuda_code(static_cast<int>(made.size()));
      made.push_back({sizeof(twinops_device), code.usable(), d.name.c_str(), d.row.c_str(),
                      code.reason.c_str()});
    }
    return made;
  }),
            index);
}
#else
std::size_t device_count() { return 0; }
const twinops_device* device_info(std::size_t) { return nullptr; }
#endif

}  // namespace twinops
