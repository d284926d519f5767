// twinops info.
#include <cstdio>

#include "tools/twinops/command.hpp"
#include "twinops/twinops.hpp"

namespace command {
namespace {

void expect_none(const Arguments& arguments) {
  if (!arguments.empty()) throw UsageError("unexpected argument '" + arguments.front() + "'");
}

std::string explain_in_short(DLDevice device) {
  const std::string text = twinops::explain(device);
  const std::string::size_type at = text.find(": chosen");
  if (at == std::string::npos) return "none";
  return text.substr(text.rfind('\n', at) + 1, at - text.rfind('\n', at) - 1);
}

void print_devices() {
  std::printf("devices\n  %-8s kernels of %s\n", "cpu", explain_in_short(twinops::kHost).c_str());
  for (std::size_t i = 0; i < twinops_device_count(); ++i) {
    const twinops_device& d = *twinops_device_at(i);
    std::printf("  cuda:%-3zu %s, %s%s\n", i, d.name,
                d.usable ? "kernels of " : "not usable: ", d.usable ? d.row : d.why_not);
  }
}

void print_rows() {
  std::printf("\nkernel rows, best first\n");
  for (std::size_t i = 0; i < twinops_row_count(); ++i) {
    const twinops_row& row = *twinops_row_at(i);
    if (row.available)
      std::printf("  %-12s available\n", row.name);
    else
      std::printf("  %-12s not available: %s\n", row.name, row.why_not);
  }
}

std::string type_names(const twinops_argument_info& a) {
  std::string names;
  for (std::size_t i = 0; i < a.type_count; ++i)
    names += (names.empty() ? "" : ", ") + std::string(twinops_type_name(a.types[i]));
  return names;
}

std::string default_of(const twinops_attribute& a) {
  char text[64];
  switch (a.kind) {
    case TWINOPS_BOOL:
      return a.int_value != 0 ? "true" : "false";
    case TWINOPS_INT:
      return std::to_string(a.int_value);
    case TWINOPS_FLOAT:
      std::snprintf(text, sizeof(text), "%g", a.float_value);
      return text;
    default:
      return std::string("\"") + a.string_value + "\"";
  }
}

void print_operator(const twinops_operator_info& op) {
  constexpr const char* kKinds[] = {"bool", "int", "float", "string"};
  std::printf("\n%s\n  %s\n", op.name, op.doc);
  for (const bool outputs : {false, true}) {
    std::printf("  %s\n", outputs ? "outputs" : "inputs");
    for (std::size_t i = 0; i < op.argument_count; ++i) {
      const twinops_argument_info& a = *op.arguments[i];
      if ((a.is_output != 0) != outputs) continue;
      std::printf("    %-26s %s%s of %s\n    %-26s %s\n", a.name, a.is_required ? "" : "optional ",
                  a.is_list ? "list" : "tensor", type_names(a).c_str(), "", a.doc);
    }
  }
  if (op.attribute_count != 0) std::printf("  attributes\n");
  for (std::size_t i = 0; i < op.attribute_count; ++i) {
    const twinops_attribute_info& a = *op.attributes[i];
    const std::string kind =
        a.choices != nullptr ? std::string("one of ") + a.choices : kKinds[a.default_value.kind];
    std::printf("    %-26s %s, default %s\n    %-26s %s\n", a.default_value.name, kind.c_str(),
                default_of(a.default_value).c_str(), "", a.doc);
  }
}

}  // namespace

int info(const Arguments& arguments) {
  expect_none(arguments);
  std::printf("twinops %s, ABI version %d\n\n", twinops_version(), twinops_abi_version());
  print_devices();
  print_rows();
  std::printf("\noperators: %zu, each with a kernel in every row\n", twinops_operator_count());
  for (std::size_t i = 0; i < twinops_operator_count(); ++i)
    print_operator(*twinops_operator_at(i));
  return 0;
}

}  // namespace command
