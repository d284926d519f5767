#include "tests/emulator/block.hpp"

#include <sys/mman.h>
#include <ucontext.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/common_interface_defs.h>
#endif

constinit thread_local uint3 threadIdx{}, blockIdx{}, blockDim{}, gridDim{};

namespace twinops::emulator {
namespace {

constexpr std::size_t kStack = 256 * 1024;
constexpr std::uint64_t kCanary = 0x7477696e6f707321u;
constexpr std::size_t kBeyond = 16 * 1024;  // bytes after a block's shared memory
constexpr unsigned char kUnset = 0xff;      // which makes NaNs
thread_local Block* running = nullptr;

#if defined(__SANITIZE_ADDRESS__)
void leave(Place& from, const Place& to) {
  __sanitizer_start_switch_fiber(&from.kept, to.stack, to.bytes);
}
void come_back(Place& to, Place& from) {  // `from` is learned: the host's stack is not ours
  __sanitizer_finish_switch_fiber(to.kept, &from.stack, &from.bytes);
}
#else
void leave(Place&, const Place&) {}
void come_back(Place&, Place&) {}
#endif

// Stacks for a block's threads; those of blocks that have ended serve the next.
class Stacks {
 public:
  unsigned char* take() {
    const std::lock_guard lock(mutex_);
    if (!free_.empty()) {
      unsigned char* const stacks = free_.back();
      free_.pop_back();
      return stacks;
    }
    void* const stacks = mmap(nullptr, kMostThreads * kStack, PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (stacks == MAP_FAILED) throw std::bad_alloc();
    return static_cast<unsigned char*>(stacks);
  }
  void give(unsigned char* stacks) {
    const std::lock_guard lock(mutex_);
    free_.push_back(stacks);
  }

 private:
  std::mutex mutex_;
  std::vector<unsigned char*> free_;
};
Stacks& stacks() {
  static Stacks all;
  return all;
}

}  // namespace

void Barrier::open_if_all() {
  if (live == 0 || arrived < live) return;
  arrived = 0;
  ++generation;
  any[generation % 2] = false;  // what was said two generations ago, all have read
  all[generation % 2] = true;
}
void Barrier::arrive() {
  ++arrived;
  open_if_all();
}
void Barrier::leave() {
  --live;
  open_if_all();
}

unsigned Meeting::arrive() {
  const unsigned phase = phase_.load();
  if (arrived_.fetch_add(1) + 1 == threads_) {
    arrived_.store(0);
    phase_.store(phase + 1);
  }
  return phase;
}

Company::Company(unsigned blocks, unsigned threads, std::size_t dynamic)
    : bytes(dynamic), meeting(blocks * threads) {
  const std::size_t slots = (bytes + kBeyond + sizeof(uint128_slot) - 1) / sizeof(uint128_slot);
  uint128_slot unset;
  std::memset(&unset, kUnset, sizeof unset);
  for (unsigned i = 0; i < blocks; ++i) shared.emplace_back(slots, unset);
}

Block& Block::now() { return *running; }

Block::Block(Company& company, unsigned rank, Index block, Index blocks, Index threads)
    : company_(company),
      rank_(rank),
      block_(block),
      blocks_(blocks),
      threads_(threads),
      count_(threads.x * threads.y * threads.z),
      fibers_(count_),
      warps_((count_ + kWarpThreads - 1) / kWarpThreads),
      stacks_(stacks().take()),
      left_(count_) {
  random_ += block.x * 0x9e3779b97f4a7c15u + block.y;
  barrier_.live = count_;
  for (unsigned i = 0; i < count_; ++i) ++warps_[i / kWarpThreads].barrier.live;
}
Block::~Block() { stacks().give(stacks_); }

void Block::fail(const char* why) const {
  std::fprintf(stderr, "emulated GPU: block (%u, %u, %u), thread %u: %s\n", block_.x, block_.y,
               block_.z, current_, why);
  std::abort();
}

unsigned Block::random() {  // xorshift
  random_ ^= random_ << 13;
  random_ ^= random_ >> 7;
  random_ ^= random_ << 17;
  return static_cast<unsigned>(random_ >> 32);
}

void Block::run(const std::function<void()>& kernel) {
  kernel_ = &kernel;
  running = this;
  blockIdx = block_;
  gridDim = blocks_;
  blockDim = threads_;
  while (left_ > 0) {
    progress_ = waits_outside_ = false;
    const auto count = static_cast<unsigned>(warps_.size()), first = random() % count;
    for (unsigned i = 0; i < count; ++i) run_warp((first + i) % count);
    if (progress_) continue;
    if (!waits_outside_) fail("waits for threads that do not come");
    std::this_thread::yield();
  }
  running = nullptr;
  check_end_of_shared();
}

void Block::check_end_of_shared() const {
  const auto& mine = company_.shared[rank_];
  const unsigned char* const begin = mine.data()->bytes;
  const unsigned char* const end = begin + mine.size() * sizeof mine[0];
  if (std::any_of(begin + company_.bytes, end, [](unsigned char c) { return c != kUnset; }))
    fail("wrote beyond its dynamic shared memory");
}

// Until each of its threads waits for something else than the others of the warp.
void Block::run_warp(unsigned warp) {
  const unsigned begin = warp * kWarpThreads;
  for (unsigned i = begin; i < begin + kWarpThreads && i < count_; ++i) fibers_[i].yielded = false;
  for (bool again = true; again;) {
    again = false;
    const unsigned turn = random() % kWarpThreads;
    for (unsigned lane = 0; lane < kWarpThreads; ++lane) {
      const unsigned i = begin + (lane ^ turn);
      if (i >= count_ || !can_run(fibers_[i])) continue;
      enter(i);
      if (fibers_[i].yielded)
        waits_outside_ = true;
      else
        again = progress_ = true;
    }
  }
}

bool Block::can_run(const Fiber& fiber) const {
  if (fiber.state == Fiber::State::ended || fiber.yielded) return false;
  return fiber.waits_for == nullptr || fiber.waits_for->generation != fiber.generation;
}

void Block::enter(unsigned i) {
  current_ = i;
  threadIdx = {i % threads_.x, i / threads_.x % threads_.y, i / threads_.x / threads_.y};
  Fiber& fiber = fibers_[i];
  if (_setjmp(scheduler_.at) != 0) {
    come_back(scheduler_, fibers_[current_].place);
    return;
  }
  if (fiber.state == Fiber::State::stopped) {
    leave(scheduler_, fiber.place);
    _longjmp(fiber.place.at, 1);
  }
  fiber.state = Fiber::State::stopped;
  fiber.place.stack = stacks_ + i * kStack;
  fiber.place.bytes = kStack;
  std::memcpy(stacks_ + i * kStack, &kCanary, sizeof kCanary);
  ucontext_t context;
  getcontext(&context);
  context.uc_stack.ss_sp = stacks_ + i * kStack;
  context.uc_stack.ss_size = kStack;
  context.uc_link = nullptr;
  leave(scheduler_, fiber.place);
  makecontext(&context, begin_fiber, 0);
  setcontext(&context);
}

void Block::begin_fiber() {
  Block& block = now();
  come_back(block.fibers_[block.current_].place, block.scheduler_);
  (*block.kernel_)();
  Fiber& fiber = block.fibers_[block.current_];
  block.wait_for_all_copies();
  fiber.state = Fiber::State::ended;
  block.warps_[block.current_ / kWarpThreads].barrier.leave();
  block.barrier_.leave();
  --block.left_;
  if (std::memcmp(block.stacks_ + block.current_ * kStack, &kCanary, sizeof kCanary) != 0)
    block.fail("its stack is too small for the emulator");
  leave(fiber.place, block.scheduler_);
  _longjmp(block.scheduler_.at, 1);
}

void Block::stop() {
  Fiber& fiber = fibers_[current_];
  if (_setjmp(fiber.place.at) == 0) {
    leave(fiber.place, scheduler_);
    _longjmp(scheduler_.at, 1);
  }
  come_back(fiber.place, scheduler_);
}

void Block::wait_at(Barrier& barrier) {
  Fiber& fiber = fibers_[current_];
  fiber.waits_for = &barrier;
  fiber.generation = barrier.generation;
  barrier.arrive();
  if (barrier.generation == fiber.generation) stop();
  fiber.waits_for = nullptr;
}

void Block::sync() { wait_at(barrier_); }
bool Block::sync_or(bool said) {
  bool& any = barrier_.any[barrier_.generation % 2];
  any = any || said;
  wait_at(barrier_);
  return any;
}
bool Block::sync_and(bool said) {
  bool& all = barrier_.all[barrier_.generation % 2];
  all = all && said;
  wait_at(barrier_);
  return all;
}
void Block::sync_warp() { wait_at(warps_[current_ / kWarpThreads].barrier); }

const Exchange& Block::exchange(std::uint64_t word) {
  Warp& warp = warps_[current_ / kWarpThreads];
  const unsigned generation = warp.barrier.generation;
  Exchange& exchange = warp.exchanges[generation % 2];  // all have read what it held two ago
  if (exchange.generation != generation) exchange = {generation, 0, {}};
  exchange.lanes |= 1u << lane();
  exchange.words[lane()] = word;
  wait_at(warp.barrier);
  return exchange;
}

void Block::yield() {
  fibers_[current_].yielded = true;
  stop();
}
void Block::arrive() { fibers_[current_].phase = company_.meeting.arrive(); }
void Block::wait() {
  while (!company_.meeting.is_over(fibers_[current_].phase)) yield();
}

void* Block::in_block(void* place, unsigned rank) {
  auto& mine = company_.shared[rank_];
  const auto offset = static_cast<unsigned char*>(place) - mine.data()->bytes;
  if (offset < 0 || static_cast<std::size_t>(offset) >= company_.bytes ||
      rank >= company_.shared.size())
    fail("asks for what is not in the cluster's shared memory");
  return company_.shared[rank].data()->bytes + offset;
}
void Block::check_whole(unsigned mask) const {
  if (mask != ~0u) fail("asks for some lanes of its warp, which the emulator does not know");
}

void Block::copy_later(void* to, const void* from, std::size_t bytes) {
  fibers_[current_].copies.push_back({to, from, bytes});
}
void Block::commit_copies() {
  Fiber& fiber = fibers_[current_];
  fiber.groups.push_back(fiber.copies.size());
}
void Block::wait_for_copies(std::size_t groups_left) {
  Fiber& fiber = fibers_[current_];
  if (fiber.groups.size() <= groups_left) return;
  const std::size_t groups = fiber.groups.size() - groups_left, end = fiber.groups[groups - 1];
  for (std::size_t i = 0; i < end; ++i)
    std::memcpy(fiber.copies[i].to, fiber.copies[i].from, fiber.copies[i].bytes);
  fiber.copies.erase(fiber.copies.begin(), fiber.copies.begin() + static_cast<std::ptrdiff_t>(end));
  fiber.groups.erase(fiber.groups.begin(),
                     fiber.groups.begin() + static_cast<std::ptrdiff_t>(groups));
  for (std::size_t& group : fiber.groups) group -= end;
}
void Block::wait_for_all_copies() {
  commit_copies();
  wait_for_copies(0);
}

}  // namespace twinops::emulator
