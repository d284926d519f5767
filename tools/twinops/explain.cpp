// twinops explain: which kernel row a call takes, and, for the softmax family, which of the CUDA
// kernels takes rows of a shape.
#include <charconv>
#include <cstdio>

#include "kernels_cuda/softmax/choice.hpp"
#include "tools/twinops/command.hpp"
#include "twinops/twinops.hpp"

namespace command {
namespace {

namespace t = twinops;

struct Question {
  std::string op, dtype, out_dtype;
  std::int64_t rows = 1, length = 0;
  bool masked = false;
};

void read_shape(const std::string& text, Question& asked) {
  const char *at = text.data(), *const end = at + text.size();
  for (asked.length = 1;; ++at) {
    std::int64_t size = 0;
    const auto [rest, error] = std::from_chars(at, end, size);
    if (error != std::errc() || size < 1 || (rest != end && *rest != 'x') ||
        asked.rows > (std::int64_t{1} << 40) / size)
      throw UsageError("--shape: expected sizes of axes such as 64x50257; got '" + text + "'");
    asked.rows *= asked.length;
    asked.length = size;
    at = rest;
    if (rest == end) return;
  }
}

Question read_question(const Arguments& arguments) {
  Question asked;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const std::string& name = arguments[i];
    if (name == "--masked") {
      asked.masked = true;
      continue;
    }
    if (name != "--op" && name != "--shape" && name != "--dtype" && name != "--out-dtype")
      throw UsageError("explain has no option '" + name + "'");
    if (++i == arguments.size()) throw UsageError(name + ": its value is missing");
    if (name == "--op") asked.op = arguments[i];
    if (name == "--shape") read_shape(arguments[i], asked);
    if (name == "--dtype") asked.dtype = arguments[i];
    if (name == "--out-dtype") asked.out_dtype = arguments[i];
  }
  for (const auto& [name, missing] : {std::pair{"--op", asked.op.empty()},
                                      {"--shape", asked.length == 0},
                                      {"--dtype", asked.dtype.empty()}})
    if (missing) throw UsageError(std::string("explain: ") + name + " is missing");
  if (asked.out_dtype.empty()) asked.out_dtype = asked.dtype;
  return asked;
}

t::Type read_type(const char* option, const std::string& name) {
  for (const t::Type type :
       {t::Type::float16, t::Type::bfloat16, t::Type::float32, t::Type::float64})
    if (name == t::name(type)) return type;
  throw UsageError(std::string(option) + ": expected float16, bfloat16, float32 or float64; got '" +
                   name + "'");
}

// "8 lanes a row, 5 vectors of 16 bytes each"
std::string lanes_of(const t::PathLine& line, const t::RowTypes& types, std::int64_t length) {
  const bool staged = line.path == t::Path::staged;
  const int V = staged ? 4 / types.bytes() : types.vector();
  const bool unaligned = types.unaligned() || (line.shapes == t::Shapes::coarse && V > 1);
  const t::LaneShapes shapes = staged ? t::staged_shapes(line.shapes, types.bytes())
                                      : t::lane_shapes(line.shapes, V, unaligned);
  for (const t::LaneShape& shape : shapes)
    if (length <= (staged ? t::most_staged(shape, V) : t::most_elements(shape, V, unaligned)))
      return std::to_string(shape.lanes) + (shape.lanes == 1 ? " lane" : " lanes") + " a row, " +
             std::to_string(shape.count) +
             (staged   ? " words of 4 bytes"
              : V == 1 ? " elements"
                       : " vectors of 16 bytes") +
             " each";
  return "";
}

// What the kernels of an architecture have, "90" of "cuda/sm_90".
t::PathDevice device_of(int architecture) {
  const bool clusters = architecture >= 90, large = clusters && architecture < 110;
  return {clusters, large ? t::kMostBlocksOfRow : clusters ? 8 : 1};
}

void print_choice(const Question& asked, const t::RowTypes& types, int architecture) {
  const bool grad = asked.op.ends_with("_grad"), log = asked.op.starts_with("log_");
  const t::PathTable table = grad ? t::softmax_grad_paths(log, types) : t::softmax_paths(types);
  const int warps = grad ? t::grad_warps(types.bytes()) : t::row_warps(types.bytes());
  const unsigned row = asked.masked && !grad ? t::kMaskedRows : t::kSimpleRows;
  const int taken =
      t::choose(table, asked.length, row, types.unaligned(), warps, device_of(architecture));
  std::printf("\non a GPU with code for compute capability %d.%d\n", architecture / 10,
              architecture % 10);
  for (int i = 0; i < table.size(); ++i) {
    const t::PathLine& line = table[i];
    if ((line.rows & row) == 0) continue;
    const t::PathText& text = t::kPaths[static_cast<int>(line.path)];
    const std::string limit = line.path == t::Path::two_pass ? "of any length"
                              : line.beyond == 0 ? "of up to " + std::to_string(line.most)
                                                 : "of " + std::to_string(line.beyond + 1) +
                                                       " to " + std::to_string(line.most);
    std::string what = text.what;
    if (line.most_left < t::kFoldChunk)
      what += ", of up to " + std::to_string(line.most_left) + " elements";
    std::printf("%s %-14s rows %-20s %s\n", i == taken ? "->" : "  ", text.name, limit.c_str(),
                what.c_str());
    if (i == taken && (line.path == t::Path::staged || line.path == t::Path::warp))
      std::printf("   %-14s %s\n", "", lanes_of(line, types, asked.length).c_str());
  }
}

void explain_softmax(const Question& asked) {
  if (asked.op != "softmax" && asked.op != "log_softmax" && asked.op != "softmax_grad" &&
      asked.op != "log_softmax_grad")
    throw UsageError(
        "--op: explain knows softmax, log_softmax, softmax_grad, log_softmax_grad; "
        "got '" +
        asked.op + "'");
  const t::Type in = read_type("--dtype", asked.dtype),
                out = read_type("--out-dtype", asked.out_dtype);
  if (in != out && in != t::Type::float32 && out != t::Type::float32)
    throw UsageError("--out-dtype: of two types one is float32");
  if (in != out && (in == t::Type::float64 || out == t::Type::float64))
    throw UsageError("--out-dtype: float64 is read and written as it is");
  const bool whole = asked.length % (16 / static_cast<std::int64_t>(t::size_of(in))) == 0;
  // Gradients under a mask go element by element.
  const bool grad = asked.op.ends_with("_grad");
  const t::Alignment alignment = asked.masked && grad ? t::Alignment::none
                                 : whole              ? t::Alignment::aligned
                                                      : t::Alignment::unaligned;
  const t::Type x = grad ? out : in, y = grad ? in : out;
  const t::RowTypes types{in, out, t::kernels_alignment(x, y, alignment)};
  std::printf("%s of %lld rows of %lld elements, %s to %s, contiguous%s\n", asked.op.c_str(),
              static_cast<long long>(asked.rows), static_cast<long long>(asked.length), t::name(in),
              t::name(out), asked.masked ? ", under a scale or a mask" : "");
  std::printf(
      "Rows take the first kernel below that holds them and that the device has room for.\n");
  bool printed = false;
  for (std::size_t i = 0; i < twinops_device_count(); ++i) {
    const std::string name = twinops_device_at(i)->row;
    if (!name.starts_with("cuda/sm_")) continue;
    print_choice(asked, types, std::atoi(name.c_str() + 8));
    printed = true;
  }
  if (!printed) print_choice(asked, types, 90);
}

}  // namespace

int explain(const Arguments& arguments) {
  if (!arguments.empty()) {
    explain_softmax(read_question(arguments));
    return 0;
  }
  std::printf("tensors on cpu\n%s", t::explain(t::kHost).c_str());
  for (std::size_t i = 0; i < twinops_device_count(); ++i) {
    const DLDevice device{kDLCUDA, static_cast<int>(i)};
    std::printf("\ntensors on cuda:%zu\n%s", i, t::explain(device).c_str());
  }
  return 0;
}

}  // namespace command
