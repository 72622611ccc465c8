"""The core: types, protocols, the session and its file, the adapter, the registry, kernels, what learners share."""
