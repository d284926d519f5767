#include "hosts/torch/attribute_text.hpp"

#include <charconv>
#include <cstring>
#include <stdexcept>
#include <string_view>

namespace twinops::torch_host {
namespace {

// As Python writes them.
bool read_value(const char* text, twinops_attribute& value) {
  const std::string_view word = text;
  switch (value.kind) {
    case TWINOPS_BOOL:
      value.int_value = word == "True";
      return word == "True" || word == "False";
    case TWINOPS_INT: {
      const char* const end = word.data() + word.size();
      const auto [rest, error] = std::from_chars(text, end, value.int_value);
      return error == std::errc() && rest == end;
    }
    default:
      value.string_value = text;
      return true;
  }
}

}  // namespace

void read_text(char* text, const Signature& signature, twinops_attribute* values) {
  const auto refuse = [&](const std::string& what) {
    throw std::runtime_error(std::string(signature.info->name) + ": attributes: " + what);
  };
  for (char* next = text; next != nullptr && *next != '\0';) {
    char* const name = next;
    if ((next = std::strchr(name, ';')) != nullptr) *next++ = '\0';
    char* const equals = std::strchr(name, '=');
    if (equals == nullptr) refuse("expected NAME=VALUE; got \"" + std::string(name) + "\"");
    *equals = '\0';
    size_t i = 0;
    while (i < signature.attributes.size() && signature.attributes[i].name != name) ++i;
    if (i == signature.attributes.size() || signature.attributes[i].is_apart())
      refuse("there is no \"" + std::string(name) + "\"");
    if (!read_value(equals + 1, values[i]))
      refuse(std::string(name) + ": got \"" + (equals + 1) + "\"");
  }
}

}  // namespace twinops::torch_host
