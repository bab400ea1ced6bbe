"""Taking a tuned kernel away: a C++ header and CUDA source that need no Python."""
