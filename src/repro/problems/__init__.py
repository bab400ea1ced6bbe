"""Problems: matrices and fields with origin and statistics, downloaded, generated or read from a user's file."""
