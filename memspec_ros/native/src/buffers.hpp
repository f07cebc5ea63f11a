// Copyright 2026 The memspec_ros authors
// SPDX-License-Identifier: Apache-2.0
//
// Memory that a decoder takes once.

#ifndef BUFFERS_HPP_
#define BUFFERS_HPP_

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <new>
#include <utility>

#include "kernels.hpp"

namespace memspec
{

// An array on a cache line's border, zeroed.
template<class T>
class Array
{
public:
  Array() = default;
  explicit Array(size_t count)
  : bytes_((count * sizeof(T) + 63) / 64 * 64)
  {
    if (bytes_ == 0) {
      return;
    }
    data_ = static_cast<T *>(std::aligned_alloc(64, bytes_));
    if (!data_) {
      throw std::bad_alloc();
    }
    std::memset(static_cast<void *>(data_), 0, bytes_);
  }
  ~Array() {std::free(data_);}
  Array(Array && other) noexcept {swap(other);}
  Array & operator=(Array && other) noexcept
  {
    swap(other);
    return *this;
  }
  Array(const Array &) = delete;
  Array & operator=(const Array &) = delete;

  T * get() const {return data_;}
  T & operator[](size_t i) const {return data_[i];}
  size_t bytes() const {return bytes_;}

private:
  void swap(Array & other) noexcept
  {
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
  }

  T * data_ = nullptr;
  size_t bytes_ = 0;
};

// Room for activations, [num_rows, columns].
class RowsBuffer
{
public:
  RowsBuffer() = default;
  RowsBuffer(int num_rows, int columns)
  : stride_((columns + kCodeGroup - 1) / kCodeGroup * kCodeGroup),
    capacity_(spread(num_rows)), values_(static_cast<size_t>(num_rows) * stride_),
    codes_(capacity_ * stride_), scales_(groups()), sums_(groups()), code_sums_(groups()) {}

  Rows rows() const
  {
    return {values_.get(), codes_.get(), scales_.get(), sums_.get(), code_sums_.get(), stride_,
      capacity_};
  }
  bool holds(int num_rows, int columns) const
  {
    return num_rows <= capacity_ - 2 && columns <= stride_;
  }
  size_t bytes() const
  {
    return values_.bytes() + codes_.bytes() + scales_.bytes() + sums_.bytes() +
           code_sums_.bytes();
  }

private:
  // An odd number of cache lines a group, so that the groups of a tile do not all fall into one
  // set of the cache.
  static ptrdiff_t spread(int num_rows) {return (num_rows + 3) / 4 * 4 + 2;}
  size_t groups() const {return static_cast<size_t>(capacity_ * stride_ / kCodeGroup);}

  ptrdiff_t stride_ = 0;
  ptrdiff_t capacity_ = 2;
  Array<float> values_;
  Array<int8_t> codes_;
  Array<float> scales_;
  Array<float> sums_;
  Array<int32_t> code_sums_;
};

}  // namespace memspec

#endif  // BUFFERS_HPP_
