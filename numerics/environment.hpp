// The floating-point environment that the contract asks for: round to nearest even, subnormals
// kept.
#pragma once

namespace twinops {

// Sets it for this thread, and puts back what the host had set. Every thread of a parallel region
// needs its own: threads of a pool keep the state that they were made with.
class FloatEnvironment {
 public:
  FloatEnvironment() noexcept;
  ~FloatEnvironment();
  FloatEnvironment(const FloatEnvironment&) = delete;
  FloatEnvironment& operator=(const FloatEnvironment&) = delete;

 private:
  unsigned long long saved_;
};

}  // namespace twinops
