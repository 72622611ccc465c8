"""What the bundle method minimises: one loss per file, each with its slope in every score."""
