"""Parts that several learners share."""
