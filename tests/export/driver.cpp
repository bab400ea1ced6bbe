// Multiplies by exported classes: driver NAME INPUT OUTPUT, INPUT a matrix file with x after it, and an order of the rows if
// one is given. `driver order INPUT OUTPUT` writes the order that is found; `driver errors` checks what the classes refuse.
// The test includes the exported headers, or sources, before this file, and defines CASES, FIRST and CLUSTERED.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace {

template <class T>
std::vector<T> read(std::ifstream& file, std::size_t count)
{
    std::vector<T> numbers(count);
    file.read(reinterpret_cast<char*>(numbers.data()), static_cast<std::streamsize>(count * sizeof(T)));
    if (!file)
        std::abort();
    return numbers;
}

template <class Matrix, class MatrixEntry>
constexpr bool takes_order =
    std::is_constructible_v<Matrix, int, const int*, const int*, const MatrixEntry*, cudaStream_t, const int*>;

template <class Matrix, class MatrixEntry>
constexpr bool takes_rectangular =
    std::is_constructible_v<Matrix, int, int, const int*, const int*, const MatrixEntry*, cudaStream_t>;

template <class Matrix, class MatrixEntry, class... Order>
Matrix make(int n, int column_count, const int* row_pointers, const int* columns, const MatrixEntry* values, Order... order)
{
    if (n == column_count)
        return Matrix(n, row_pointers, columns, values, nullptr, order...);
    if constexpr (takes_rectangular<Matrix, MatrixEntry>)
        return Matrix(n, column_count, row_pointers, columns, values, nullptr, order...);
    std::abort();
}

/// Reads the sizes: rows, non-zeros, columns.
std::vector<std::int64_t> read_sizes(std::ifstream& file)
{
    std::string kind;
    std::getline(file, kind);
    const bool square = kind.find("rectangular") == std::string::npos;
    auto sizes = read<std::int64_t>(file, square ? 2 : 3);
    sizes.resize(3, sizes[0]);
    return sizes;
}

template <class Matrix, class Vector, class MatrixEntry, class VectorEntry>
int run(const char* input, const char* output)
{
    std::ifstream file(input, std::ios::binary);
    const auto sizes = read_sizes(file);
    const int n = static_cast<int>(sizes[0]), column_count = static_cast<int>(sizes[2]);
    const auto row_pointers = read<int>(file, n + 1);
    const auto columns = read<int>(file, sizes[1]);
    const auto values = read<MatrixEntry>(file, sizes[1]);
    const auto entries = read<VectorEntry>(file, column_count);

    Matrix built = make<Matrix>(n, column_count, row_pointers.data(), columns.data(), values.data());
    if constexpr (takes_order<Matrix, MatrixEntry>)
        if (file.peek() != EOF)
            built = make<Matrix>(
                n, column_count, row_pointers.data(), columns.data(), values.data(),
                static_cast<const int*>(read<int>(file, n).data()));
    const Matrix A(std::move(built));
    const Vector x(column_count, entries.data());
    Vector y(n);
    for (int i = 0; i < 2; ++i)  // the second time as the first
        multiply(A, x, y);
    const int blocks = host::grid, stride = host::numbers.at(2);
    std::vector<VectorEntry> product(n), back(column_count);
    y.download(product.data());
    x.download(back.data());
    std::ofstream result(output, std::ios::binary);
    for (const auto* numbers : {&product, &back})
        result.write(reinterpret_cast<const char*>(numbers->data()), static_cast<std::streamsize>(numbers->size() * sizeof(VectorEntry)));
    std::printf("%d slots, %zu bytes, stride %d, %d blocks\n", A.slots(), A.bytes(), stride, blocks);
    return result ? 0 : 1;
}

int find_order(const char* input, const char* output)
{
    std::ifstream file(input, std::ios::binary);
    const auto sizes = read_sizes(file);
    const auto row_pointers = read<int>(file, sizes[0] + 1);
    const auto columns = read<int>(file, sizes[1]);
    const int n = static_cast<int>(sizes[0]), column_count = static_cast<int>(sizes[2]);
    const auto order = n == column_count
        ? CLUSTERED::cluster_rows(n, row_pointers.data(), columns.data())
        : CLUSTERED::cluster_rows(n, column_count, row_pointers.data(), columns.data());
    std::ofstream result(output, std::ios::binary);
    result.write(reinterpret_cast<const char*>(order.data()), static_cast<std::streamsize>(order.size() * sizeof(int)));
    return result ? 0 : 1;
}

template <class Error, class Action>
void expect(const char* what, Action action)
{
    try {
        action();
    } catch (const Error& error) {
        std::printf("%s: %s\n", what, error.what());
        return;
    }
    std::printf("%s: not refused\n", what);
    std::exit(1);
}

template <class Matrix, class Vector, class MatrixEntry>
int errors()
{
    const std::vector<MatrixEntry> values(3);
    const auto make = [&](int n, std::vector<int> row_pointers, std::vector<int> columns) {
        return Matrix(n, row_pointers.data(), columns.data(), values.data());
    };
    const Matrix A = make(2, {0, 2, 3}, {0, 1, 1});
    Vector x(2), y(2), longer(3);
    multiply(A, x, y);
    expect<std::invalid_argument>("no rows", [&] { make(0, {0}, {}); });
    expect<std::invalid_argument>("not from 0", [&] { make(2, {1, 2, 3}, {0, 1, 1}); });
    expect<std::invalid_argument>("descending", [&] { make(2, {0, 3, 2}, {0, 1, 1}); });
    expect<std::invalid_argument>("negative", [&] { make(2, {0, 1, -1}, {0, 1, 1}); });
    expect<std::invalid_argument>("column too large", [&] { make(2, {0, 2, 3}, {0, 2, 1}); });
    expect<std::invalid_argument>("column too small", [&] { make(2, {0, 2, 3}, {0, -1, 1}); });
    expect<std::invalid_argument>("vector too long", [&] { multiply(A, longer, y); });
    expect<std::invalid_argument>("in place", [&] { multiply(A, x, x); });
    expect<std::invalid_argument>("empty vector", [&] { Vector(0); });
    const auto in_order = [&](std::vector<int> order) {
        const std::vector<int> row_pointers{0, 2, 3}, columns{0, 1, 1};
        const std::vector<CLUSTERED::MatrixEntry> clustered(3);
        CLUSTERED::Matrix(2, row_pointers.data(), columns.data(), clustered.data(), nullptr, order.data());
    };
    in_order({1, 0});
    expect<std::invalid_argument>("row twice", [&] { in_order({1, 1}); });
    expect<std::invalid_argument>("row too large", [&] { in_order({0, 2}); });
    expect<std::invalid_argument>("row too small", [&] { in_order({-1, 0}); });
    return 0;
}

}  // namespace

int main(int count, char** words)
{
    const std::string what = count > 1 ? words[1] : "";
    if (what == "errors")
        return errors<FIRST::Matrix, FIRST::Vector, FIRST::MatrixEntry>();
    if (what == "order")
        return find_order(words[2], words[3]);
#define CASE(name) \
    if (what == #name) \
        return run<name::Matrix, name::Vector, name::MatrixEntry, name::VectorEntry>(words[2], words[3]);
    CASES
    return 2;
}
