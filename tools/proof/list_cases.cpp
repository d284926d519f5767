#include "tools/proof/list_cases.hpp"

#include <algorithm>

#include "tools/proof/lists.hpp"

namespace proof {
namespace {

// Sizes around the lanes and bytes of vectors, chunks of 1024, what one thread or one block takes,
// and where more threads or another kernel begin.
constexpr std::int64_t kSmall[] = {0,   1,   2,   3,   4,   5,   7,   8,    9,    15,   16,
                                   17,  31,  32,  33,  63,  64,  65,  127,  128,  129,  255,
                                   256, 257, 511, 512, 513, 767, 768, 1023, 1024, 1025, 2047};
constexpr std::int64_t kLarge[] = {2048,  2049,  4095,  4096,   4097,   8191,   8193,
                                   16383, 16384, 16385, 32767,  32769,  49152,  65535,
                                   65537, 98305, 99991, 131071, 262145, 524289, (1 << 21) + 3};

std::int64_t count(const TensorSpec& t) {
  std::int64_t n = 1;
  for (std::int64_t d : t.shape) n *= d;
  return n;
}
std::int64_t count(const std::vector<TensorSpec>& list) {
  std::int64_t n = 0;
  for (const TensorSpec& t : list) n += count(t);
  return n;
}

class Lists {
 public:
  explicit Lists(std::string type) : type_(std::move(type)) {}
  void apart(const std::string& name, std::vector<TensorSpec> x, std::vector<TensorSpec> out) {
    const std::int64_t n = count(x);
    lists_.push_back({name, type_, std::move(x), std::move(out), n});
  }
  void over(const std::string& name, const std::vector<TensorSpec>& x) {
    apart(name + ", in place", x, in_place(x, "x"));
  }
  void both(const std::string& name, const std::vector<TensorSpec>& x) {
    apart(name, x, x);
    over(name, x);
  }
  std::vector<ListPair> take() && { return std::move(lists_); }

