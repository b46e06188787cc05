"""What every other room uses: types, errors, random numbers, trees, masks, calls to the host, the backend."""
