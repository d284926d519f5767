#include "tests/fuzz/call.hpp"

#include <algorithm>
#include <cstring>
#include <map>

#include "numerics/philox.hpp"

namespace fuzz {
namespace {

using proof::Argument;
using proof::TensorSpec;

constexpr std::int64_t kMostElements = 1 << 14, kMostOfAll = 1 << 15;

// Lengths and reach of a view; false where it is too large for a room.
bool measure(View& view, std::int64_t& below) {
  const TensorSpec& t = view.spec;
  view.elements = 1;
  std::int64_t above = 0;
  below = 0;
  for (const std::int64_t size : t.shape) {
    if (size < 0 || __builtin_mul_overflow(view.elements, size, &view.elements)) return false;
  }
  if (view.elements > kMostElements) return false;
  above = view.elements - 1;
  if (!t.strides.empty()) {
    above = 0;
    for (std::size_t i = 0; i < t.shape.size(); ++i) {
      const __int128 reach = static_cast<__int128>(t.strides[i]) * (t.shape[i] - 1);
      if (reach > kMostElements * 8 || reach < -kMostElements * 8) {
        if (view.elements != 0) return false;
        continue;
      }
      (reach < 0 ? below : above) += static_cast<std::int64_t>(reach);
    }
  }
  if (view.elements == 0) below = 0, above = -1;
  view.bytes = static_cast<std::size_t>(above - below + 1) * view.element;
  return view.bytes <= GuardedMemory::kLarge / 2;
}

void fill(const View& view, const Argument& argument, std::size_t member, std::uint64_t seed,
          bool bits) {
  const auto count = view.bytes / view.element;
  if (!bits && argument.fill) {
    argument.fill({view.lowest, view.spec.type, static_cast<std::int64_t>(count), member, seed});
    return;
  }
  for (std::size_t i = 0; i < view.bytes; i += 16) {
    const auto block = twinops::philox_block(seed, 0, i);
    std::memcpy(view.lowest + i, block.w, std::min<std::size_t>(16, view.bytes - i));
  }
}

// Whether a view over the memory of another one stays where that one is.
bool lay_over(View& view, const View& other, std::int64_t below, std::int64_t offset) {
  std::byte* const origin = other.origin + offset * static_cast<std::int64_t>(view.element);
  std::byte* const lowest = origin + below * static_cast<std::int64_t>(view.element);
  if (lowest < other.lowest || lowest + view.bytes > other.lowest + other.bytes) return false;
  view.origin = origin;
  view.lowest = lowest;
  return true;
}

bool place(Call& call, Bytes& bytes, GuardedMemory& memory, DLDevice device) {
  memory.clear();
  std::size_t count = 0;
  for (const Argument& a : call.problem.arguments) count += a.tensors.size();
  call.pointers.resize(count);
  const std::uint64_t seed = bytes.byte();
  const bool bits = bytes.below(4) == 3;
  std::int64_t all = 0;
  std::map<std::string, std::vector<View*>> by_name;
  for (const bool over : {false, true}) {
    std::size_t number = 0;
    for (const Argument& a : call.problem.arguments)
      for (std::size_t m = 0; m < a.tensors.size(); ++m, ++number) {
        if (a.tensors[m].over.has_value() != over) continue;
        View& view = call.views.emplace_back();
        view.argument = a.name;
        view.is_output = a.is_output;
        view.spec = a.tensors[m];
        view.element = proof::size_of(view.spec.type);
        std::int64_t below = 0;
        if (view.element == 0 || !measure(view, below) || (all += view.elements) > kMostOfAll)
          return false;
        const std::vector<View*>& others = by_name[view.spec.over.value_or("")];
        const std::int64_t offset = bytes.below(8) == 7 ? bytes.byte() - 128 : 0;
        if (over && m < others.size() && lay_over(view, *others[m], below, offset)) {
        } else {
          const bool at_end = bytes.below(4) != 3;
          const auto lead = static_cast<std::size_t>(at_end ? 0 : view.spec.offset) * view.element;
          std::byte* const begin = memory.take(view.bytes + lead, view.element, at_end);
          if (begin == nullptr) return false;
          view.lowest = begin + lead;
          view.origin = view.lowest - below * static_cast<std::int64_t>(view.element);
          fill(view, a, m, seed * 1000 + call.views.size(), bits);
        }
        if (!over) by_name[a.name].push_back(&view);
        view.tensor = {view.origin,
                       device,
                       static_cast<int>(view.spec.shape.size()),
                       view.spec.type,
                       view.spec.shape.data(),
                       view.spec.strides.empty() ? nullptr : view.spec.strides.data(),
                       0};
        if (bytes.below(8) == 7) {  // the same by byte_offset
          view.tensor.data = view.origin - 64;
          view.tensor.byte_offset = 64;
        }
        call.pointers[number] = &view.tensor;
      }
  }
  return true;
}

void spoil(Call& call, Bytes& bytes) {
  if (bytes.below(16) != 15 || call.views.empty()) return;
  DLTensor& t = call.views[bytes.below(call.views.size())].tensor;
  twinops_argument* const a =
      call.arguments.empty() ? nullptr : &call.arguments[bytes.below(call.arguments.size())];
  twinops_attribute* const attribute =
      call.attributes.empty() ? nullptr : &call.attributes[bytes.below(call.attributes.size())];
  const std::uint8_t value = bytes.byte();
  switch (static_cast<Spoiling>(bytes.below(static_cast<std::size_t>(Spoiling::kMost)))) {
    case Spoiling::null_data:
      t.data = nullptr;
      break;
    case Spoiling::null_shape:
      t.shape = nullptr;
      break;
    case Spoiling::rank:
      t.ndim = -1 - value;  // 0 would be a tensor of one element
      break;
    case Spoiling::type:
      t.dtype = {value, static_cast<std::uint8_t>(value * 8 + 1), 1};  // bits that no type has
      break;
    case Spoiling::lanes:
      t.dtype.lanes = value;
      break;
    case Spoiling::device: {
      const std::int32_t type = value * 7919 - 1000;
      std::memcpy(&t.device.device_type, &type, sizeof(type));
      break;
    }
    case Spoiling::byte_offset:
      t.byte_offset = ~std::uint64_t{0} - value;
      break;
    case Spoiling::null_name:
      if (a != nullptr) a->name = nullptr;
      if (attribute != nullptr && value % 2 == 1) attribute->name = nullptr;
      break;
    case Spoiling::null_tensor:
      if (a != nullptr && a->count != 0)
        call.pointers[static_cast<std::size_t>(a->tensors - call.pointers.data())] = nullptr;
      break;
    case Spoiling::count:
      if (a != nullptr) a->count = value % 2 == 1 ? 0 : std::min<std::size_t>(a->count, value);
      break;
    case Spoiling::struct_size:  // but none that the next one would lie inside
      if (value % 4 == 0 && a != nullptr) a->struct_size -= 1 + value / 4 % 7;
      if (value % 4 == 1 && attribute != nullptr) attribute->struct_size -= 1 + value / 4 % 7;
      if (value % 4 == 2 && a != nullptr) call.arguments.back().struct_size -= value / 4 % 32;
      if (value % 4 == 3 && attribute != nullptr)
        call.attributes.back().struct_size -= value / 4 % 48;
      break;
    case Spoiling::kind:
      if (attribute != nullptr) attribute->kind = value - 8;
      break;
    default:
      break;
  }
}

twinops_attribute attribute_of(const proof::Attribute& a) {
  twinops_attribute to{sizeof(to), TWINOPS_BOOL, a.name.c_str(), 0, 0, nullptr};
  if (const bool* flag = std::get_if<bool>(&a.value)) {
    to.int_value = *flag;
  } else if (const std::int64_t* integer = std::get_if<std::int64_t>(&a.value)) {
    to.kind = TWINOPS_INT;
    to.int_value = *integer;
  } else if (const double* real = std::get_if<double>(&a.value)) {
    to.kind = TWINOPS_FLOAT;
    to.float_value = *real;
  } else {
    to.kind = TWINOPS_STRING;
    to.string_value = std::get<std::string>(a.value).c_str();
  }
  return to;
}

}  // namespace

bool make(Call& call, Bytes& bytes, GuardedMemory& memory, DLDevice device) {
  if (!place(call, bytes, memory, device)) return false;
  const DLTensor** next = call.pointers.data();
  for (const Argument& a : call.problem.arguments) {
    call.arguments.push_back(TWINOPS_ARGUMENT(a.name.c_str(), next, a.tensors.size()));
    next += a.tensors.size();
  }
  for (const proof::Attribute& a : call.problem.attributes)
    call.attributes.push_back(attribute_of(a));
  const std::size_t how = bytes.byte();
  call.threads = static_cast<int>(how % 6);
  call.runner = how / 6 % 8 > 2 ? 0 : static_cast<int>(how / 6 % 8);
  call.own_allocator = how >= 128;
  if (call.own_allocator && bytes.below(8) == 7) call.failing_allocation = bytes.byte() % 3;
  spoil(call, bytes);
  return true;
}

}  // namespace fuzz
