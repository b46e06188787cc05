"""Used by all other packages: types, errors, random numbers, trees, masks, host calls, the backend."""
