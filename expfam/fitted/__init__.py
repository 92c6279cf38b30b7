"""What fitted clusters say of rows: scores, labels, certainty, and doubts about known rows."""