 private:
  std::string type_;
  std::vector<ListPair> lists_;
};

struct Layout {
  const char* name;
  std::vector<std::int64_t> shape, strides;
};
std::vector<Layout> layouts() {
  return {{"a transposed matrix", {33, 65}, {1, 33}},
          {"a large transposed matrix", {300, 1000}, {1, 300}},
          {"a slice of columns", {100, 7}, {16, 1}},
          {"rows with gaps", {20, 100}, {128, 1}},
          {"every second element", {1000}, {2}},
          {"backwards", {1000}, {-1}},
          {"rows backwards", {17, 40}, {-40, 1}},
          {"backwards with gaps", {9, 11, 5}, {-110, 10, -2}},
          {"permuted axes", {5, 6, 7}, {1, 5, 30}},
          {"channels last", {2, 3, 8, 8}, {192, 1, 24, 3}},
          {"axes of one", {1, 5, 1}, {7, 1, 999}},
          {"six axes", {2, 3, 2, 3, 2, 3}, {320, 100, 48, 14, 6, 2}}};
}

// Members that begin anywhere, x and out alike or apart.
void add_unaligned(Lists& lists, DLDataType type) {
  for (const std::int64_t offset : {1, 2, 3, 5, 7}) {
    for (const std::int64_t n : {1, 6, 64, 1000, 4099}) {
      const TensorSpec aligned{type, {n}}, moved{type, {n}, {}, offset};
      const TensorSpec other{type, {n}, {}, (offset * 3) % 8};
      const std::string name = std::to_string(n) + " elements, " + std::to_string(offset) + " off ";
      lists.apart(name + "both", {moved}, {moved});
      lists.apart(name + "x", {moved}, {aligned});
      lists.apart(name + "out", {aligned}, {moved});
      lists.apart(name + "x, otherwise out", {moved}, {other});
      lists.over(name + "both", {moved});
    }
  }
}

void add_strided(Lists& lists, DLDataType type) {
  for (const Layout& l : layouts()) {
    const TensorSpec strided{type, l.shape, l.strides}, dense{type, l.shape};
    const TensorSpec moved{type, l.shape, l.strides, 1};
    const std::string name = l.name;
    lists.both(name, {strided});
    lists.apart(name + ", gathered", {moved}, {dense});
    lists.apart(name + ", scattered", {dense}, {moved});
  }
  lists.apart("a broadcast row", {{type, {64, 128}, {0, 1}}}, {{type, {64, 128}}});
  lists.both("row-major strides, spelled", {{type, {12, 34}, {34, 1}}});
  lists.both("a scalar", {{type, {}}});
  lists.apart("transposed against backwards", {{type, {40, 50}, {1, 40}}},
              {{type, {40, 50}, {-50, -1}}});
}

std::vector<TensorSpec> of_sizes(DLDataType type, std::size_t members,
                                 std::int64_t (*size)(std::int64_t member)) {
  std::vector<TensorSpec> list;
  for (std::size_t i = 0; i < members; ++i)
    list.push_back({type, {size(static_cast<std::int64_t>(i))}});
  return list;
}

// The same one behind the other in memory, but for a gap before every `run`th.
std::vector<TensorSpec> in_runs(std::vector<TensorSpec> list, std::size_t run) {
  for (std::size_t i = 0; i < list.size(); ++i) list[i].behind = i % run != 0;
  return list;
}

// Flat buffers: members that lie one behind the other, all of them or some.
void add_runs(Lists& lists, DLDataType type) {
  const auto equal = of_sizes(type, 300, [](std::int64_t) { return std::int64_t{1024}; });
  const auto odd = of_sizes(type, 450, [](std::int64_t i) { return i * 37 % 255 + 1; });
  const auto some_empty = of_sizes(type, 450, [](std::int64_t i) { return i * 37 % 256 / 3; });
  for (const std::size_t run : {std::size_t{2}, std::size_t{7}, std::size_t{300}})
    lists.both("300 tensors of 1024, " + std::to_string(run) + " in a buffer", in_runs(equal, run));
  // Around how many buffers have few parameters, in place and not: of 3, and of 4 to 10.
  for (const std::size_t run : {450, 150, 113, 90, 75, 65, 57, 50, 45, 3})
    lists.both("450 tensors of 1 to 255, " + std::to_string(run) + " in a buffer",
               in_runs(odd, run));
  lists.both("450 tensors of 0 to 85, 100 in a buffer", in_runs(some_empty, 100));
  lists.apart("450 tensors of 0 to 85 in a buffer, out apart", in_runs(some_empty, 450),
              some_empty);
  const std::vector<TensorSpec> one = in_runs(odd, odd.size());
  lists.apart("450 tensors in a buffer, out apart", one, odd);
  lists.apart("450 tensors apart, out in a buffer", odd, one);
  lists.apart("450 tensors in buffers that begin otherwise", in_runs(odd, 100), in_runs(odd, 99));
  std::vector<TensorSpec> moved = one;
  moved[0].offset = 1;
  lists.apart("450 tensors in a buffer, out otherwise aligned", one, moved);
  lists.both("450 tensors in a buffer that begins anywhere", moved);
  lists.both(
      "small around a large one in a buffer",
      in_runs(of_sizes(type, 41,
                       [](std::int64_t i) { return i == 20 ? std::int64_t{1} << 21 : i * i; }),
              41));
}

}  // namespace

std::vector<ListPair> edge_lists(DLDataType type) {
  Lists lists(twinops_type_name(type));
  for (const std::int64_t n : kSmall)
    lists.both("one tensor of " + std::to_string(n), {{type, {n}}});
  for (const std::int64_t n : kLarge)
    lists.both("one tensor of " + std::to_string(n), {{type, {n}}});
  add_unaligned(lists, type);
  add_strided(lists, type);
  add_runs(lists, type);

  lists.both("tensors of 0 to 99", of_sizes(type, 100, [](std::int64_t i) { return i; }));
  lists.both("three empty tensors", {{type, {0}}, {type, {3, 0, 2}}, {type, {0, 5}}});
  lists.both("300 tensors of 1024",
             of_sizes(type, 300, [](std::int64_t) { return std::int64_t{1024}; }));
  // More than the parameters of one launch hold.
  lists.both("2000 tensors of 0 to 255",
             of_sizes(type, 2000, [](std::int64_t i) { return i * 37 % 256; }));
  lists.both("7000 tensors of 1 to 3",
             of_sizes(type, 7000, [](std::int64_t i) { return i % 3 + 1; }));
  // Around 2 MiB, where a CUDA launch begins to give a thread several vectors of 16
  // bytes; and tensors that share its blocks below, at and above that.
  const std::int64_t wave = (std::int64_t{1} << 21) / static_cast<std::int64_t>(size_of(type));
  for (const std::int64_t n : {wave - 1, wave, wave + 1})
    if (std::ranges::find(kLarge, n) == std::end(kLarge))  // those are there already
      lists.over("one tensor of " + std::to_string(n), {{type, {n}}});
  lists.both("300 tensors of 0 to 1196", of_sizes(type, 300, [](std::int64_t i) { return 4 * i; }));
  lists.both("500 tensors of 0 to 1996", of_sizes(type, 500, [](std::int64_t i) { return 4 * i; }));
  lists.both("999 tensors of 0 to 998", of_sizes(type, 999, [](std::int64_t i) { return i; }));
  lists.both("small around a large one", of_sizes(type, 41, [](std::int64_t i) {
               return i == 20 ? std::int64_t{200003} : i * i;
             }));
  return std::move(lists).take();
}

std::vector<ListPair> model_lists(DLDataType type) {
  Lists lists(twinops_type_name(type));
  lists.apart("resnet50", tensors_of(shape_list("resnet50"), type),
              tensors_of(shape_list("resnet50"), type));
  if (type.bits == 64) return std::move(lists).take();
  lists.over("gpt2_small", tensors_of(shape_list("gpt2_small"), type));
  if (type.bits == 16) lists.over("ernie_3.0_base", tensors_of(shape_list("ernie_3.0_base"), type));
  if (type.code == kDLFloat && type.bits == 16)
    lists.over("bert_large", tensors_of(shape_list("bert_large"), type));
  return std::move(lists).take();
}

std::vector<ListPair> mixed_lists() {
  Lists lists("mixed");
  lists.apart("no tensors", {}, {});
  std::vector<TensorSpec> sizes, shifted, turned;
  for (std::int64_t i = 0; i < 200; ++i) {
    const DLDataType type = kFloatingTypes[i * 7 % 4];
    sizes.push_back({type, {i * 131 % 700}});
    shifted.push_back({type, {i * 17 % 300}, {}, i % 8});
    turned.push_back(i % 3 == 0 ? TensorSpec{type, {i % 20 + 1, 7}, {1, i % 20 + 1}, i % 5}
                                : TensorSpec{type, {i % 20 + 1, 7}});
  }
  lists.both("200 tensors of four types", sizes);
  lists.both("200 tensors that begin anywhere", shifted);
  lists.both("200 tensors, every third transposed", turned);
  std::vector<TensorSpec> some = shifted;
  for (std::size_t i = 0; i < some.size(); i += 2) some[i].over = "x";
  lists.apart("200 tensors, every second in place", shifted, some);
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    sizes[i].shape = {static_cast<std::int64_t>(i) * 131 % 700 / 4 * 4};
    sizes[i].behind = i != 0;
  }
  lists.both("200 tensors of four types in a buffer", sizes);
  for (std::size_t i = 0; i < sizes.size(); ++i) sizes[i].type = kFloatingTypes[i / 50];
  lists.both("50 tensors of each of four types in a buffer", sizes);
  return std::move(lists).take();
}

}  // namespace proof
