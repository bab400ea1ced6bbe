"""Problems: fetched or built matrices with compound entries, their origin and statistics."""
