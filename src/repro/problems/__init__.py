"""Problems: matrices and fields with origin and statistics; they are downloaded, generated or read from a user's file."""
