// SPDX-License-Identifier: Apache-2.0
// Math that several ops share. Like an op header it has no include guard: it comes before them (see families.hpp).
#include "epilogue/families.hpp"

namespace convt::core::CONVT_OPS {

using namespace value;

// Folds of a region or a window.
struct SumFold {
  template <class V>
  CONVT_FN V start() const {
    return V(0);
  }
  template <class V>
  CONVT_FN V join(V a, V b) const {
    return a + b;
  }
};
struct MaxFold {
  template <class V>
  CONVT_FN V start() const {
    return V(-infinity);
  }
  template <class V>
  CONVT_FN V join(V a, V b) const {
    return maximum(a, b);
  }
};
struct MinFold {
  template <class V>
  CONVT_FN V start() const {
    return V(infinity);
  }
  template <class V>
  CONVT_FN V join(V a, V b) const {
    return minimum(a, b);
  }
};

// Mean and inverse standard deviation: the statistics of every norm.
struct Norm : Normalise, SumFold {
  double eps = 1e-5;
  static constexpr bool unrolled = true;
  static constexpr bool two_pass = true;

  template <class V>
  CONVT_FN V centre(V folded, V count) const {
    return folded / count;
  }
  template <class V>
  CONVT_FN V deviation(V x, V centre) const {
    return (x - centre) * (x - centre);
  }
  template <class V>
  CONVT_FN V scale(V total, V count) const {
    return V(1) / sqrt(total / count + V(eps));
  }
  template <class V>
  CONVT_FN V map(V x, V centre, V scale) const {
    return (x - centre) * scale;
  }
};

}  // namespace convt::core::CONVT_OPS
