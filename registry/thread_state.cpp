#include "registry/thread_state.hpp"

#include <pthread.h>

#include <atomic>
#include <new>

namespace twinops {
namespace {

// A thread's, and then another's: the list only grows until the library is unloaded.
struct Kept {
  ThreadState state;
  std::atomic<bool> taken{true};
  Kept* next = nullptr;
};
std::atomic<Kept*> all{nullptr};
pthread_key_t key;
std::atomic<bool> has_key{false};

void give_back(void* kept) {
  Kept& k = *static_cast<Kept*>(kept);
  k.state = {};
  k.taken.store(false, std::memory_order_release);
}

[[gnu::constructor]] void make_key() { has_key = pthread_key_create(&key, give_back) == 0; }
[[gnu::destructor]] void forget() {
  if (!has_key.exchange(false)) return;
  pthread_key_delete(key);
  for (Kept* k = all.exchange(nullptr); k != nullptr;) {
    Kept* const next = k->next;
    delete k;
    k = next;
  }
}

Kept* take() {
  for (Kept* k = all.load(std::memory_order_acquire); k != nullptr; k = k->next)
    if (!k->taken.load(std::memory_order_relaxed) &&
        !k->taken.exchange(true, std::memory_order_acquire))
      return k;
  Kept* const made = new (std::nothrow) Kept;
  if (made == nullptr) return nullptr;
  made->next = all.load(std::memory_order_relaxed);
  while (!all.compare_exchange_weak(made->next, made, std::memory_order_acq_rel)) {
  }
  return made;
}

}  // namespace

ThreadState* thread_state() noexcept {
  if (!has_key.load(std::memory_order_acquire)) return nullptr;
  if (void* kept = pthread_getspecific(key)) return &static_cast<Kept*>(kept)->state;
  Kept* const mine = take();
  if (mine == nullptr) return nullptr;
  if (pthread_setspecific(key, mine) == 0) return &mine->state;
  give_back(mine);
  return nullptr;
}

}  // namespace twinops
