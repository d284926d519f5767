#include "tools/proof/lists.hpp"

#include <sstream>
#include <stdexcept>

#include "tools/proof/lists_data.hpp"

namespace proof {
namespace {

ShapeList read(const char* name, const char* text) {
  ShapeList list{name, {}, 0};
  std::size_t tensors = 0;
  std::int64_t elements = -1;
  std::istringstream lines(text);
  for (std::string line, word; std::getline(lines, line);) {
    std::istringstream words(line);
    if (!(words >> word) || word[0] == '#') continue;
    if (word == "total") {
      words >> tensors >> elements;
      continue;
    }
    auto& shape = list.shapes.emplace_back();
    std::int64_t count = 1;
    for (std::int64_t d = 0; words >> d; count *= d) shape.push_back(d);
    if (!words.eof() || count <= 0)
      throw std::runtime_error("lists/" + list.name + ".txt: cannot read '" + line + "'");
    list.elements += count;
  }
  if (list.shapes.size() != tensors || list.elements != elements)
    throw std::runtime_error("lists/" + list.name + ".txt: has " +
                             std::to_string(list.shapes.size()) + " tensors of " +
                             std::to_string(list.elements) + " elements; its total line says " +
                             std::to_string(tensors) + " and " + std::to_string(elements));
  return list;
}

}  // namespace

const std::vector<ShapeList>& shape_lists() {
  static const auto lists = [] {
    std::vector<ShapeList> made;
    for (const ListData& data : kListData) made.push_back(read(data.name, data.text));
    return made;
  }();
  return lists;
}

const ShapeList& shape_list(const std::string& name) {
  for (const ShapeList& list : shape_lists())
    if (list.name == name) return list;
  throw std::runtime_error("no list of shapes is named '" + name + "'");
}

std::vector<TensorSpec> tensors_of(const ShapeList& list, DLDataType type) {
  std::vector<TensorSpec> tensors;
  for (const auto& shape : list.shapes) tensors.push_back({type, shape});
  return tensors;
}

}  // namespace proof
