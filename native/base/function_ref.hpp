// A reference to something callable: an argument that is not kept beyond the call it is given to.
#pragma once

namespace mtkit {

template <typename... Args> class FunctionRef {
  public:
    template <typename Target>
    FunctionRef(const Target &target)
        : target_(&target), run_([](const void *object, Args... args) {
              (*static_cast<const Target *>(object))(args...);
          }) {}
    void operator()(Args... args) const { run_(target_, args...); }

  private:
    const void *target_;
    void (*run_)(const void *, Args...);
};

} // namespace mtkit
