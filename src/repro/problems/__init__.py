"""Problems: matrices and fields with their origin and statistics, which are downloaded or generated."""
