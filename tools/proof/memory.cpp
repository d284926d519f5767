// Trial, Placed and run(): how a problem gets memory and is carried out.
#include <algorithm>
#include <cstring>
#include <map>
#include <stdexcept>

#include "numerics/philox.hpp"
#include "tools/proof/trial.hpp"

namespace proof {
namespace {

constexpr std::size_t kAlignment = 64;
constexpr int kUnwritten = 0xca;

std::size_t aligned(std::size_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

// The elements from a tensor's lowest to its highest, and how far its origin is from the lowest.
struct Extent {
  std::int64_t elements, origin;
};
Extent extent_of(const TensorSpec& t) {
  std::int64_t count = 1, low = 0, high = 0;
  for (std::size_t i = 0; i < t.shape.size(); ++i) {
    count *= t.shape[i];
    if (!t.strides.empty()) (t.strides[i] < 0 ? low : high) += t.strides[i] * (t.shape[i] - 1);
  }
  if (count == 0) return {0, 0};
  return t.strides.empty() ? Extent{count, 0} : Extent{high - low + 1, -low};
}

// Lays the tensors out one after the other; returns the size of the block.
std::size_t lay_out(const Problem& problem, std::vector<Trial::Place>& places) {
  std::map<std::string, std::size_t> first_place;  // of an argument
  std::size_t at = problem.guard;
  for (const Argument& a : problem.arguments) {
    first_place[a.name] = places.size();
    for (std::size_t i = 0; i < a.tensors.size(); ++i) {
      const TensorSpec& t = a.tensors[i];
      const Extent extent = extent_of(t);
      const std::size_t size = size_of(t.type);
      const std::size_t bytes = static_cast<std::size_t>(extent.elements) * size;
      std::size_t begin = aligned(at) + static_cast<std::size_t>(t.offset) * size;
      if (t.behind) begin = places.back().end;
      if (t.over) {
        const Trial::Place& under = places.at(first_place.at(*t.over) + i);
        begin = under.begin;
        if (under.end - under.begin != bytes)
          throw std::logic_error("proof: " + a.name + " is not of the size of " + *t.over);
      } else {
        at = begin + bytes + problem.guard;
      }
      places.push_back({&a, i, &t, begin, begin + bytes,
                        begin + static_cast<std::size_t>(extent.origin) * size});
    }
  }
  return aligned(at);
}

// The argument that all tensors of `a` lie over, if there is one of as many.
const twinops_argument* find_under(const Argument& a, const std::vector<twinops_argument>& before) {
  const auto lies_over = [&](const twinops_argument& other) {
    return other.count == a.tensors.size() &&
           std::all_of(a.tensors.begin(), a.tensors.end(),
                       [&](const TensorSpec& t) { return t.over == other.name; });
  };
  const auto found = std::find_if(before.begin(), before.end(), lies_over);
  return found == before.end() ? nullptr : &*found;
}

twinops_attribute c_attribute(const Attribute& a) {
  const char* name = a.name.c_str();
  if (const auto* v = std::get_if<bool>(&a.value)) return TWINOPS_BOOL_ATTRIBUTE(name, *v);
  if (const auto* v = std::get_if<std::int64_t>(&a.value)) return TWINOPS_INT_ATTRIBUTE(name, *v);
  if (const auto* v = std::get_if<double>(&a.value)) return TWINOPS_FLOAT_ATTRIBUTE(name, *v);
  return TWINOPS_STRING_ATTRIBUTE(name, std::get<std::string>(a.value).c_str());
}

}  // namespace

Buffer::Buffer(DLDevice device, std::size_t bytes) : device_(device), bytes_(bytes) {
  twinops::check(twinops_allocate(device, std::max<std::size_t>(bytes, 1), &data_));
}
Buffer::Buffer(Buffer&& other) noexcept
    : device_(other.device_), bytes_(other.bytes_), data_(std::exchange(other.data_, nullptr)) {}
Buffer::~Buffer() {
  if (data_ != nullptr) twinops_release(device_, data_);
}

Buffer clone(const Buffer& from, DLDevice to) {
  Buffer buffer(to, from.size());
  twinops::check(twinops_copy(to, buffer.data(), from.device(), from.data(), from.size()));
  return buffer;
}

DLDevice device_of(const std::string& row) {
  if (!row.starts_with("cuda")) return twinops::kHost;
  for (std::size_t i = 0; i < twinops_device_count(); ++i)
    if (twinops_device_at(i)->usable && (row == "cuda" || row == twinops_device_at(i)->row))
      return {kDLCUDA, static_cast<int>(i)};
  return {kDLCUDA, 0};
}

Trial::Trial(Problem problem, std::uint64_t seed)
    : problem_(std::move(problem)), before_(twinops::kHost, lay_out(problem_, places_)) {
  std::memset(before_.data(), kUnwritten, before_.size());
  for (const Place& p : places_) {
    const TensorSpec& t = *p.tensor;
    if (!p.argument->fill || t.over || p.begin == p.end) continue;
    const auto number = static_cast<std::uint64_t>(&p - places_.data());
    const auto own = twinops::philox_block(seed, ~std::uint64_t{0}, number);
    p.argument->fill({before_.data() + p.begin, t.type,
                      static_cast<std::int64_t>((p.end - p.begin) / size_of(t.type)), p.member,
                      std::uint64_t{own.w[0]} << 32 | own.w[1]});
  }
}

Placed::Placed(const Trial& trial, DLDevice device)
    : trial_(trial), block_(clone(trial.before(), device)), tensors_(trial.places().size()) {
  describe();
  for (const DLTensor& t : tensors_) pointers_.push_back(&t);
  std::size_t first = 0;
  for (const Argument& a : trial.problem().arguments) {
    const twinops_argument* under = trial.problem().one_array ? find_under(a, arguments_) : nullptr;
    arguments_.push_back(TWINOPS_ARGUMENT(
        a.name.c_str(), under != nullptr ? under->tensors : pointers_.data() + first,
        a.tensors.size()));
    first += a.tensors.size();
  }
  for (const Attribute& a : trial.problem().attributes) attributes_.push_back(c_attribute(a));
}

void Placed::describe() {
  DLTensor* tensor = tensors_.data();
  for (const Trial::Place& p : trial_.places()) {
    const TensorSpec& t = *p.tensor;
    // Part of the address goes into byte_offset, which must be honoured too.
    const std::size_t offset = static_cast<std::size_t>(t.offset) * size_of(t.type);
    const bool null = p.begin == p.end && p.member % 2 == 1;  // an empty tensor may have no memory
    *tensor++ = {null ? nullptr : block_.data() + p.origin - offset,
                 block_.device(),
                 static_cast<int>(t.shape.size()),
                 t.type,
                 const_cast<std::int64_t*>(t.shape.data()),
                 t.strides.empty() ? nullptr : const_cast<std::int64_t*>(t.strides.data()),
                 offset};
  }
}

twinops_status Placed::run(const twinops_execution& execution) const noexcept {
  return twinops_run(trial_.problem().op.c_str(), arguments_.data(), arguments_.size(),
                     attributes_.data(), attributes_.size(), &execution);
}

void* Placed::scratch(void* placed, std::size_t bytes, void*) {
  auto& self = *static_cast<Placed*>(placed);
  try {
    return self.scratch_.emplace_back(self.block_.device(), bytes).data();
  } catch (const std::exception&) {
    return nullptr;
  }
}

twinops::Report Placed::run(const twinops::Execution& given) {
  twinops::Execution e = given;
  if (e.allocate == nullptr && block_.device().device_type != kDLCPU) {
    e.allocate = &Placed::scratch;
    e.workspace_context = this;
  }
  twinops_report report{};
  report.struct_size = sizeof(report);
  const twinops_execution how{sizeof(twinops_execution),
                              e.threads,
                              e.stream,
                              e.row.empty() ? nullptr : e.row.c_str(),
                              e.parallel_for,
                              e.parallel_context,
                              e.allocate,
                              e.release,
                              e.workspace_context,
                              &report};
  twinops::check(run(how));
  return {report.row, report.fallback, report.launches, report.random_words};
}

void Placed::restore() {
  const Buffer& before = trial_.before();
  twinops::check(
      twinops_copy(block_.device(), block_.data(), before.device(), before.data(), before.size()));
}

const Buffer& Placed::fetch() {
  twinops::check(twinops_synchronize(block_.device()));
  if (block_.device().device_type == kDLCPU) return block_;
  if (!fetched_) fetched_.emplace(twinops::kHost, block_.size());
  twinops::check(twinops_copy(twinops::kHost, fetched_->data(), block_.device(), block_.data(),
                              block_.size()));
  return *fetched_;
}

Buffer Placed::take() && {
  twinops::check(twinops_synchronize(block_.device()));
  if (block_.device().device_type == kDLCPU) return std::move(block_);
  return clone(block_, twinops::kHost);
}

Outcome run(const Trial& trial, const std::string& row, twinops::Execution execution) {
  execution.row = row;
  Placed placed(trial, device_of(row));
  twinops::Report report = placed.run(execution);
  return {std::move(placed).take(), std::move(report)};
}

}  // namespace proof
