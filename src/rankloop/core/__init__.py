"""The core: types, contracts, the session, the registry and the arithmetic everything shares."""
