"""The core: types, protocols, sessions and their files, the registry, kernels, and parts that learners share."""
