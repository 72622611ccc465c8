"""From which depth of feedback on a measure can be learned, and from which fast."""
