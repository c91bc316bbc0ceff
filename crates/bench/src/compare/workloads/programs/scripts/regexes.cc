#include <algorithm>
#include <functional>
#include <iostream>
#include <map>
#include <random>
#include <regex>
#include <string>
#include <tuple>
#include <unordered_map>
#include <vector>
template <int N> struct Table {
    std::map<std::string, std::vector<std::tuple<int, std::string>>> rows;
    std::unordered_map<int, std::function<int(int)>> calls;
    int use(const std::string &text) {
        rows[text].emplace_back(N, text);
        calls[N] = [](int x) { return x * N; };
        std::sort(rows[text].begin(), rows[text].end());
        return calls[N](1) + Table<N - 1>().use(text) + std::regex_search(text, std::regex("a+b"));
    }
};
template <> struct Table<0> { int use(const std::string &) { return 0; } };
int main() { std::cout << Table<60>().use("aab") << "\n"; }
