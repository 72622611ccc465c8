"""What several learners need."""
