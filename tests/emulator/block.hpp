// The threads of a CUDA block on one thread of the host: fibers, which run one after the other
// until they wait for each other. Whatever runs between two such places runs in an order of its
// own, so that a kernel which lacks a barrier computes something else.
#pragma once

#include <atomic>
#include <csetjmp>
#include <cstdint>
#include <functional>
#include <mutex>
#include <vector>

#include "tests/emulator/index.hpp"

namespace twinops::emulator {

inline constexpr unsigned kWarpThreads = 32, kMostThreads = 1024;

// What threads wait at until all that live have come.
struct Barrier {
  unsigned live = 0, arrived = 0, generation = 0;
  bool any[2]{}, all[2]{true, true};  // of what they said, by generation
  void arrive();
  void leave();  // by a thread that ends
 private:
  void open_if_all();
};

// Where the threads of several blocks meet: a cluster's barrier, or a grid's.
class Meeting {
 public:
  explicit Meeting(unsigned threads) : threads_(threads) {}
  unsigned arrive();  // returns the phase to wait for the end of
  bool is_over(unsigned phase) const { return phase_.load() != phase; }

 private:
  const unsigned threads_;
  std::atomic<unsigned> arrived_{0}, phase_{0};
};

// Blocks that are there at the same time: a cluster, or a whole grid, or one block.
struct Company {
  Company(unsigned blocks, unsigned threads, std::size_t shared);
  const std::size_t bytes;                        // of a block's dynamic shared memory
  std::vector<std::vector<uint128_slot>> shared;  // of each block, and what nobody may touch
  Meeting meeting;
  std::mutex mutex;  // held by whoever touches an mbarrier
};

// What the lanes of a warp have given each other: of generation g of its barrier.
struct Exchange {
  unsigned generation = ~0u;
  std::uint32_t lanes = 0;  // which have given
  std::uint64_t words[kWarpThreads];
};

struct Warp {
  Barrier barrier;
  Exchange exchanges[2];
};

struct Copy {
  void* to;
  const void* from;
  std::size_t bytes;
};

// A stack that is left and come back to. AddressSanitizer is told, where it is there.
struct Place {
  std::jmp_buf at;
  const void* stack;
  std::size_t bytes;
  void* kept;  // AddressSanitizer's
};

struct Fiber {
  Place place;
  enum class State { fresh, stopped, ended } state;
  const Barrier* waits_for;  // until it is of another generation
  unsigned generation;
  bool yielded;
  unsigned phase;  // of the company's meeting
  std::vector<Copy> copies;
  std::vector<std::size_t> groups;  // where committed groups of copies end
};

class Block {
 public:
  // The one that this host thread is running, if any.
  static Block& now();

  Block(Company& company, unsigned rank, Index block, Index blocks, Index threads);
  ~Block();
  // Runs kernel() as every thread of the block. What it can not do, such as wait for ever, ends the
  // program: a test has failed.
  void run(const std::function<void()>& kernel);

  // Of the thread that is running:
  unsigned lane() const { return current_ % kWarpThreads; }
  unsigned rank() const { return rank_; }
  Company& company() { return company_; }
  unsigned char* shared() { return company_.shared[rank_].data()->bytes; }  // dynamic memory
  void sync();
  bool sync_or(bool said);
  bool sync_and(bool said);
  void sync_warp();
  const Exchange& exchange(std::uint64_t word);
  void yield();  // others may have to do something first
  void arrive();
  void wait();
  void* in_block(void* place, unsigned rank);  // the same place of the company's block `rank`
  void check_whole(unsigned mask) const;       // of a warp: all its threads are meant
  [[noreturn]] void fail(const char* why) const;
  void copy_later(void* to, const void* from, std::size_t bytes);
  void commit_copies();
  void wait_for_copies(std::size_t groups_left);
  void wait_for_all_copies();

 private:
  void enter(unsigned i);
  void stop();
  void wait_at(Barrier& barrier);
  bool can_run(const Fiber& fiber) const;
  void run_warp(unsigned warp);
  unsigned random();
  void check_end_of_shared() const;
  static void begin_fiber();

  Company& company_;
  const unsigned rank_;
  const Index block_, blocks_, threads_;
  const unsigned count_;
  const std::function<void()>* kernel_ = nullptr;
  std::vector<Fiber> fibers_;
  std::vector<Warp> warps_;
  Barrier barrier_;
  unsigned char* stacks_;
  Place scheduler_{};
  unsigned current_ = 0, left_ = 0;
  bool progress_ = false, waits_outside_ = false;
  std::uint64_t random_ = 88172645463325252u;
};

}  // namespace twinops::emulator
