"""Tables of other libraries: read cell by cell, and made again in their own library."""
