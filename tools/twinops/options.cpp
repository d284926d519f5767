#include "tools/twinops/options.hpp"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <set>

namespace command {
namespace {

using Names = std::vector<std::string>;

Names split(const std::string& text) {
  Names names;
  for (std::string::size_type at = 0; at <= text.size();) {
    const auto comma = std::min(text.find(',', at), text.size());
    names.push_back(text.substr(at, comma - at));
    at = comma + 1;
  }
  return names;
}

std::string join(const Names& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
  return text;
}

bool has(const Names& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

template <class N>
N read_number(const std::string& option, const std::string& text, N least) {
  N number{};
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || rest != text.data() + text.size() || number < least)
    throw UsageError(option + ": expected a number, " + std::to_string(least) + " or more; got '" +
                     text + "'");
  return number;
}

// The names asked for, all of which must be among `known`; all of them if none was asked for.
Names choose(const char* option, const Names& asked, const Names& known) {
  for (const std::string& name : asked)
    if (!has(known, name))
      throw UsageError(std::string(option) + ": there is no '" + name + "'; there are " +
                       join(known));
  return asked.empty() ? known : asked;
}

struct Asked {
  Names ops, types, rows;
};

// Every operator of the library must have cases: one without would be passed unseen.
void choose_cases(const Asked& asked, Options& options) {
  Names ops, types;
  std::set<std::string> with_cases;
  for (const proof::OperatorCases& op : proof::operator_cases()) with_cases.insert(op.op);
  for (std::size_t i = 0; i < twinops_operator_count(); ++i) {
    ops.push_back(twinops_operator_at(i)->name);
    if (with_cases.count(ops.back()) == 0)
      throw std::runtime_error("operator " + ops.back() + " has no cases in tools/proof");
  }
  const Names chosen = choose("--op", asked.ops, ops);
  for (const proof::OperatorCases& op : proof::operator_cases()) {
    if (!has(chosen, op.op)) continue;
    options.operators.push_back({op.op, op.make()});
    for (const proof::Case& c : options.operators.back().cases)
      if (!has(types, c.type)) types.push_back(c.type);
  }
  const Names chosen_types = choose("--dtype", asked.types, types);
  std::size_t left = 0;
  for (Options::Selected& selected : options.operators) {
    std::erase_if(selected.cases, [&](const proof::Case& c) {
      return !has(chosen_types, c.type) || c.name.find(options.name) == std::string::npos ||
             (options.max_elements && c.elements > *options.max_elements);
    });
    std::stable_sort(selected.cases.begin(), selected.cases.end(),
                     [&](const proof::Case& a, const proof::Case& b) {
                       const auto order = [&](const proof::Case& c) {
                         return std::find(types.begin(), types.end(), c.type);
                       };
                       return order(a) < order(b);
                     });
    left += selected.cases.size();
  }
  if (left == 0) throw UsageError("no case is left to check");
}

bool is_row(const std::string& asked, const std::string& row) {
  return asked == row || asked == row.substr(0, row.find('/'));
}

void choose_rows(const Asked& asked, Options& options) {
  Names names;
  for (std::size_t i = 0; i < twinops_row_count(); ++i) names.push_back(twinops_row_at(i)->name);
  for (const std::string& name : asked.rows) {
    std::string why;
    bool known = false, available = false;
    for (std::size_t i = 0; i < twinops_row_count(); ++i) {
      const twinops_row& row = *twinops_row_at(i);
      if (!is_row(name, row.name)) continue;
      known = true;
      available |= row.available != 0;
      if (!row.available) why = row.why_not;
    }
    if (!known)
      throw UsageError("--row: there is no '" + name + "'; there are " + join(names) +
                       ", and cpu, cuda for all of a kind");
    if (!available) throw UsageError("--row: " + name + " is not available here: " + why);
  }
  for (const std::string& row : twinops::available_rows()) {
    const bool wanted = std::any_of(asked.rows.begin(), asked.rows.end(),
                                    [&](const std::string& name) { return is_row(name, row); });
    if (asked.rows.empty() ? row != kReferenceRow : wanted) options.rows.push_back(row);
  }
  if (options.rows.empty()) options.rows.emplace_back(kReferenceRow);
  if (const char* fault = std::getenv("TWINOPS_CROSSCHECK_FAULT"); fault != nullptr && *fault) {
    options.fault = fault;
    if (!has(options.rows, fault))
      throw UsageError("TWINOPS_CROSSCHECK_FAULT: '" + options.fault +
                       "' is not among the rows to check: " + join(options.rows));
  }
}

}  // namespace

Options read_options(const Arguments& arguments) {
  Options options;
  Asked asked;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    std::string name = arguments[i], value;
    if (name == "--help" || name == "-h") {
      options.help = true;
      return options;
    }
    if (name == "--list") {
      options.list = true;
      continue;
    }
    const Names known{"--op",   "--dtype",        "--row",  "--case",   "--threads",
                      "--seed", "--max-elements", "--json", "--record", "--golden"};
    if (const auto equals = name.find('='); equals != std::string::npos) {
      value = name.substr(equals + 1);
      name.resize(equals);
    } else if (has(known, name)) {
      if (++i == arguments.size()) throw UsageError(name + ": its value is missing");
      value = arguments[i];
    }
    if (!has(known, name)) throw UsageError("crosscheck has no option '" + name + "'");
    if (value.empty()) throw UsageError(name + ": its value is empty");
    if (name == "--op") asked.ops = split(value);
    if (name == "--dtype") asked.types = split(value);
    if (name == "--row") asked.rows = split(value);
    if (name == "--case") options.name = value;
    if (name == "--json") options.json = value;
    if (name == "--record") options.record = value;
    if (name == "--golden") options.golden = value;
    if (name == "--seed") options.seed = read_number<std::uint64_t>(name, value, 0);
    if (name == "--max-elements") options.max_elements = read_number<std::int64_t>(name, value, 0);
    if (name == "--threads") {
      options.threads.clear();
      for (const std::string& n : split(value))
        options.threads.push_back(read_number<int>(name, n, 0));
    }
  }
  if (!options.record.empty() && !options.name.empty())
    throw UsageError("--record: a file holds all cases of a type; --case would leave some out");
  choose_cases(asked, options);
  choose_rows(asked, options);
  return options;
}

}  // namespace command
