// A Trial gives a problem memory: one block that holds all of its tensors with guard bytes between
// them, filled from a seed. It is run on any kernel row, from the same bytes each time, and the
// blocks that come back are compared whole.
//
//   const Trial trial(a_case.problem(), seed);
//   const Outcome expected = run(trial, "cpu/scalar"), actual = run(trial, "cpu/avx2");
//   if (auto difference = first_difference(trial, expected, actual)) fail(describe(*difference));
#pragma once

#include <deque>

#include "tools/proof/problem.hpp"

namespace proof {

// Memory of a device, aligned to 64 bytes at least.
class Buffer {
 public:
  Buffer(DLDevice device, std::size_t bytes);
  ~Buffer();
  Buffer(Buffer&& other) noexcept;
  Buffer& operator=(Buffer&&) = delete;
  std::byte* data() const { return static_cast<std::byte*>(data_); }
  std::size_t size() const { return bytes_; }
  DLDevice device() const { return device_; }

 private:
  DLDevice device_;
  std::size_t bytes_;
  void* data_ = nullptr;
};
Buffer clone(const Buffer& from, DLDevice to);

// The device that a kernel row works on: "cpu/avx2" the host, "cuda/sm_90" the first GPU of it.
DLDevice device_of(const std::string& row);

class Trial {
 public:
  Trial(Problem problem, std::uint64_t seed);
  Trial(const Trial&) = delete;

  const Problem& problem() const { return problem_; }
  const Buffer& before() const { return before_; }  // the block as every run finds it, on the host

  // Where a tensor lies in the block.
  struct Place {
    const Argument* argument;
    std::size_t member;
    const TensorSpec* tensor;
    std::size_t begin, end;  // bytes, from the lowest element to beyond the highest
    std::size_t origin;      // byte of the element whose indexes are all 0
  };
  // All tensors, argument after argument.
  const std::vector<Place>& places() const { return places_; }

 private:
  Problem problem_;
  std::vector<Place> places_;
  Buffer before_;
};

// A trial's block on a device, with the call ready to be made: for many runs of one problem.
class Placed {
 public:
  Placed(const Trial& trial, DLDevice device);
  // Writes the tensors' descriptions again, as a host does just before a call.
  void describe();
  // Queues the call; throws twinops::Error. On a GPU a call that brings no allocator gets one here.
  twinops::Report run(const twinops::Execution& execution);
  // The same with nothing between the caller and the C ABI; the status is not looked at.
  twinops_status run(const twinops_execution& execution) const noexcept;
  void restore();         // the bytes of before() again
  const Buffer& fetch();  // the block on the host, when all work is done; good until the next use
  Buffer take() &&;       // the same, to keep

 private:
  static void* scratch(void* placed, std::size_t bytes, void* stream);

  const Trial& trial_;
  Buffer block_;
  std::deque<Buffer> scratch_;  // kept until all work is done
  std::optional<Buffer> fetched_;
  std::vector<DLTensor> tensors_;
  std::vector<const DLTensor*> pointers_;
  std::vector<twinops_argument> arguments_;
  std::vector<twinops_attribute> attributes_;
};

struct Outcome {
  Buffer block;  // on the host
  twinops::Report report;
};
// One run on `row`; the rest of `execution` counts as it is. Throws twinops::Error.
Outcome run(const Trial& trial, const std::string& row, twinops::Execution execution = {});

// The first place where two outcomes differ.
struct Difference {
  std::string argument;          // "out[3]"; "random_words"; "guard bytes" where no tensor lies
  std::int64_t index;            // in the tensor's memory, in elements from the lowest
  std::string expected, actual;  // bits, in hex
  std::string ulps;              // how far apart; empty where that means nothing
};
std::optional<Difference> first_difference(const Trial& trial, const Outcome& expected,
                                           const Buffer& block, const twinops::Report& report);
inline std::optional<Difference> first_difference(const Trial& trial, const Outcome& expected,
                                                  const Outcome& actual) {
  return first_difference(trial, expected, actual.block, actual.report);
}
std::string describe(const Difference& difference);

// A byte that changed although no output has an element there (a guard, an input, a gap between
// strides), in words.
std::optional<std::string> stray_write(const Trial& trial, const Buffer& after);

// FNV-1a, 64 bits, over the bytes of all outputs in the order of problem().arguments and their
// members, each from its lowest element to its highest (gaps of strides hold 0xca), and over
// random_words as 8 bytes, little endian, where the call drew any.
std::uint64_t digest(const Trial& trial, const Buffer& block, const twinops::Report& report);

// Of the floating-point elements in the outputs: how many there are, how many of them are finite,
// and how many of those are not zero (of a tensor's first 65536). A proof over nothing but NaN and
// zeros proves nothing.
struct Share {
  std::int64_t elements = 0, finite = 0, nonzero = 0;
  Share& operator+=(const Share& other);
};
Share finite_share(const Trial& trial, const Buffer& block);

}  // namespace proof
