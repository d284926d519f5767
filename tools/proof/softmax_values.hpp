// Values for the softmax family's cases.
#pragma once

#include "tools/proof/problem.hpp"

namespace proof {

// What the last layer of a network gives: between -12 and 12, most of them small.
Fill logits();
// Where the weights leave the range of the type, chunks join at far powers of two, and elements are
// -infinity.
Fill steep();
// Chunks ever further below the first one, to both sides of where their division takes two steps,
// and down to where nothing is left. inner: how many rows lie side by side.
Fill cliffs(std::int64_t inner = 1);
// So large that a row must first be moved by its maximum: the steps between numbers are of the size
// of the interesting differences.
Fill far();
Fill all_masked();  // -infinity
// Probabilities, and their logarithms.
Fill probabilities();
Fill log_probabilities();
Fill low_log_probabilities();  // on both sides of where exp() of them is a normal number

// Masks: bytes, one in so many not 0; numbers in [-2, 2), one in so many -infinity.
Fill some_bytes(int one_in);
Fill biases(int one_in);
// One value at every nth element from the first on, another elsewhere; where that is NaN, numbers
// in [-4, 4).
Fill every_nth(std::int64_t n, double there, double elsewhere, std::int64_t first = 0);

}  // namespace proof
