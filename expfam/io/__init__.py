"""Files: tables to read, models to save and load."""
