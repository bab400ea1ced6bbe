/*
 * The harness compiles REPRO_RIVAL_CHECK(name) behind a kernel for y = A x. `extern "C"` hides the types of parameters: a
 * kernel that has them in another order would compile, and be wrong or crash.
 */
#ifndef REPRO_RIVAL_KERNEL_H
#define REPRO_RIVAL_KERNEL_H

#include <cstddef>
#include <type_traits>

namespace repro_rival_kernel {

template <class T>
constexpr bool of_integers(std::size_t bytes) {
  if constexpr (std::is_integral_v<T>)
    return sizeof(T) == bytes;
  else
    return std::is_void_v<T>;
}

/* A class may be several numbers, such as double2. */
template <class T>
constexpr bool of_numbers =
    std::is_void_v<T> || std::is_class_v<T> || std::is_same_v<std::remove_cv_t<T>, REPRO_RIVAL_REAL>;

template <class T>
struct type {
  static_assert(!std::is_same_v<T, T>, "a kernel has six parameters: int rows; pointers offsets, indices, values, x, y");
};

template <class Rows, class Offsets, class Indices, class Values, class X, class Y>
struct type<void(Rows, Offsets *, Indices *, Values *, X *, Y *)> {
  static_assert(std::is_integral_v<Rows> && sizeof(Rows) == 4, "parameter 1 of the kernel, rows, has to be int");
  static_assert(of_integers<Offsets>(sizeof(REPRO_RIVAL_OFFSET)), "parameter 2, offsets, has to be const repro_rival_offset *");
  static_assert(of_integers<Indices>(4), "parameter 3, indices, has to be const int *");
  static_assert(of_numbers<Values>, "parameter 4, values, has to be const repro_rival_real *");
  static_assert(of_numbers<X>, "parameter 5, x, has to be const repro_rival_real *");
  static_assert(of_numbers<Y> && !std::is_const_v<Y>, "parameter 6, y, has to be repro_rival_real *");
};

} // namespace repro_rival_kernel

#define REPRO_RIVAL_CHECK(name) template struct repro_rival_kernel::type<decltype(name)>;

#endif
